package admission

import (
	"context"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// Ticket is the place of a caller that waits. It is decided once: granted,
// refused, or given up.
type Ticket struct {
	budget *Budget
	ctx    context.Context
	since  time.Duration // when it began to wait, kept across classes
	done   chan struct{} // closed when it is decided

	// What follows is guarded by the lock of the budget.
	class        Class
	waiting      bool
	older, newer *Ticket // its neighbours in the queue
	unwatch      func() bool
	lease        Lease // granted and not yet taken
	err          error // why there is no lease to take
}

// Done returns a channel that is closed when the ticket is decided.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Class returns the class in which the ticket waits, or waited last.
func (t *Ticket) Class() Class {
	t.budget.mu.Lock()
	defer t.budget.mu.Unlock()
	return t.class
}

// Lease takes the lease that was granted: from now on the caller owns it and
// must release it. Otherwise it returns why there is none: a [*Refusal], the
// error of the context, [ErrGivenUp], [ErrTaken], or [ErrPending] if the ticket
// is not decided.
func (t *Ticket) Lease() (Lease, error) {
	t.budget.mu.Lock()
	defer t.budget.mu.Unlock()
	if t.waiting {
		return Lease{}, ErrPending
	}
	if !t.lease.Valid() {
		return Lease{}, t.err
	}
	// The ticket lets go of it: were it to keep a copy, a lease that its owner
	// forgets would not be found again while the ticket lives.
	lease := t.lease
	t.lease, t.err = Lease{}, ErrTaken
	return lease, nil
}

// GiveUp leaves the queue. If a grant crossed it and nobody took the lease, the
// slot goes to the next waiter. It changes nothing once the lease was taken or
// the ticket was refused, and may be called any number of times.
func (t *Ticket) GiveUp() {
	b := t.budget
	var out outbox
	b.mu.Lock()
	switch {
	case t.waiting:
		b.leaveQueue(t, &out)
		b.depart(t, ErrGivenUp, &out)
	case t.lease.Valid():
		lease := t.lease
		t.lease, t.err = Lease{}, ErrGivenUp
		b.takeBack(lease, unused, &out)
	}
	b.unlock(&out)
}

// Expire refuses the ticket because its owner's patience has ended: it waited
// for longer than a render may take. If it was decided before, nothing changes;
// [Ticket.Lease] tells which of the two came first.
func (t *Ticket) Expire() {
	b := t.budget
	var out outbox
	b.mu.Lock()
	if t.waiting {
		b.refuse(t, Timeout, b.retryAfter(b.queue.waiting-1), &out)
	}
	b.unlock(&out)
}

// SetClass moves a waiting ticket to the tail of class c. It keeps the time at
// which it first began to wait. It may get a slot at once, if only the limit of
// its old class kept it waiting. A ticket that is decided, or that waits in c
// already, stays as it is.
func (t *Ticket) SetClass(c Class) {
	b := t.budget
	var out outbox
	b.mu.Lock()
	if t.waiting && t.class != c && c.Known() {
		from := t.class
		b.queue.remove(t)
		t.class = c
		b.queue.push(t)
		if e := b.note(&out, EventPromoted, c); e != nil {
			e.From = from
		}
		b.settle(&out)
	}
	b.unlock(&out)
}

// watch has the ticket leave the queue when its context ends. It is called without the
// lock, which the machinery of contexts must not be entered under, so the
// ticket may have been decided in the meantime.
func (t *Ticket) watch() {
	if t.ctx.Done() == nil {
		return
	}
	unwatch := context.AfterFunc(t.ctx, guard.Func(t.contextEnded))
	t.budget.mu.Lock()
	waiting := t.waiting
	if waiting {
		t.unwatch = unwatch
	}
	t.budget.mu.Unlock()
	if !waiting {
		unwatch()
	}
}

// contextEnded is how word of a departure arrives. Late word, about a ticket
// that was granted, is none of our business: the owner has to look at the
// ticket anyway.
func (t *Ticket) contextEnded() {
	b := t.budget
	var out outbox
	b.mu.Lock()
	if t.waiting {
		b.leaveQueue(t, &out)
		b.depart(t, t.ctx.Err(), &out)
	}
	b.unlock(&out)
}

// leaveQueue takes t out of the queue. The caller decides it next.
func (b *Budget) leaveQueue(t *Ticket, out *outbox) {
	b.queue.remove(t)
	t.waiting = false
	if t.unwatch != nil {
		out.unwatch = append(out.unwatch, t.unwatch)
		t.unwatch = nil
	}
}

// depart decides a ticket whose owner is gone.
func (b *Budget) depart(t *Ticket, why error, out *outbox) {
	t.err = why
	t.decide()
	if e := b.note(out, EventAbandoned, t.class); e != nil {
		e.Wait = b.now() - t.since
	}
}

// refuse takes a waiting ticket out of the queue and rejects it.
func (b *Budget) refuse(t *Ticket, reason Reason, retryAfter time.Duration, out *outbox) {
	b.leaveQueue(t, out)
	b.reject(t, reason, retryAfter, out)
}

// reject decides a ticket that has left the queue against its owner's will.
func (b *Budget) reject(t *Ticket, reason Reason, retryAfter time.Duration, out *outbox) {
	t.err = &Refusal{Reason: reason, Class: t.class, RetryAfter: retryAfter}
	t.decide()
	kind := EventRejected
	if reason == Displaced {
		kind = EventDisplaced
	}
	if e := b.note(out, kind, t.class); e != nil {
		e.Reason, e.Wait, e.RetryAfter = reason, b.now()-t.since, retryAfter
	}
}

// decide wakes the owner, who then finds the lease or the error.
func (t *Ticket) decide() { close(t.done) }
