package admission

import "slices"

// tellYielding tells as many yielding leases to stop as the waiters can use.
func (b *Budget) tellYielding(out *outbox) {
	if len(b.yielding) == 0 || b.queue.waiting == 0 {
		return
	}
	stop, _ := b.vacancies(b.queue.depths())
	for _, h := range stop {
		b.unmark(h)
		b.stopping[h.class]++
		h.told = true
		out.stops = append(out.stops, h.stop)
		// A forgotten lease is found only when nothing refers to it, and the
		// function may do so.
		h.stop = nil
	}
}

// unmark takes h out of the yielding leases.
func (b *Budget) unmark(h *hold) {
	i := slices.Index(b.yielding, h)
	b.yielding = slices.Delete(b.yielding, i, i+1)
	h.yields = false
}

// vacancies looks ahead to the time when all leases that were told to stop have
// come back. It returns which more should be told so that the given waiters get
// a slot, the newest first, and how many would have to wait even then.
//
// It costs the same however many wait; it is linear in the yielding leases, of
// which there are at most as many as slots.
func (b *Budget) vacancies(depths [NumClasses]int) (stop []*hold, waiting int) {
	heldBy := b.heldBy
	for c := range heldBy {
		heldBy[c] -= b.stopping[c]
	}
	if len(b.yielding) == 0 && heldBy == b.heldBy {
		// Nothing is or can be vacated, so all of them wait. It is nearly
		// always so, and this saves half the price of an ask that is queued.
		return nil, countFrom(Interactive, depths)
	}
	for {
		best, n := letIn(b.limits, &heldBy, &depths)
		if n == 0 {
			return stop, 0
		}
		h := b.newestThatHelps(best, heldBy, stop)
		if h == nil {
			// Who cannot help the best of those left cannot help the others:
			// they are kept out by all that keeps the best one out.
			return stop, n
		}
		stop = append(stop, h)
		heldBy[h.class]--
	}
}

// letIn supposes that every waiter gets a slot who may have one. It returns how
// many are left and the best class among them.
func letIn(limits Limits, heldBy, depths *[NumClasses]int) (best Class, left int) {
	for i := range depths {
		c := Class(i)
		n := max(0, min(depths[c], roomFor(c, limits, *heldBy)))
		heldBy[c] += n
		depths[c] -= n
		if left == 0 {
			best = c
		}
		left += depths[c]
	}
	return best, left
}

// newestThatHelps returns the newest yielding lease, not among those already
// chosen, whose slot counts against everything that keeps class c out. To stop
// any other would be in vain: with "class_limit low 1" and one low render
// running, a low caller gains nothing from the end of a normal one.
func (b *Budget) newestThatHelps(c Class, heldBy [NumClasses]int, chosen []*hold) *hold {
	// A lease counts against the limit of its class and of those above it, so
	// it must be at or below the lowest class whose limit is reached. The
	// number of slots itself bounds the best class and all below it.
	lowest := Interactive
	for d, limit := range b.limits.ClassLimits[:c+1] {
		if limit > 0 && limit <= countFrom(Class(d), heldBy) {
			lowest = Class(d)
		}
	}
	for _, h := range slices.Backward(b.yielding) {
		if !h.class.Outranks(lowest) && !slices.Contains(chosen, h) {
			return h
		}
	}
	return nil
}
