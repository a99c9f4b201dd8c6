package guard_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

func TestAPanicIsAnErrorWithItsStack(t *testing.T) {
	reports := make(chan *guard.Panic, 1)
	guard.OnPanic(func(p *guard.Panic) { reports <- p })
	err := guard.Do(func() error { panic(io.ErrUnexpectedEOF) })
	p, ok := errors.AsType[*guard.Panic](err)
	if !ok || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(string(p.Stack), "TestAPanicIsAnErrorWithItsStack") {
		t.Errorf("the stack does not lead here:\n%s", p.Stack)
	}
	if reported := <-reports; reported != p {
		t.Errorf("reported was %v", reported)
	}
}

func TestErrorsPassThrough(t *testing.T) {
	if err := guard.Do(func() error { return io.EOF }); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func TestAPanicInAGoroutineEndsTheGoroutineAlone(t *testing.T) {
	reports := make(chan *guard.Panic, 1)
	guard.OnPanic(func(p *guard.Panic) { reports <- p })
	done := make(chan struct{})
	guard.Go(func() {
		defer close(done)
		panic("of this goroutine")
	})
	<-done
	if p := <-reports; p.Value != "of this goroutine" {
		t.Errorf("reported was %v", p.Value)
	}
}
