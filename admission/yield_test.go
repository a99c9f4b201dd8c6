package admission_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// stops collects which yielding leases were told to stop, in order.
type stops []string

func (s *stops) told(name string) func() { return func() { *s = append(*s, name) } }

func (s stops) want(t *testing.T, names ...string) {
	t.Helper()
	if !slices.Equal(s, names) {
		t.Fatalf("told to stop: %v, want %v", []string(s), names)
	}
}

func TestTheNewestYieldingLeaseStopsForACaller(t *testing.T) {
	// Given two renders nobody listens to, in both slots
	var told stops
	b := admission.New(admission.Limits{Slots: 2, Queue: 2})
	older, newer := held(t, b, admission.Interactive), held(t, b, admission.Interactive)
	older.Yield(told.told("older"))
	newer.Yield(told.told("newer"))
	told.want(t)
	// When somebody would have to wait
	caller := queued(t, b, admission.Low)
	// Then the one that was marked last stops, once, and its slot goes to the
	// caller when the subprocess is gone and not before.
	told.want(t, "newer")
	if decided(caller) {
		t.Fatal("granted while the stopped render still has the slot")
	}
	if s := b.Stats(); s.Yielding != 1 || s.Stopping != 1 {
		t.Fatalf("yielding %d, stopping %d", s.Yielding, s.Stopping)
	}
	newer.Release()
	granted(t, caller)
	told.want(t, "newer")
	if s := b.Stats(); s.Yielding != 1 || s.Stopping != 0 {
		t.Fatalf("yielding %d, stopping %d", s.Yielding, s.Stopping)
	}
}

func TestYieldingLeasesGoOnWhileASlotIsFree(t *testing.T) {
	var told stops
	b := admission.New(admission.Limits{Slots: 2, Queue: 2})
	held(t, b, admission.Interactive).Yield(told.told("lease"))
	held(t, b, admission.Interactive)
	told.want(t)
}

func TestAVacatedSlotIsPromisedBeyondTheQueue(t *testing.T) {
	// Given no queue, and a render nobody listens to
	var told stops
	b := admission.New(admission.Limits{Slots: 1})
	lease := held(t, b, admission.Interactive)
	lease.Yield(told.told("lease"))
	// When a caller comes, then it is let in, for the slot that is vacated
	caller := queued(t, b, admission.Interactive)
	told.want(t, "lease")
	// and the next one is not.
	if _, _, err := b.Ask(context.Background(), admission.Interactive); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("a second caller for one slot got %v", err)
	}
	lease.Release()
	granted(t, caller)
}

func TestAVacatedSlotIsPromisedBeyondAShrunkQueue(t *testing.T) {
	// Given a yielding render that is no help to those who wait, more of them
	// than the shrunk queue has places
	limits := admission.Limits{Slots: 2, Queue: 2, ClassLimits: limitTo(admission.Low, 1)}
	var told stops
	b := admission.New(limits)
	held(t, b, admission.Low)
	lease := held(t, b, admission.High)
	low := []*admission.Ticket{queued(t, b, admission.Low), queued(t, b, admission.Low)}
	limits.Queue = 1
	b.SetLimits(limits)
	lease.Yield(told.told("lease"))
	told.want(t)
	// When somebody comes whom it does help, then nobody has to go for that.
	caller := queued(t, b, admission.Interactive)
	told.want(t, "lease")
	if decided(low[0]) || decided(low[1]) {
		t.Fatal("a waiter was displaced though the arrival takes no place")
	}
	lease.Release()
	granted(t, caller)
}

func TestABetterCallerTakesThePromisedSlot(t *testing.T) {
	// Given no queue, and a low caller that waits for a vacated slot
	b := admission.New(admission.Limits{Slots: 1})
	lease := held(t, b, admission.Interactive)
	lease.Yield(func() {})
	low := queued(t, b, admission.Low)
	// When an interactive one comes, then the class decides, as ever.
	interactive := queued(t, b, admission.Interactive)
	if _, err := low.Lease(); !errors.Is(err, admission.ErrDisplaced) {
		t.Fatalf("the low caller got %v", err)
	}
	lease.Release()
	granted(t, interactive)
}

func TestAPromiseThatWasGivenUpServesTheNextCaller(t *testing.T) {
	// Given two yielding leases, one told to stop for a caller that left
	var told stops
	b := admission.New(admission.Limits{Slots: 2})
	kept, vacated := held(t, b, admission.Interactive), held(t, b, admission.Interactive)
	kept.Yield(told.told("kept"))
	vacated.Yield(told.told("vacated"))
	queued(t, b, admission.Interactive).GiveUp()
	told.want(t, "vacated")
	// When the next one comes, then it gets that slot, and no other stops.
	caller := queued(t, b, admission.Interactive)
	told.want(t, "vacated")
	vacated.Release()
	granted(t, caller)
}

func TestYieldingWhileSomebodyWaitsStopsAtOnce(t *testing.T) {
	var told stops
	b := admission.New(admission.Limits{Slots: 2, Queue: 2})
	first, second := held(t, b, admission.Interactive), held(t, b, admission.Interactive)
	queued(t, b, admission.Interactive)
	first.Yield(told.told("first"))
	told.want(t, "first")
	// But only as many as the waiters can use.
	second.Yield(told.told("second"))
	told.want(t, "first")
}

func TestTakingTheMarkBack(t *testing.T) {
	var told stops
	b := admission.New(admission.Limits{Slots: 2, Queue: 2})
	again, other := held(t, b, admission.Interactive), held(t, b, admission.Interactive)
	// Given a listener that came back in time
	again.Yield(told.told("again"))
	for range 2 { // the second time there is nothing to take back, and it is not too late either
		if !again.Unyield() {
			t.Fatal("the mark was not taken back")
		}
	}
	// When somebody waits, then its render goes on.
	queued(t, b, admission.Interactive)
	told.want(t)
	// Given one that came back too late, then it is told so.
	other.Yield(told.told("other"))
	told.want(t, "other")
	if other.Unyield() {
		t.Fatal("the mark was taken back after the lease was told to stop")
	}
	other.Release()
	if other.Unyield() {
		t.Fatal("the mark of a released lease was taken back")
	}
}

func TestMarkingAgainReplacesTheFunction(t *testing.T) {
	var told stops
	b := admission.New(admission.Limits{Slots: 1, Queue: 2})
	lease := held(t, b, admission.Interactive)
	lease.Yield(told.told("first"))
	lease.Yield(told.told("second"))
	queued(t, b, admission.Interactive)
	lease.Yield(told.told("third"))
	told.want(t, "second")
}

func TestOnlyALeaseWhoseStopHelpsIsStopped(t *testing.T) {
	// Given a low render, and a yielding normal one newer than a yielding low one
	var told stops
	b := admission.New(admission.Limits{Slots: 3, Queue: 2, ClassLimits: limitTo(admission.Low, 1)})
	low, normal := held(t, b, admission.Low), held(t, b, admission.Normal)
	low.Yield(told.told("low"))
	normal.Yield(told.told("normal"))
	// When a low caller comes, which the limit of low keeps out
	caller := queued(t, b, admission.Low)
	// Then the low one stops for it: the end of the normal one is no help.
	told.want(t, "low")
	low.Release()
	granted(t, caller)
	// And one that nothing helps waits, with nobody stopped in vain.
	queued(t, b, admission.Low)
	told.want(t, "low")
}

func TestAYieldingLeaseOfAnOldGenerationIsLeftAlone(t *testing.T) {
	var told stops
	b := admission.New(admission.Limits{Slots: 1})
	lease := held(t, b, admission.Interactive)
	lease.Yield(told.told("lease"))
	b.Drain()
	held(t, b, admission.Interactive)
	if _, _, err := b.Ask(context.Background(), admission.Interactive); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("got %v", err)
	}
	told.want(t)
	if !lease.Unyield() {
		t.Fatal("it was not told to stop, so it may go on")
	}
	lease.Yield(told.told("lease"))
	lease.Release()
	told.want(t)
	check(t, b, 1, 0)
}

func TestAStoppedRenderCountsForTheClassItHasNow(t *testing.T) {
	// Given a low lease that was told to stop for a low caller
	b := admission.New(admission.Limits{Slots: 2, ClassLimits: limitTo(admission.Low, 1)})
	lease := held(t, b, admission.Low)
	lease.Yield(func() {})
	caller := queued(t, b, admission.Low)
	// When its class changes while it is being stopped
	lease.SetClass(admission.High)
	// Then the caller fits, no low slot is promised to the next one,
	granted(t, caller)
	if _, _, err := b.Ask(context.Background(), admission.Low); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("the end of a high render was promised to a low caller: %v", err)
	}
	// and nothing is counted twice when it is gone.
	lease.Release()
	if s := b.Stats(); s.Held != 1 || s.HeldBy != limitTo(admission.Low, 1) || s.Stopping != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestYieldingAfterAShrinkStopsAsManyAsItTakes(t *testing.T) {
	// Given two yielding leases and only one slot left
	var told stops
	b := admission.New(admission.Limits{Slots: 2})
	first, second := held(t, b, admission.Interactive), held(t, b, admission.Interactive)
	b.SetLimits(admission.Limits{Slots: 1})
	first.Yield(told.told("first"))
	second.Yield(told.told("second"))
	// When a caller comes, then both must go for it to have the slot.
	caller := queued(t, b, admission.Interactive)
	told.want(t, "second", "first")
	second.Release()
	if decided(caller) {
		t.Fatal("granted beyond the slots")
	}
	first.Release()
	granted(t, caller)
}
