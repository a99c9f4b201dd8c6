package coalesce_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

// full is what a job says when the disk is full.
var full = fmt.Errorf("writing: %w", coalesce.ErrNoSpace)

func TestADiskThatIsFullIsTriedAgainWhenTheStoreMadeRoom(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a store that can make room, and a render that has been heard in part,
		s.store.room = true
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("one two ")
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		var piece [4]byte
		if n, err := l.Read(piece[:]); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		// when the disk is full,
		j.end(full)
		j.write("one ")
		// then whoever listens reads on in what there is, while the next spool comes to that point,
		if n, err := l.Read(piece[:]); string(piece[:n]) != "two " || err != nil {
			t.Errorf("heard %q, %v", piece[:n], err)
		}
		j.write("two three")
		time.Sleep(time.Second)
		if n := s.spools(t); n != 1 {
			t.Errorf("kept the room of %d spools", n)
		}
		j.end(nil)
		// and then in that one.
		if rest, err := hearRest(l); rest != "three" {
			t.Errorf("heard %q, %v", rest, err)
		}
		l.Close()
		if sum := s.lastEnding(t); !sum.Stored || sum.Err != nil {
			t.Errorf("told %+v", sum)
		}
		if len(s.store.asked) != 1 || s.store.asked[0] < 2*int64(len("one two ")) {
			t.Errorf("asked for room: %v", s.store.asked)
		}
	})
}

func TestWhatFitsNowhereInTheStoreIsDeliveredAndNotKept(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		s.store.room = true
		l, j := s.start(t, a, admission.Interactive, s.terms())
		for range 2 {
			j.write("one ")
			j.end(full)
		}
		j.write("one two")
		j.end(nil)
		want(t, l, "one two")
		if sum := s.lastEnding(t); sum.Stored || !errors.Is(sum.StoreErr, coalesce.ErrNoSpace) || sum.Err != nil {
			t.Errorf("told %+v", sum)
		}
		if s.store.stages != 2 || s.store.kept(a) != "" {
			t.Errorf("%d stages, kept %q", s.store.stages, s.store.kept(a))
		}
	})
}

func TestADiskThatIsFullEverywhereIsAnError(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.end(full)
		j.end(full)
		wantEnding(t, l, coalesce.ErrNoSpace)
	})
}

func TestAStagingFolderThatIsGoneCostsNobodyTheirVariant(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		s.store.stageErr = errors.New("no such folder")
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("whole")
		j.end(nil)
		want(t, l, "whole")
		if sum := s.lastEnding(t); sum.Err != nil || !errors.Is(sum.StoreErr, s.store.stageErr) {
			t.Errorf("told %+v", sum)
		}
	})
}

func TestASecondRenderThatEndsShortIsNoEnd(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a listener who has heard more of the first render
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("one two three")
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		// than there is in the second,
		j.end(full)
		j.write("one")
		j.end(nil)
		// then what was heard is not called complete.
		if err := l.Complete(t.Context()); err == nil {
			t.Error("told that it is complete")
		}
		l.Close()
		if s.store.kept(a) != "" {
			t.Error("it was kept")
		}
	})
}

func TestNothingIsTriedAgainForNobody(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		s.store.room = true
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.die = make(chan struct{})
		l.Close()
		close(j.die)
		if n := s.lastEnding(t); !errors.Is(n.Err, coalesce.ErrCancelled) || j.renders.Load() != 1 {
			t.Errorf("rendered %d times, told %v", j.renders.Load(), n.Err)
		}
	})
}
