package coalesce

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// In the package, since nobody else can hold a listener between its look at a spool and its read.
func TestAReadThatCrossesTheMoveToAnotherSpoolReadsOnThere(t *testing.T) {
	dir := t.TempDir()
	open := func(name, text string) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	// Given a listener that has looked at a spool which is closed by now,
	f := newFlight(NewGroup(admission.New(admission.Limits{Slots: 1})), store.ID{}, nil, Terms{})
	defer f.cancel(nil)
	first, second := open("first", "one"), open("second", "one two")
	f.live, f.visible = first, 3
	first.Close()
	l := f.add(admission.Interactive)
	// when the flight moves to another,
	time.AfterFunc(5*time.Millisecond, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.live, f.visible = second, 7
	})
	// then it reads there.
	var p [10]byte
	if n, err := l.Read(p[:]); err != nil || string(p[:n]) != "one two" {
		t.Errorf("read %q, %v", p[:n], err)
	}
}
