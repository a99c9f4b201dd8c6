package admission

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
	b.mu.Lock()
	if b.observer == nil && b.queue.waiting == 0 {
		b.end(l, used) // nothing to do after the lock is given back, as in ask
		b.mu.Unlock()
		return
	}
	var out outbox
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
