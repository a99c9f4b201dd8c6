package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

func TestARenderThatTakesTooLongIsStopped(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("half")
		before := time.Now()
		if err := l.Complete(t.Context()); !errors.Is(err, coalesce.ErrTimeout) {
			t.Errorf("told %v", err)
		}
		if took := time.Since(before); took != time.Minute {
			t.Errorf("after %v", took)
		}
		l.Close()
		s.check(t, 0, 0)
	})
}

func TestWaitingTooLongForASlotIsARefusal(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		patient := s.terms()
		patient.Timeout = time.Hour
		blocker, _ := s.start(t, b, admission.Interactive, patient)
		l, j := s.start(t, a, admission.Interactive, s.terms())
		wantRefusal(t, l, admission.ErrTimeout)
		s.check(t, 1, 0)
		if j.renders.Load() != 0 {
			t.Error("it was rendered all the same")
		}
		blocker.Close()
	})
}

func TestWaitingTooLongForThePredecessorIsARefusal(t *testing.T) {
	inBubble(t, two, func(t *testing.T, s *site) {
		// Given an encoder that does not die,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.die = make(chan struct{})
		l.Close()
		// when the same is asked for again, then the listener does not wait for ever.
		again, _ := s.start(t, a, admission.Interactive, s.terms())
		wantRefusal(t, again, admission.ErrTimeout)
		close(j.die)
	})
}

// wantRefusal is wantEnding for those that say when to come back.
func wantRefusal(t *testing.T, l *coalesce.Listener, ending error) {
	t.Helper()
	defer l.Close()
	err := l.Ready(t.Context())
	r, ok := errors.AsType[*admission.Refusal](err)
	if !ok || !errors.Is(err, ending) || errors.Is(err, coalesce.ErrTimeout) || r.RetryAfter < time.Second {
		t.Errorf("told %#v, want a refusal because of %v", err, ending)
	}
}

func TestWhatIsTurnedAwayAtOnceCostsNothing(t *testing.T) {
	inBubble(t, admission.Limits{Slots: 1}, func(t *testing.T, s *site) {
		blocker, _ := s.start(t, b, admission.Interactive, s.terms())
		l, j := s.start(t, a, admission.Interactive, s.terms())
		wantRefusal(t, l, admission.ErrFull)
		synctest.Wait()
		if j.prepares.Load() != 0 || j.closes.Load() != 1 {
			t.Errorf("prepared %d times, closed %d times", j.prepares.Load(), j.closes.Load())
		}
		blocker.Close()
	})
}

func TestWhatWaitsIsNotPrepared(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a flight that waits, when time passes, then nothing looks at its source before its turn.
		blocker, _ := s.start(t, b, admission.Interactive, s.terms())
		l, j := s.start(t, a, admission.Interactive, s.terms())
		time.Sleep(time.Second)
		if n := j.prepares.Load(); n != 0 {
			t.Errorf("prepared %d times while waiting", n)
		}
		blocker.Close()
		synctest.Wait()
		if n := j.prepares.Load(); n != 1 {
			t.Errorf("prepared %d times in its turn", n)
		}
		l.Close()
	})
}

func TestAFlightMayHaveNothingToRender(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		j := newJob(s, a)
		j.prepare = func(context.Context) error {
			time.Sleep(time.Second)
			return fmt.Errorf("the facts are known: %w", coalesce.ErrPrepared)
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.unstored())
		second := s.join(t, a, admission.Low)
		for _, l := range []*coalesce.Listener{l, second} {
			if err := l.Complete(t.Context()); err != nil {
				t.Errorf("told %v", err)
			}
			l.Close()
		}
		// Then its slot is free at once, and it is gone: there is no file that somebody might come for.
		synctest.Wait()
		if j.renders.Load() != 0 || j.closes.Load() != 1 {
			t.Errorf("rendered %d times, closed %d times", j.renders.Load(), j.closes.Load())
		}
		s.check(t, 0, 0)
	})
}

func TestAPreparationThatFailsGivesTheSlotBack(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		j := newJob(s, a)
		unsupported := errors.New("no such filter")
		j.prepare = func(context.Context) error {
			time.Sleep(time.Second)
			return unsupported
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		s.check(t, 1, 0)
		wantEnding(t, l, unsupported)
		s.check(t, 0, 0)
	})
}

func TestAPreparationDoesNotHoldASlotForEver(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		j := newJob(s, a)
		j.prepare = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		wantEnding(t, l, coalesce.ErrTimeout)
		s.check(t, 0, 0)
	})
}

func TestWhatIsCancelledWhileItPreparesIsNotRendered(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a preparation that takes its time to stop, and sees no error in having to,
		j := newJob(s, a)
		j.prepare = func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		// when its listener leaves, then the slot is back when it has stopped, and there was no encoder.
		l.Close()
		s.check(t, 1, 0)
		time.Sleep(time.Second)
		s.check(t, 0, 0)
		if j.renders.Load() != 0 {
			t.Error("rendered for nobody")
		}
	})
}

func TestWhoIsTurnedAwayDoesNotWaitForThePreparation(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a flight that prepares while it waits,
		blocker, _ := s.start(t, b, admission.Interactive, s.terms())
		j := newJob(s, a)
		j.prepare = func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return ctx.Err()
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		// when it is ended, then that is told at once, and the job is closed when it has stopped.
		before := time.Now()
		s.group.Cancel(a.Key)
		wantEnding(t, l, coalesce.ErrCancelled)
		if waited := time.Since(before); waited > 0 {
			t.Errorf("told after %v", waited)
		}
		blocker.Close()
	})
}

func TestPreparationAndRenderShareTheTime(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		j := newJob(s, a)
		j.prepare = func(context.Context) error {
			time.Sleep(40 * time.Second)
			return nil
		}
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		before := time.Now()
		wantEnding(t, l, coalesce.ErrTimeout)
		if took := time.Since(before); took != time.Minute {
			t.Errorf("the slot was held for %v", took)
		}
	})
}

func TestAVariantThatGrowsTooLargeIsStoppedAndNotKept(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms := s.terms()
		terms.MaxSize = 5
		// Whether it grows slowly,
		l, j := s.start(t, a, admission.Interactive, terms)
		j.write("123456")
		wantEnding(t, l, coalesce.ErrTooLarge)
		// or is there before anybody looks.
		l, j = s.start(t, a, admission.Interactive, terms)
		j.hide("123456")
		j.end(nil)
		wantEnding(t, l, coalesce.ErrTooLarge)
		if s.store.kept(a) != "" {
			t.Error("it was kept")
		}
		l, j = s.start(t, a, admission.Interactive, terms)
		j.write("12345")
		j.end(nil)
		want(t, l, "12345")
	})
}

func TestAPanicCostsOneRender(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		wantPanic := func(l *coalesce.Listener) {
			t.Helper()
			defer l.Close()
			if err := l.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: a bug") {
				t.Errorf("told %v", err)
			}
			s.check(t, 0, 0)
		}
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.panic()
		wantPanic(l)

		j = newJob(s, a)
		j.prepare = func(context.Context) error { panic("a bug") }
		l, _ = s.startJob(t, j, admission.Interactive, s.terms())
		wantPanic(l)
	})
}

func TestCancelEndsAKeyInAllScopes(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a key that is rendered in one scope, prepared while it waits in another, and another key,
		elsewhere := store.ID{Scope: strings.Repeat("1", 16), Key: a.Key}
		rendering, j := s.start(t, a, admission.Interactive, s.terms())
		j.die = make(chan struct{})
		j.write("half")
		asking := newJob(s, elsewhere)
		asking.prepare = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		waiting, _ := s.startJob(t, asking, admission.Interactive, s.terms())
		other, next := s.start(t, b, admission.Interactive, s.terms())
		// when it is cancelled,
		if n := s.group.Cancel(a.Key); n != 2 {
			t.Errorf("ended %d flights", n)
		}
		if s.group.Going(a) {
			t.Error("it still goes on")
		}
		// then all its listeners are told so, and the other key is rendered next.
		wantEnding(t, waiting, coalesce.ErrCancelled)
		close(j.die)
		if err := rendering.Complete(t.Context()); !errors.Is(err, coalesce.ErrCancelled) {
			t.Errorf("told %v", err)
		}
		rendering.Close()
		next.write("b")
		next.end(nil)
		want(t, other, "b")
	})
}

func TestCloseTellsEverybodyAndStartsNothing(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		rendering, _ := s.start(t, a, admission.Interactive, s.terms())
		waiting, _ := s.start(t, b, admission.Interactive, s.terms())
		s.group.Close()
		wantEnding(t, rendering, coalesce.ErrCancelled)
		wantEnding(t, waiting, coalesce.ErrCancelled)

		j := newJob(s, c)
		late, started := s.group.JoinOrStart(c, admission.Interactive, j, s.terms())
		if started || j.closes.Load() != 1 {
			t.Errorf("started %v, closed %d times", started, j.closes.Load())
		}
		wantEnding(t, late, coalesce.ErrCancelled)
		s.group.Close()
	})
}

func TestAJobMayEndTheGroupWithItsClose(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a job that holds the last reference to what the group belongs to,
		j := newJob(s, a)
		j.onClose = s.group.Close
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		j.write("whole")
		j.end(nil)
		want(t, l, "whole")
		// then its end does not wait for itself (the bubble would say so).
		synctest.Wait()
		if j.closes.Load() != 1 {
			t.Error("the job was not closed")
		}
	})
}

func TestAJobThatIsNotNeededIsClosedOutsideOfTheLock(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.terms())
		unneeded := newJob(s, a)
		unneeded.onClose = func() { s.group.Flights() }
		second, started := s.group.JoinOrStart(a, admission.Interactive, unneeded, s.terms())
		if started || unneeded.closes.Load() != 1 || j.closes.Load() != 0 {
			t.Error("the wrong job was closed")
		}
		second.Close()
		l.Close()
	})
}

func TestFlightsTellsWhatGoesOn(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Low, s.terms())
		waiting, other := s.start(t, b, admission.Normal, s.terms())
		j.write("12345")
		time.Sleep(time.Second)
		for _, f := range s.group.Flights() {
			job, class, rendering, bytes := other, admission.Normal, false, int64(0)
			if f.ID == a {
				job, class, rendering, bytes = j, admission.Low, true, 5
			}
			if f.Job != job {
				t.Error("told of another job")
			}
			if f.Class != class || f.Rendering != rendering || f.Bytes != bytes || f.Listeners != 1 || f.Age != time.Second {
				t.Errorf("told %+v", f)
			}
		}
		l.Close()
		waiting.Close()
	})
}
