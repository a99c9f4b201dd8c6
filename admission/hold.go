package admission

import (
	"runtime"
	"time"
	"weak"
)

// handle is what leases point to. It is used again for later leases, because
// having the runtime watch it costs more than a whole uncontended ask and
// release. While it is free the budget keeps it; while its lease is held only
// the lease refers to it, so that its becoming unreachable means that the lease
// was forgotten. A copy of an earlier, released lease refers to it too: whoever
// keeps one for long delays the finding of a forgotten later one.
type handle struct {
	budget *Budget
	hold   *hold
}

// hold is the budget's own record of a lease. It must not lead to the handle,
// nor to the budget: the runtime keeps it until the handle is gone.
type hold struct {
	number     uint64 // of the grant it records, 0 when it is free
	generation uint64
	class      Class
	since      time.Duration
	yields     bool // marked, and not told to stop
	told       bool // told to stop
	stop       func()
}

// current returns the record of l if its slot still counts, or else nil: it
// was released, or granted before the budget started a new generation.
func (b *Budget) current(l Lease) *hold {
	h := l.handle.hold
	if h.number != l.number || h.generation != b.generation {
		return nil
	}
	return h
}

// grant hands out a slot and tells of it.
func (b *Budget) grant(c Class, wait time.Duration, out *outbox) Lease {
	lease := b.handOut(c)
	if e := b.note(out, EventAcquired, c); e != nil {
		e.Wait = wait
	}
	return lease
}

// handOut makes a lease and counts it.
func (b *Budget) handOut(c Class) Lease {
	handle := b.takeHandle()
	b.grants++
	h := handle.hold
	h.number, h.generation, h.class, h.since = b.grants, b.generation, c, b.now()
	b.held++
	b.heldBy[c]++
	return Lease{handle: handle, number: h.number}
}

// takeHandle returns a free handle, and makes one if there is none.
func (b *Budget) takeHandle() *handle {
	if last := len(b.free) - 1; last >= 0 {
		h := b.free[last]
		b.free[last] = nil
		b.free = b.free[:last]
		return h
	}
	h := &handle{budget: b, hold: &hold{}}
	runtime.AddCleanup(h, guardedRecover, forgotten{weak.Make(b), h.hold})
	return h
}

// Whether the time a lease was held says anything about how long renders take.
const (
	used   = true
	unused = false // it was granted to somebody who had given up
)

// takeBack ends a lease, unless it has ended before, and hands its slot on.
func (b *Budget) takeBack(l Lease, wasUsed bool, out *outbox) {
	class, held, ended := b.end(l, wasUsed)
	if !ended {
		return
	}
	if e := b.note(out, EventReleased, class); e != nil {
		e.Hold = held
	}
	if b.queue.waiting > 0 {
		b.settle(out)
	}
}

// end ends a lease, unless it has ended before. It returns the class that the
// slot was held for, and for how long.
func (b *Budget) end(l Lease, wasUsed bool) (c Class, held time.Duration, ended bool) {
	h := b.current(l)
	if h == nil {
		return 0, 0, false
	}
	c, held = h.class, b.now()-h.since
	if wasUsed {
		b.holds.add(held)
	}
	b.vacate(h)
	b.free = append(b.free, l.handle)
	return c, held, true
}

// vacate frees the slot that h records.
func (b *Budget) vacate(h *hold) {
	if h.yields {
		b.unmark(h)
	}
	if h.told {
		b.stopping[h.class]--
	}
	b.held--
	b.heldBy[h.class]--
	h.number, h.told, h.stop = 0, false, nil
}
