package admission

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Budget rations slots among callers. All its methods, and those of its leases
// and tickets, may be called concurrently. Make one with [New].
type Budget struct {
	observer func(Event)
	logger   *slog.Logger

	mu         sync.Mutex
	clock      clock
	limits     Limits
	capped     bool // some class has a limit
	closed     bool
	generation uint64

	held      int
	heldBy    [NumClasses]int
	stopping  [NumClasses]int // of those held, the leases that were told to stop
	yielding  []*hold         // marked and not told to stop, the newest last
	free      []*handle       // handles to use again
	grants    uint64
	queue     queue
	readiness readiness
	holds     holdTimes
	events    uint64
	leaked    uint64
}

// Option sets up a budget in [New].
type Option func(*Budget)

// WithObserver has every event told to observe. It is called outside the lock
// by whichever goroutine caused the event, possibly by several at once, and
// must return quickly: that goroutine waits for it.
func WithObserver(observe func(Event)) Option {
	return func(b *Budget) { b.observer = observe }
}

// WithClock hands in a clock: the time since any moment, as long as it is always
// the same. It is read under the lock, so it must not call the budget. It is read
// for every change, while without it those in a burst share a reading and may be
// told times that are off by a millisecond.
func WithClock(now func() time.Duration) Option {
	return func(b *Budget) { b.clock = clock{read: now, exact: true} }
}

// WithLogger has leaked leases logged, as errors. Without it nothing is logged.
func WithLogger(logger *slog.Logger) Option {
	return func(b *Budget) { b.logger = logger }
}

// New returns a budget with all its slots free. It takes the limits as they
// are; [Limits.Validate] says whether they make sense.
func New(limits Limits, options ...Option) *Budget {
	start := time.Now()
	b := &Budget{
		logger: slog.New(slog.DiscardHandler),
		// time.Since reads only the monotonic clock, which is half the price
		// of time.Now.
		clock: clock{read: func() time.Duration { return time.Since(start) }},
	}
	for _, option := range options {
		option(b)
	}
	b.setLimits(limits)
	return b
}

// Ask asks for a slot and never blocks. Exactly one of the results is set: a
// valid lease; or a ticket, which waits; or an error, a [*Refusal] unless ctx
// is over already, when it is the error of ctx.
//
// If ctx ends while the ticket waits, the ticket leaves the queue. Once the
// ticket is decided ctx is not watched any more: a lease does not end with it.
func (b *Budget) Ask(ctx context.Context, c Class) (Lease, *Ticket, error) {
	lease, ticket, err := b.ask(ctx, c)
	if ticket != nil {
		ticket.watch()
	}
	return lease, ticket, err
}

// ask is Ask, but leaves it to the caller to watch ctx.
func (b *Budget) ask(ctx context.Context, c Class) (Lease, *Ticket, error) {
	if !c.Known() {
		return Lease{}, nil, fmt.Errorf("asking for a slot: unknown %s", c)
	}
	if err := ctx.Err(); err != nil {
		return Lease{}, nil, err
	}
	b.mu.Lock()
	// If there is room no waiter is overtaken. Whoever waits although a slot is
	// free is held back by the limit of a class, and it is of a class below c:
	// what keeps a class out keeps out all those below it.
	free := !b.closed && b.room(c) > 0
	if free && b.observer == nil {
		// Nobody is told and the queue stays as it is, so there is nothing to
		// do after the lock is given back. Not to look costs a third less.
		lease := b.handOut(c)
		b.mu.Unlock()
		return lease, nil, nil
	}
	var out outbox
	if free {
		lease := b.grant(c, 0, &out)
		b.unlock(&out)
		return lease, nil, nil
	}
	ticket, refusal := b.enqueue(ctx, c, &out)
	b.unlock(&out)
	if refusal != nil {
		return Lease{}, nil, refusal
	}
	return Lease{}, ticket, nil
}

// Acquire waits for a slot until ctx ends. The error is a [*Refusal] or that
// of ctx.
func (b *Budget) Acquire(ctx context.Context, c Class) (Lease, error) {
	lease, ticket, err := b.ask(ctx, c)
	if ticket == nil {
		return lease, err
	}
	select {
	case <-ticket.Done():
	case <-ctx.Done(): // which is why nobody else needs to watch it
	}
	if err := ctx.Err(); err != nil {
		// The end of ctx and a grant may have crossed. Giving up settles it:
		// a slot that came too late goes to the next waiter.
		ticket.GiveUp()
		return Lease{}, err
	}
	return ticket.Lease()
}

// enqueue puts a caller in the queue, or refuses it.
func (b *Budget) enqueue(ctx context.Context, c Class, out *outbox) (*Ticket, *Refusal) {
	if b.closed {
		return nil, b.turnAway(c, Shutdown, out)
	}
	if !b.makePlace(c, out) {
		return nil, b.turnAway(c, Full, out)
	}
	t := &Ticket{budget: b, ctx: ctx, class: c, since: b.now(), done: make(chan struct{}), waiting: true}
	b.queue.push(t)
	b.note(out, EventQueued, c)
	b.settle(out)
	return t, nil
}

// turnAway refuses a caller that was never queued.
func (b *Budget) turnAway(c Class, reason Reason, out *outbox) *Refusal {
	r := &Refusal{Reason: reason, Class: c, RetryAfter: b.retryAfter(b.queue.waiting)}
	if e := b.note(out, EventRejected, c); e != nil {
		e.Reason, e.RetryAfter = reason, r.RetryAfter
	}
	return r
}

// SetLimits changes the limits while the budget runs. What has become free is
// granted at once. Nothing is taken away: a lease above the new number of slots
// stays valid, and whoever waits beyond a smaller queue goes on waiting.
func (b *Budget) SetLimits(limits Limits) {
	var out outbox
	b.mu.Lock()
	b.setLimits(limits)
	b.settle(&out)
	b.unlock(&out)
}

func (b *Budget) setLimits(limits Limits) {
	b.limits = limits
	b.capped = limits.ClassLimits != [NumClasses]int{}
}

// Close answers every waiter with a refusal (shutdown), refuses all that come
// after, and starts a new generation: leases that are still held no longer
// count, and releasing them changes nothing. Closing twice is harmless.
func (b *Budget) Close() {
	b.startOver(true)
}

// Drain does what [Budget.Close] does to waiters and leases, and stays open
// for those who come after.
func (b *Budget) Drain() {
	b.startOver(false)
}

func (b *Budget) startOver(closing bool) {
	var out outbox
	b.mu.Lock()
	b.closed = b.closed || closing
	b.generation++
	b.held, b.heldBy, b.stopping = 0, [NumClasses]int{}, [NumClasses]int{}
	clear(b.yielding)
	b.yielding = b.yielding[:0]

	// One answer for all: each has the others before it.
	retryAfter := b.retryAfter(max(b.queue.waiting-1, 0))
	for c := range b.queue.lines {
		for l := &b.queue.lines[c]; l.oldest != nil; {
			b.refuse(l.oldest, Shutdown, retryAfter, &out)
		}
	}
	b.unlock(&out)
}
