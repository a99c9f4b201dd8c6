package coalesce_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

func TestAWaitingFlightHasTheClassOfItsBestListener(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given two low flights that wait,
		blocker, blocking := s.start(t, c, admission.Interactive, s.terms())
		first, firstJob := s.start(t, a, admission.Low, s.terms())
		second, secondJob := s.start(t, b, admission.Low, s.terms())
		// when a better listener joins the second, then it waits as that one would, also when a worse one joins;
		better := s.join(t, b, admission.High)
		depths(t, s, [4]int{0, 1, 0, 1})
		worse := s.join(t, b, admission.Normal)
		depths(t, s, [4]int{0, 1, 0, 1})
		// it falls back when that one leaves;
		better.Close()
		depths(t, s, [4]int{0, 0, 1, 1})
		// and is the next.
		blocking.end(nil)
		synctest.Wait()
		if firstJob.renders.Load() != 0 || secondJob.renders.Load() != 1 {
			t.Error("the wrong one was next")
		}
		for _, l := range []*coalesce.Listener{blocker, first, second, worse} {
			l.Close()
		}
	})
}

func depths(t *testing.T, s *site, want [4]int) {
	t.Helper()
	if got := s.budget.Stats().Depths; got != want {
		t.Errorf("waiting by class: %v, want %v", got, want)
	}
}

func TestARenderIsCountedForTheClassOfItsBestListener(t *testing.T) {
	limits := two
	limits.ClassLimits[admission.Low] = 1
	inBubble(t, limits, func(t *testing.T, s *site) {
		// Given a low render, and another that waits because of the limit,
		l, _ := s.start(t, a, admission.Low, s.terms())
		other, _ := s.start(t, b, admission.Low, s.terms())
		s.check(t, 1, 1)
		// when the first gets a better listener, then the limit has room for the other.
		better := s.join(t, a, admission.Interactive)
		s.check(t, 2, 0)
		better.Close()
		if held := s.budget.Stats().HeldBy; held[admission.Low] != 2 {
			t.Errorf("held by classes: %v", held)
		}
		l.Close()
		other.Close()
	})
}

func TestASlotIsTakenForTheClassOfThatMoment(t *testing.T) {
	// A better listener may join between the grant of a slot and its being taken. The two race; whoever wins, the
	// slot is counted for that listener.
	for range 30 {
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		synctest.Test(t, func(t *testing.T) {
			var s *site
			var better *coalesce.Listener
			s = newSite(temp, admission.Limits{Slots: 1, Queue: 1}, admission.WithObserver(func(e admission.Event) {
				if e.Kind == admission.EventAcquired && e.Class == admission.Low {
					better = s.join(t, a, admission.High)
				}
			}))
			blocker, _ := s.start(t, b, admission.Interactive, s.terms())
			l, _ := s.start(t, a, admission.Low, s.terms())
			blocker.Close()
			s.check(t, 1, 0)
			if held := s.budget.Stats().HeldBy; held[admission.High] != 1 {
				t.Errorf("held by classes: %v", held)
			}
			l.Close()
			better.Close()
			s.group.Close()
		})
	}
}

func TestWhoJoinsWhatIsTurnedAwayIsAskedForAnew(t *testing.T) {
	// A better listener that joins just when the budget turns the flight away was not turned away itself. The two
	// race: whoever wins, that listener waits or starts a flight of its own.
	for range 30 {
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		synctest.Test(t, func(t *testing.T) {
			var s *site
			var joined *coalesce.Listener
			// Given a queue of one place,
			s = newSite(temp, admission.Limits{Slots: 1, Queue: 1}, admission.WithObserver(func(e admission.Event) {
				if e.Kind == admission.EventDisplaced && e.Class == admission.Low && joined == nil {
					joined, _ = s.group.JoinOrStart(a, admission.Interactive, newJob(s, a), s.terms())
				}
			}))
			blocker, _ := s.start(t, c, admission.Interactive, s.terms())
			low, _ := s.start(t, a, admission.Low, s.terms())
			// when a flight is displaced, and joined at that moment by a listener who could displace as well,
			high, _ := s.start(t, b, admission.Normal, s.terms())
			// then that one waits,
			ready := make(chan error, 1)
			go func() { ready <- joined.Ready(t.Context()) }()
			synctest.Wait()
			depths(t, s, [4]int{1, 0, 0, 0})
			select {
			case err := <-ready:
				t.Errorf("the better listener was told %v", err)
			default:
			}
			// and the one in whose place it waits was displaced.
			wantRefusal(t, high, admission.ErrDisplaced)
			s.group.Close()
			if err := <-ready; !errors.Is(err, coalesce.ErrCancelled) {
				t.Errorf("told %v", err)
			}
			for _, l := range []*coalesce.Listener{blocker, low, joined} {
				l.Close()
			}
			time.Sleep(time.Second)
			if err := s.idle(); err != nil {
				t.Error(err)
			}
		})
	}
}
