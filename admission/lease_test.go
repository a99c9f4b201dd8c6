package admission_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestReleasingTwiceChangesNothing(t *testing.T) {
	// Given a lease that was released, and its slot held by another
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	lease := held(t, b, admission.Interactive)
	copied := lease
	lease.Release()
	lease.Release()
	check(t, b, 0, 0)
	held(t, b, admission.Interactive)
	// When it is released again, by way of any copy, then the other keeps it.
	lease.Release()
	copied.Release()
	check(t, b, 1, 0)
}

func TestTheZeroLeaseIsNone(t *testing.T) {
	var none admission.Lease
	none.Release()
	none.SetClass(admission.Low)
	none.Yield(func() { t.Fatal("told to stop") })
	if none.Valid() || none.Unyield() {
		t.Fatal("the zero lease is valid")
	}
}

func TestLateReleaseAfterACloseCorruptsNoCount(t *testing.T) {
	// Given a lease that outlives the closing of its budget
	var events atomic.Int64
	b := admission.New(admission.Limits{Slots: 1, Queue: 1}, admission.WithObserver(func(admission.Event) { events.Add(1) }))
	lease := held(t, b, admission.Interactive)
	b.Close()
	before := b.Stats()
	told := events.Load()
	// When it is released, twice, then nothing moves and nothing is told.
	lease.Release()
	lease.Release()
	if after := b.Stats(); after != before || after.Held != 0 || events.Load() != told {
		t.Fatalf("the stats went from %+v to %+v", before, after)
	}
	if _, _, err := b.Ask(context.Background(), admission.Interactive); err == nil {
		t.Fatal("the release resurrected a slot")
	}
}

func TestADroppedLeaseFindsItsWayBack(t *testing.T) {
	// Given a slot whose owner has forgotten it, and a waiter
	var log logged
	var leaked atomic.Pointer[admission.Event]
	start := time.Now()
	b := admission.New(admission.Limits{Slots: 1, Queue: 1},
		admission.WithClock(func() time.Duration { return time.Since(start) }), // the garbage is collected within a millisecond
		admission.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		admission.WithObserver(func(e admission.Event) {
			if e.Kind == admission.EventLeaked {
				leaked.Store(&e)
			}
		}))
	forgotten(t, b, admission.High)
	waiter := queued(t, b, admission.Low)
	// When the garbage is collected, then the waiter gets the slot
	until(t, "the slot is found again", func() bool {
		runtime.GC()
		return decided(waiter)
	})
	lease := granted(t, waiter)
	// and the leak is counted, told and logged.
	until(t, "the leak is told", func() bool { return leaked.Load() != nil })
	if s := b.Stats(); s.Leaked != 1 || s.Held != 1 {
		t.Fatalf("leaked %d, held %d", s.Leaked, s.Held)
	}
	if e := leaked.Load(); e.Class != admission.High || e.Hold <= 0 {
		t.Fatalf("the event is %+v", *e)
	}
	lease.Release()
	check(t, b, 0, 0)
	until(t, "the leak is logged", func() bool { return log.has("level=ERROR") && log.has("class=high") })
}

func TestAnUntakenLeaseOfADroppedTicketFindsItsWayBack(t *testing.T) {
	// Given a waiter whose goroutine died, and another behind it
	b := admission.New(admission.Limits{Slots: 1, Queue: 2})
	lease := forgotten(t, b, admission.Interactive)
	queuedWith(context.Background(), t, b, admission.Interactive)
	second := queued(t, b, admission.Interactive)
	// When the slot is granted to the dead one
	lease.Release()
	// Then it comes back, and the budget is as large as before.
	until(t, "the slot is found again", func() bool {
		runtime.GC()
		return decided(second)
	})
	granted(t, second).Release()
	check(t, b, 0, 0)
}

func TestALeaseThatIsKeptIsNotALeak(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 2, Queue: 2})
	// Given a handle that was used before and is held again
	held(t, b, admission.Interactive).Release()
	lease := held(t, b, admission.Interactive)
	// When the garbage is collected, then the lease stays held.
	for range 5 {
		runtime.GC()
	}
	if s := b.Stats(); s.Held != 1 || s.Leaked != 0 {
		t.Fatalf("held %d, leaked %d", s.Held, s.Leaked)
	}
	lease.Release()
}

func TestABudgetIsCollectedAlthoughItHasHandles(t *testing.T) {
	// Given a budget with free handles that nobody refers to any more
	collected := make(chan struct{})
	func() {
		b := admission.New(admission.Limits{Slots: 2, Queue: 2})
		forgotten(t, b, admission.Interactive).Release()
		runtime.AddCleanup(b, func(done chan struct{}) { close(done) }, collected)
	}()
	// When the garbage is collected, then it is garbage.
	until(t, "the budget is collected", func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
}

func TestAskAndReleaseAllocateNothing(t *testing.T) {
	var told int
	b := admission.New(admission.Limits{Slots: 4, Queue: 4, ClassLimits: [admission.NumClasses]int{admission.Low: 1}},
		admission.WithObserver(func(admission.Event) { told++ }))
	ctx := context.Background()
	allocs := testing.AllocsPerRun(100, func() {
		lease, _, _ := b.Ask(ctx, admission.Low)
		lease.Release()
	})
	if allocs != 0 || told == 0 {
		t.Fatalf("%v allocations for asking and releasing, %d events", allocs, told)
	}
}
