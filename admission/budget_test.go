package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestGrantsUpToCapacityAndQueuesAfterIt(t *testing.T) {
	// Given a budget of two slots
	b := admission.New(admission.Limits{Slots: 2, Queue: 5})
	// When three ask
	first := held(t, b, admission.Interactive)
	held(t, b, admission.Interactive)
	third := queued(t, b, admission.Interactive)
	// Then two have a slot and the third gets the first that is given back.
	check(t, b, 2, 1)
	if decided(third) {
		t.Fatal("the third was decided while both slots were held")
	}
	first.Release()
	granted(t, third)
	check(t, b, 2, 0)
}

func TestRefusesWithRetryAfterOnceTheQueueIsFull(t *testing.T) {
	// Given one slot that is held and a queue of one that is full
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	held(t, b, admission.Interactive)
	queued(t, b, admission.Interactive)
	// When another asks
	lease, ticket, err := b.Ask(context.Background(), admission.Interactive)
	// Then it is refused at once and told when to come back.
	var refusal *admission.Refusal
	if lease.Valid() || ticket != nil || !errors.As(err, &refusal) || !errors.Is(err, admission.ErrFull) {
		t.Fatalf("lease %v, ticket %v, error %v; want a refusal because the queue is full", lease.Valid(), ticket, err)
	}
	if refusal.RetryAfter < time.Second || refusal.Reason != admission.Full || refusal.Class != admission.Interactive {
		t.Fatalf("the refusal is %+v", *refusal)
	}
	check(t, b, 1, 1)
}

func TestQueueOfZeroMeansNoWaiting(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1})
	lease := held(t, b, admission.Interactive)
	if _, _, err := b.Ask(context.Background(), admission.Interactive); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("asking with no queue and no slot: %v", err)
	}
	lease.Release()
	held(t, b, admission.Interactive)
}

func TestReleaseGrantsInArrivalOrder(t *testing.T) {
	// Given four waiters of one class
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	lease := held(t, b, admission.Interactive)
	var waiters []*admission.Ticket
	for range 4 {
		waiters = append(waiters, queued(t, b, admission.Interactive))
	}
	// When the slot comes back again and again, then they get it in turn.
	for i, next := range waiters {
		lease.Release()
		lease = granted(t, next)
		for _, later := range waiters[i+1:] {
			if decided(later) {
				t.Fatalf("waiter %d was not the only one to be granted", i)
			}
		}
	}
}

func TestHighestClassFirstNotOldest(t *testing.T) {
	// Given waiters that came worst class first
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	lease := held(t, b, admission.Interactive)
	var waiters [admission.NumClasses]*admission.Ticket
	for i := range waiters {
		c := admission.Class(admission.NumClasses - 1 - i)
		waiters[c] = queued(t, b, c)
	}
	// When the slot comes back, then the best class gets it, not the oldest.
	for _, next := range waiters {
		lease.Release()
		lease = granted(t, next)
	}
}

func TestFIFOWithinAClass(t *testing.T) {
	// Given waiters of two classes that came in turns
	b := admission.New(admission.Limits{Slots: 1, Queue: 6})
	lease := held(t, b, admission.Interactive)
	var high, low []*admission.Ticket
	for range 3 {
		low = append(low, queued(t, b, admission.Low))
		high = append(high, queued(t, b, admission.High))
	}
	// When the slot comes back again and again, then each class keeps its order.
	for _, next := range append(high, low...) {
		lease.Release()
		lease = granted(t, next)
	}
}

func TestAskingWithAContextThatIsOver(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if lease, ticket, err := b.Ask(ctx, admission.Interactive); lease.Valid() || ticket != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("lease %v, ticket %v, error %v", lease.Valid(), ticket, err)
	}
	check(t, b, 0, 0)
}

func TestAskingForAnUnknownClassIsAnError(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	if _, _, err := b.Ask(context.Background(), admission.NumClasses); err == nil {
		t.Fatal("a class that does not exist was let in")
	}
}

func TestAcquireWaitsForItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// Given a slot that comes back in three seconds
		b := admission.New(admission.Limits{Slots: 1, Queue: 1})
		lease := held(t, b, admission.Interactive)
		time.AfterFunc(3*time.Second, lease.Release)
		// When somebody acquires, then it waits just as long.
		start := time.Now()
		got, err := b.Acquire(t.Context(), admission.Interactive)
		if err != nil || time.Since(start) != 3*time.Second {
			t.Fatalf("error %v after %s", err, time.Since(start))
		}
		got.Release()
		check(t, b, 0, 0)
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := admission.New(admission.Limits{Slots: 1, Queue: 1})
		lease := held(t, b, admission.Interactive)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Acquire(ctx, admission.Interactive); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("acquiring with a context that ended: %v", err)
		}
		synctest.Wait()
		check(t, b, 1, 0)
		lease.Release()
		check(t, b, 0, 0)
	})
}

func TestAcquireIsRefusedLikeAsk(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1})
	held(t, b, admission.Interactive)
	if _, err := b.Acquire(t.Context(), admission.Interactive); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("acquiring with no queue and no slot: %v", err)
	}
}

func TestRaisingTheLimitWakesWaiters(t *testing.T) {
	// Given one slot and three waiters
	b := admission.New(admission.Limits{Slots: 1, Queue: 3})
	held(t, b, admission.Interactive)
	first, second, third := queued(t, b, admission.Low), queued(t, b, admission.High), queued(t, b, admission.Low)
	// When there are three slots
	b.SetLimits(admission.Limits{Slots: 3, Queue: 3})
	// Then as many waiters as now fit are granted at once, the best first.
	granted(t, second)
	granted(t, first)
	if decided(third) {
		t.Fatal("more were granted than fit")
	}
	check(t, b, 3, 1)
}

func TestLoweringTheLimitTakesNothing(t *testing.T) {
	// Given three leases and a waiter
	b := admission.New(admission.Limits{Slots: 3, Queue: 3})
	leases := []admission.Lease{held(t, b, 0), held(t, b, 0), held(t, b, 0)}
	waiter := queued(t, b, admission.Interactive)
	// When there is only one slot left
	b.SetLimits(admission.Limits{Slots: 1, Queue: 3})
	// Then nothing is taken, and nothing granted until enough came back.
	check(t, b, 3, 1)
	leases[0].Release()
	leases[1].Release()
	if decided(waiter) {
		t.Fatal("granted although the only slot is held")
	}
	check(t, b, 1, 1)
	leases[2].Release()
	granted(t, waiter)
}

func TestShrunkQueueKeepsThoseWaiting(t *testing.T) {
	// Given three waiters
	b := admission.New(admission.Limits{Slots: 1, Queue: 3})
	lease := held(t, b, admission.Interactive)
	waiters := []*admission.Ticket{queued(t, b, 0), queued(t, b, 0), queued(t, b, 0)}
	// When the queue shrinks to one
	b.SetLimits(admission.Limits{Slots: 1, Queue: 1})
	// Then nobody is sent away, nobody else comes in, and all have their turn.
	check(t, b, 1, 3)
	if _, _, err := b.Ask(context.Background(), admission.Interactive); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("asking while the queue is beyond its bound: %v", err)
	}
	for _, next := range waiters {
		lease.Release()
		lease = granted(t, next)
	}
}

func TestShutdownRejectsQueuedWaiters(t *testing.T) {
	// Given waiters of every class
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	held(t, b, admission.Interactive)
	var waiters []*admission.Ticket
	for _, c := range admission.Classes() {
		waiters = append(waiters, queued(t, b, c))
	}
	// When the budget is closed
	b.Close()
	// Then every one is answered at once, and newcomers are refused likewise.
	for _, waiter := range waiters {
		if !decided(waiter) {
			t.Fatal("a waiter was abandoned")
		}
		_, err := waiter.Lease()
		wantShutdown(t, err)
	}
	_, _, err := b.Ask(context.Background(), admission.Interactive)
	wantShutdown(t, err)
	check(t, b, 0, 0)
	b.Close()
}

func wantShutdown(t *testing.T, err error) {
	t.Helper()
	var refusal *admission.Refusal
	if !errors.Is(err, admission.ErrShutdown) || !errors.As(err, &refusal) || refusal.RetryAfter < time.Second {
		t.Fatalf("got %v, want a refusal because of the shutdown", err)
	}
}

func TestDrainAnswersWaitersAndStaysOpen(t *testing.T) {
	// Given a held slot and a waiter
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	old := held(t, b, admission.Interactive)
	waiter := queued(t, b, admission.Interactive)
	// When the budget is drained
	b.Drain()
	// Then the waiter is answered, and the slot is there for a newcomer.
	_, err := waiter.Lease()
	wantShutdown(t, err)
	held(t, b, admission.Interactive)
	// And the old lease is no business of the new generation's.
	next := queued(t, b, admission.Interactive)
	old.Release()
	check(t, b, 1, 1)
	if decided(next) {
		t.Fatal("a release of an old generation granted a slot")
	}
}
