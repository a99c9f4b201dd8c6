package admission

import (
	"fmt"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// What can happen to a caller.
const (
	EventAcquired  EventKind = iota + 1 // it got a slot
	EventQueued                         // it waits
	EventRejected                       // it was sent away: full, timeout or shutdown
	EventReleased                       // it gave its slot back
	EventAbandoned                      // it left the queue of its own will
	EventDisplaced                      // a better class took its place in the queue
	EventPromoted                       // it waits in another class now
	EventLeaked                         // its slot was found again after it was forgotten
)

var eventNames = [...]string{
	EventAcquired:  "acquired",
	EventQueued:    "queued",
	EventRejected:  "rejected",
	EventReleased:  "released",
	EventAbandoned: "abandoned",
	EventDisplaced: "displaced",
	EventPromoted:  "promoted",
	EventLeaked:    "leaked",
}

func (k EventKind) String() string {
	if k == 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("event(%d)", uint8(k))
	}
	return eventNames[k]
}

// Event tells an observer what happened, and how the budget stands after it.
type Event struct {
	// Seq numbers the events of one budget in the order in which they
	// happened. Observers are called outside the lock, so two events of two
	// goroutines may be observed in the other order.
	Seq uint64

	Kind  EventKind
	Class Class // of the caller; after a promotion, its new one
	From  Class // for a promotion: the class before it

	Held   int             // leases held after the event
	Queued int             // waiters after the event
	Depths [NumClasses]int // waiters of every class after the event

	Wait       time.Duration // how long it waited: for all that was queued once and is decided now
	Hold       time.Duration // how long the slot was held: released, leaked
	RetryAfter time.Duration // rejected, displaced
	Reason     Reason        // rejected, displaced
}

// outbox collects, under the lock, what must be done after it is given back:
// nobody else's code runs while the budget is locked.
type outbox struct {
	first   Event // most operations have one event, which then costs no allocation
	more    []Event
	stops   []func()      // of yielding leases that must stop
	unwatch []func() bool // contexts of tickets that are decided
}

// note puts an event out, with the state of the budget. What else there is to
// say about it the caller adds to the event that is returned, which is nil when
// nobody observes.
func (b *Budget) note(out *outbox, kind EventKind, c Class) *Event {
	if b.observer == nil {
		return nil
	}
	return b.putOut(out, kind, c)
}

func (b *Budget) putOut(out *outbox, kind EventKind, c Class) *Event {
	e := &out.first
	if e.Seq != 0 {
		out.more = append(out.more, Event{})
		e = &out.more[len(out.more)-1]
	}
	b.events++
	e.Seq, e.Kind, e.Class = b.events, kind, c
	e.Held, e.Queued, e.Depths = b.held, b.queue.waiting, b.queue.depths()
	return e
}

// unlock ends every operation: it brings the readiness up to date, gives the
// lock back, and does what was put out.
func (b *Budget) unlock(out *outbox) {
	b.readiness.update(b.queue.waiting, b.limits.Threshold())
	b.mu.Unlock()
	for _, forget := range out.unwatch {
		forget()
	}
	if out.first.Seq != 0 {
		b.observer(out.first)
	}
	for _, e := range out.more {
		b.observer(e)
	}
	for _, stop := range out.stops {
		stop()
	}
}
