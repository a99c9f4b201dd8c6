package admission

import (
	"runtime"
	"time"
	"weak"
)

// Lease is the right to use one slot. It is a small value that may be copied;
// its copies are the same lease. The zero Lease is none.
//
// Release it after the subprocess is gone, not before. A lease that is dropped
// without being released is found by the garbage collector and given back, but
// that is a bug of its owner's: it is counted and logged as an error.
type Lease struct {
	handle *handle
	number uint64 // of the grant
}

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

// Valid reports whether l was ever granted. It says nothing about whether it
// was released since.
func (l Lease) Valid() bool { return l.handle != nil }

// Release gives the slot back, and with it to the next waiter. Releasing twice,
// late, or after the budget started a new generation changes nothing.
func (l Lease) Release() {
	if l.handle == nil {
		return
	}
	b := l.handle.budget
	var out outbox
	b.mu.Lock()
	b.takeBack(l, used, &out)
	b.unlock(&out)
}

// SetClass has the slot counted for class c from now on: the render it is used
// for has got a better listener, or lost its best one. Only limits of classes
// look at it. If c is over its limit then, nothing is taken away.
func (l Lease) SetClass(c Class) {
	if l.handle == nil || !c.Known() {
		return
	}
	b := l.handle.budget
	var out outbox
	b.mu.Lock()
	if h := b.current(l); h != nil && h.class != c {
		b.heldBy[h.class]--
		b.heldBy[c]++
		if h.told {
			b.stopping[h.class]--
			b.stopping[c]++
		}
		h.class = c
		b.settle(&out)
	}
	b.unlock(&out)
}

// Yield marks the lease as one whose render goes on only while nobody waits.
// When a caller would have to wait, the newest yielding lease whose slot helps
// it is told to stop: stop is called, once, and the slot goes on when the lease
// is released. If somebody waits already, that happens before Yield returns.
//
// stop is called by whichever goroutine made the caller wait, outside the lock
// of the budget. It must not block, nor take a lock under which the budget is
// called; the cancel function of a context is what it is meant for. It should
// not refer to the lease, or a forgotten yielding lease is not found until it
// was told to stop.
//
// Marking a lease again replaces stop.
func (l Lease) Yield(stop func()) {
	if l.handle == nil || stop == nil {
		return
	}
	b := l.handle.budget
	var out outbox
	b.mu.Lock()
	if h := b.current(l); h != nil && !h.told {
		h.stop = stop
		if !h.yields {
			h.yields = true
			b.yielding = append(b.yielding, h)
			b.settle(&out)
		}
	}
	b.unlock(&out)
}

// Unyield takes the mark back, since somebody listens again. It returns false
// if it comes too late: the lease was told to stop, or is not held any more.
func (l Lease) Unyield() bool {
	if l.handle == nil {
		return false
	}
	b := l.handle.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h := l.handle.hold
	if h.number != l.number || h.told {
		return false
	}
	if h.yields && h.generation == b.generation {
		b.unmark(h)
	}
	h.yields, h.stop = false, nil
	return true
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

// grant hands out a slot.
func (b *Budget) grant(c Class, wait time.Duration, out *outbox) Lease {
	handle := b.takeHandle()
	b.grants++
	h := handle.hold
	h.number, h.generation, h.class, h.since = b.grants, b.generation, c, b.now()
	b.held++
	b.heldBy[c]++
	b.note(out, Event{Kind: EventAcquired, Class: c, Wait: wait})
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
	runtime.AddCleanup(h, recoverLeak, forgotten{weak.Make(b), h.hold})
	return h
}

// Whether the time a lease was held says anything about how long renders take.
const (
	used   = true
	unused = false // it was granted to somebody who had given up
)

// takeBack ends a lease, unless it has ended before.
func (b *Budget) takeBack(l Lease, used bool, out *outbox) {
	h := b.current(l)
	if h == nil {
		return
	}
	held := b.now() - h.since
	if used {
		b.holds.add(held)
	}
	class := h.class
	b.vacate(h)
	b.free = append(b.free, l.handle)
	b.note(out, Event{Kind: EventReleased, Class: class, Hold: held})
	if b.queue.waiting > 0 {
		b.settle(out)
	}
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

// forgotten is what the runtime hands to recoverLeak when a handle is gone. It
// knows the budget only weakly, or else no budget could ever be collected.
type forgotten struct {
	budget weak.Pointer[Budget]
	hold   *hold
}

// recoverLeak is called by the runtime, on a goroutine of its own, after a
// handle has become unreachable.
func recoverLeak(f forgotten) {
	if b := f.budget.Value(); b != nil {
		b.recover(f.hold)
	}
}

// recover takes back the slot of a lease that was dropped without release.
// Nothing can have released it: whoever could was holding the handle.
func (b *Budget) recover(h *hold) {
	var out outbox
	b.mu.Lock()
	if h.number == 0 || h.generation != b.generation {
		b.unlock(&out)
		return
	}
	class, held := h.class, b.now()-h.since
	b.vacate(h)
	b.leaked++
	b.note(&out, Event{Kind: EventLeaked, Class: class, Hold: held})
	b.settle(&out)
	b.unlock(&out)
	b.logger.Error("a render slot was dropped without being released", "class", class, "held", held)
}
