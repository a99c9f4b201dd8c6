package coalesce_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

func TestWhoLeavesTakesNothingFromTheOthers(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a render with two listeners,
		first, j := s.start(t, a, admission.Interactive, s.terms())
		second := s.join(t, a, admission.Interactive)
		j.write("one ")
		// when the one who started it leaves, twice,
		first.Close()
		first.Close()
		// then the other, and one who comes later, hear it all.
		third := s.join(t, a, admission.Interactive)
		j.write("two")
		j.end(nil)
		want(t, second, "one two")
		want(t, third, "one two")
	})
}

func TestTheLastToLeaveGivesUpThePlaceInTheQueue(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a queue of flights,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		gone, unused := s.start(t, b, admission.Interactive, s.terms())
		live, next := s.start(t, c, admission.Interactive, s.terms())
		s.check(t, 1, 2)
		// when the listener of one leaves,
		gone.Close()
		// then its place is free at once, and it is never rendered.
		s.check(t, 1, 1)
		j.write("a")
		j.end(nil)
		want(t, l, "a")
		next.write("c")
		next.end(nil)
		want(t, live, "c")
		if unused.renders.Load() != 0 || unused.closes.Load() != 1 {
			t.Errorf("rendered %d times, closed %d times", unused.renders.Load(), unused.closes.Load())
		}
	})
}

func TestTheSlotIsGivenBackWhenTheEncoderIsGone(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given an encoder that takes its time to die,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.die = make(chan struct{})
		j.write("half")
		// when the last listener leaves, then its slot is taken until it is dead.
		l.Close()
		other, next := s.start(t, b, admission.Interactive, s.terms())
		s.check(t, 1, 1)
		if next.renders.Load() != 0 {
			t.Error("there are more encoders than slots")
		}
		close(j.die)
		s.check(t, 1, 0)
		next.write("b")
		next.end(nil)
		want(t, other, "b")
	})
}

func TestASuccessorWaitsForTheEncoderBeforeIt(t *testing.T) {
	inBubble(t, two, func(t *testing.T, s *site) {
		// Given an encoder that takes its time to die after its listener left,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.die = make(chan struct{})
		l.Close()
		// when the same is asked for again, given up, and asked for once more,
		impatient, second := s.start(t, a, admission.Interactive, s.terms())
		impatient.Close()
		synctest.Wait()
		if second.closes.Load() != 1 {
			t.Error("who leaves before its turn still holds the source")
		}
		patient, third := s.start(t, a, admission.Interactive, s.terms())
		// then nothing of it starts until that encoder is gone.
		s.check(t, 1, 0)
		if third.prepares.Load()+third.renders.Load() != 0 {
			t.Error("the successor did not wait")
		}
		close(j.die)
		third.write("whole")
		third.end(nil)
		want(t, patient, "whole")
		if second.renders.Load() != 0 {
			t.Error("rendered for nobody")
		}
	})
}

func TestASuccessorDoesNotWaitForWhatOnlyLingers(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a complete variant that was struck off the list,
		l, j := s.start(t, a, admission.Interactive, s.unstored())
		j.write("old")
		j.end(nil)
		want(t, l, "old")
		if n := s.group.Cancel(a.Key); n != 0 {
			t.Errorf("%d flights were ended that had ended already", n)
		}
		synctest.Wait()
		if err := s.idle(); err != nil {
			t.Errorf("it lingers for nobody: %v", err)
		}
		// when it is asked for again, then it is rendered at once.
		before := time.Now()
		l, j = s.start(t, a, admission.Interactive, s.unstored())
		j.write("new")
		j.end(nil)
		want(t, l, "new")
		if waited := time.Since(before); waited > 100*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestLeavingWhileItIsBeingStoredLosesNothing(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a render that has ended, and is being put into the store,
		s.store.putting = make(chan struct{})
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("whole")
		j.end(nil)
		synctest.Wait()
		// when the last listener leaves, and another comes,
		l.Close()
		late, unused := s.start(t, a, admission.Interactive, s.terms())
		close(s.store.putting)
		// then it is in the store, and the other finds it there.
		wantEnding(t, late, coalesce.ErrStored)
		if s.store.kept(a) != "whole" || unused.renders.Load() != 0 {
			t.Errorf("kept %q, rendered %d times more", s.store.kept(a), unused.renders.Load())
		}
	})
}

// finishing are the terms under which a render that nobody listens to goes on.
func (s *site) finishing() coalesce.Terms {
	terms := s.terms()
	terms.FinishAbandoned = true
	return terms
}

func TestAnAbandonedRenderIsFinishedForTheStore(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.finishing())
		j.write("whole")
		l.Close()
		s.check(t, 1, 0)
		j.end(nil)
		synctest.Wait()
		if kept := s.store.kept(a); kept != "whole" {
			t.Errorf("kept %q", kept)
		}
	})
}

func TestAnAbandonedRenderIsOfNoUseWithoutAStore(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms := s.finishing()
		terms.Store = nil
		l, _ := s.start(t, a, admission.Interactive, terms)
		l.Close()
		s.check(t, 0, 0)
	})
}

func TestAnAbandonedRenderMakesWay(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given an abandoned render, whose encoder will take its time to die,
		l, j := s.start(t, a, admission.Interactive, s.finishing())
		j.die = make(chan struct{})
		l.Close()
		// when somebody needs its slot,
		other, next := s.start(t, b, admission.Low, s.terms())
		// then it is stopped; who asks for it now gets a fresh one, and nobody an error.
		again, fresh := s.start(t, a, admission.Interactive, s.terms())
		close(j.die)
		synctest.Wait()
		next.write("b")
		next.end(nil)
		want(t, other, "b")
		fresh.write("whole")
		fresh.end(nil)
		want(t, again, "whole")
	})
}

func TestARenderIsAbandonedAtOnceWhereSomebodyWaits(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, _ := s.start(t, a, admission.Interactive, s.finishing())
		other, next := s.start(t, b, admission.Low, s.terms())
		l.Close()
		s.check(t, 1, 0)
		next.write("b")
		next.end(nil)
		want(t, other, "b")
	})
}

func TestAnAbandonedRenderThatIsJoinedAgainStays(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a render that was abandoned and joined again,
		l, j := s.start(t, a, admission.Low, s.finishing())
		j.write("one ")
		l.Close()
		back := s.join(t, a, admission.Interactive)
		// when somebody else needs a slot, then it is not the one to go;
		other, next := s.start(t, b, admission.Interactive, s.terms())
		s.check(t, 1, 1)
		if held := s.budget.Stats().HeldBy; held[admission.Interactive] != 1 {
			t.Errorf("held by classes: %v", held)
		}
		j.write("two")
		j.end(nil)
		want(t, back, "one two")
		next.end(nil)
		other.Close()
	})
}
