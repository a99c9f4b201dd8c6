package admission_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// lateContext ends without anybody being told: it stands for the moment in
// which a departure has happened and word of it has not arrived.
type lateContext struct {
	context.Context
	over   atomic.Bool
	looked atomic.Int64 // how often somebody asked whether it is over
}

func newLateContext() *lateContext { return &lateContext{Context: context.Background()} }

func (c *lateContext) Err() error {
	c.looked.Add(1)
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

func TestAGrantThatCrossesACancellationIsPassedOn(t *testing.T) {
	// Given a waiter that is gone, though word has not arrived, and one behind it
	b := admission.New(admission.Limits{Slots: 1, Queue: 2})
	lease := held(t, b, admission.Interactive)
	ctx := newLateContext()
	gone := queuedWith(ctx, t, b, admission.Interactive)
	next := queued(t, b, admission.Interactive)
	ctx.over.Store(true)
	// When the slot comes back
	lease.Release()
	// Then it goes straight to the next waiter.
	granted(t, next)
	if _, err := gone.Lease(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the departed got %v", err)
	}
	check(t, b, 1, 0)
}

func TestGivingUpAfterAGrantNobodyTookPassesItOn(t *testing.T) {
	// Given a waiter that was granted and has not looked yet
	b := admission.New(admission.Limits{Slots: 1, Queue: 2})
	lease := held(t, b, admission.Interactive)
	first, second := queued(t, b, admission.Interactive), queued(t, b, admission.Interactive)
	lease.Release()
	// When it gives up, even twice
	first.GiveUp()
	first.GiveUp()
	// Then the slot goes straight to the next.
	granted(t, second)
	if _, err := first.Lease(); !errors.Is(err, admission.ErrGivenUp) {
		t.Fatalf("a ticket that was given up holds %v", err)
	}
	check(t, b, 1, 0)
}

func TestGivingUpAfterTheLeaseWasTakenChangesNothing(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	lease := held(t, b, admission.Interactive)
	ticket := queued(t, b, admission.Interactive)
	lease.Release()
	taken := granted(t, ticket)
	ticket.GiveUp()
	ticket.Expire()
	check(t, b, 1, 0)
	// And there is one owner: nobody takes it a second time.
	if _, err := ticket.Lease(); !errors.Is(err, admission.ErrTaken) {
		t.Fatalf("taken twice: %v", err)
	}
	taken.Release()
	check(t, b, 0, 0)
}

func TestAWaiterThatDiesWhileQueuedDoesNotShrinkTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// Given waiters of which half leave, by their context or by giving up
		b := admission.New(admission.Limits{Slots: 2, Queue: 8})
		leases := []admission.Lease{held(t, b, 0), held(t, b, 0)}
		ctx, cancel := context.WithCancel(t.Context())
		var stay []*admission.Ticket
		var leave []*admission.Ticket
		for i := range 4 {
			stay = append(stay, queued(t, b, admission.Interactive))
			if i < 2 {
				leave = append(leave, queuedWith(ctx, t, b, admission.Interactive))
			} else {
				leave = append(leave, queued(t, b, admission.Interactive))
				defer leave[i].GiveUp()
			}
		}
		check(t, b, 2, 8)
		cancel()
		synctest.Wait()
		check(t, b, 2, 6)
		leave[2].GiveUp()
		leave[3].GiveUp()
		check(t, b, 2, 4)
		// When the slots come back again and again
		for i, next := range stay {
			leases[i%2].Release()
			leases[i%2] = granted(t, next)
		}
		// Then those who stayed were served in order, and both slots are there.
		leases[0].Release()
		leases[1].Release()
		check(t, b, 0, 0)
		held(t, b, admission.Interactive)
		held(t, b, admission.Interactive)
	})
}

// Dead clients keep their place: requests whose client has gone stayed in the
// queue, and the queue grew with every retry.
func TestALiveWaiterIsNextAfterNineDeadOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// Given a full queue of which nine have hung up
		b := admission.New(admission.Limits{Slots: 1, Queue: 10})
		lease := held(t, b, admission.Interactive)
		ctx, hangUp := context.WithCancel(t.Context())
		for range 9 {
			queuedWith(ctx, t, b, admission.Interactive)
		}
		tenth := queued(t, b, admission.Interactive)
		hangUp()
		synctest.Wait()
		// When a live one asks, then there is room for it, and it is next but one.
		live := queued(t, b, admission.Interactive)
		check(t, b, 1, 2)
		lease.Release()
		granted(t, tenth).Release()
		granted(t, live)
	})
}

func TestContextsAreNotWatchedOnceATicketIsDecided(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := admission.New(admission.Limits{Slots: 1, Queue: 2})
		lease := held(t, b, admission.Interactive)
		ctx, cancel := context.WithCancel(t.Context())
		ticket := queuedWith(ctx, t, b, admission.Interactive)
		lease.Release()
		cancel()
		synctest.Wait()
		granted(t, ticket)
		check(t, b, 1, 0)
	})
}

func TestWaitingTooLongIsARefusalLikeAFullQueue(t *testing.T) {
	// Given a waiter whose owner's patience has ended
	b := admission.New(admission.Limits{Slots: 1, Queue: 2})
	lease := held(t, b, admission.Interactive)
	ticket, next := queued(t, b, admission.Interactive), queued(t, b, admission.Interactive)
	// When it expires
	ticket.Expire()
	ticket.Expire()
	// Then it is refused with a retry-after, for waiting too long,
	var refusal *admission.Refusal
	_, err := ticket.Lease()
	if !errors.Is(err, admission.ErrTimeout) || !errors.As(err, &refusal) || refusal.RetryAfter < time.Second {
		t.Fatalf("got %v", err)
	}
	// and the slot goes to the next.
	check(t, b, 1, 1)
	lease.Release()
	granted(t, next)
}

func TestAPendingTicketHasNoLease(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	held(t, b, admission.Interactive)
	if _, err := queued(t, b, admission.Low).Lease(); !errors.Is(err, admission.ErrPending) {
		t.Fatalf("got %v", err)
	}
}

func TestPromotionMovesToTheTailOfTheBetterClass(t *testing.T) {
	// Given two low waiters, and one that is interactive
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	lease := held(t, b, admission.Interactive)
	low, promoted := queued(t, b, admission.Low), queued(t, b, admission.Low)
	interactive := queued(t, b, admission.Interactive)
	// When the second low one gets a better listener
	promoted.SetClass(admission.Interactive)
	// Then it goes after the interactive one and before the other low one.
	for _, next := range []*admission.Ticket{interactive, promoted, low} {
		lease.Release()
		lease = granted(t, next)
	}
	if promoted.Class() != admission.Interactive || low.Class() != admission.Low {
		t.Fatal("the classes are wrong")
	}
}

func TestFallingBackMovesToTheTailOfTheLowerClass(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	lease := held(t, b, admission.Interactive)
	falling, low := queued(t, b, admission.High), queued(t, b, admission.Low)
	falling.SetClass(admission.Low)
	for _, next := range []*admission.Ticket{low, falling} {
		lease.Release()
		lease = granted(t, next)
	}
}

func TestPromotionToTheSameClassKeepsThePlace(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 4})
	lease := held(t, b, admission.Interactive)
	first, second := queued(t, b, admission.Low), queued(t, b, admission.Low)
	first.SetClass(admission.Low)
	first.SetClass(admission.NumClasses) // no class at all
	lease.Release()
	granted(t, first)
	first.SetClass(admission.High) // decided: too late
	if decided(second) || first.Class() != admission.Low {
		t.Fatal("a decided ticket was moved")
	}
}

func TestPromotionKeepsTheTimeItBeganToWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var acquired []time.Duration
		b := admission.New(admission.Limits{Slots: 1, Queue: 4}, admission.WithObserver(func(e admission.Event) {
			if e.Kind == admission.EventAcquired {
				acquired = append(acquired, e.Wait)
			}
		}))
		lease := held(t, b, admission.Interactive)
		ticket := queued(t, b, admission.Low)
		time.Sleep(2 * time.Second)
		ticket.SetClass(admission.Interactive)
		time.Sleep(3 * time.Second)
		lease.Release()
		if want := []time.Duration{0, 5 * time.Second}; !slices.Equal(acquired, want) {
			t.Fatalf("waits of %v, want %v", acquired, want)
		}
	})
}

// A queue that is O(1) looks at one waiter to grant and at none to give up, to
// promote or to displace, however many there are. Every waiter here counts how
// often it was looked at.
func TestNoWaiterIsLookedAtForAnothersSake(t *testing.T) {
	const depth = 10_000
	b := admission.New(admission.Limits{Slots: 1, Queue: depth})
	lease := held(t, b, admission.Interactive)
	var contexts []*lateContext
	var tickets []*admission.Ticket
	for range depth {
		ctx := newLateContext()
		contexts = append(contexts, ctx)
		tickets = append(tickets, queuedWith(ctx, t, b, admission.Low))
	}
	looks := func(act func()) (sum int64) {
		for _, ctx := range contexts {
			ctx.looked.Store(0)
		}
		act()
		for _, ctx := range contexts {
			sum += ctx.looked.Load()
		}
		return sum
	}
	for _, c := range []struct {
		name string
		act  func()
		most int64
	}{
		{"give up from the middle", func() { tickets[depth/2].GiveUp() }, 0},
		{"ask", func() { queued(t, b, admission.Low) }, 0},
		{"displace", func() { queued(t, b, admission.High) }, 1},
		{"promote from the middle", func() { tickets[depth/3].SetClass(admission.Interactive) }, 0},
		{"grant", func() { lease.Release() }, 1},
	} {
		if n := looks(c.act); n > c.most {
			t.Errorf("%s: %d waiters were looked at, want at most %d", c.name, n, c.most)
		}
	}
}

// watchedContext counts who watches it.
type watchedContext struct {
	context.Context
	done     chan struct{}
	watchers atomic.Int64
}

func (c *watchedContext) Done() <-chan struct{} { return c.done }

func (c *watchedContext) AfterFunc(func()) (stop func() bool) {
	c.watchers.Add(1)
	return func() bool { c.watchers.Add(-1); return true }
}

func TestADecidedTicketLetsGoOfItsContext(t *testing.T) {
	for name, decide := range map[string]func(*admission.Budget, admission.Lease, *admission.Ticket){
		"granted":   func(_ *admission.Budget, lease admission.Lease, _ *admission.Ticket) { lease.Release() },
		"given up":  func(_ *admission.Budget, _ admission.Lease, ticket *admission.Ticket) { ticket.GiveUp() },
		"expired":   func(_ *admission.Budget, _ admission.Lease, ticket *admission.Ticket) { ticket.Expire() },
		"displaced": func(b *admission.Budget, _ admission.Lease, _ *admission.Ticket) { queued(t, b, admission.High) },
		"closed":    func(b *admission.Budget, _ admission.Lease, _ *admission.Ticket) { b.Close() },
	} {
		// Given a waiter whose context lives long
		ctx := &watchedContext{Context: context.Background(), done: make(chan struct{})}
		b := admission.New(admission.Limits{Slots: 1, Queue: 1})
		lease := held(t, b, admission.Interactive)
		ticket := queuedWith(ctx, t, b, admission.Low)
		if n := ctx.watchers.Load(); n != 1 {
			t.Fatalf("%d watchers of a waiting ticket's context", n)
		}
		// When it is decided, then nothing is left at the context.
		decide(b, lease, ticket)
		if n := ctx.watchers.Load(); n != 0 || !decided(ticket) {
			t.Errorf("%s: %d watchers are left", name, n)
		}
	}
}
