package admission

// room says how many more slots class c may take now. It is negative after the
// limits were lowered below what is held.
//
// The limit of a class counts what is held by that class and those below it,
// so c is kept out by its own limit and by that of every class above it. What
// keeps a class out therefore keeps out all classes below it.
func (b *Budget) room(c Class) int {
	if !b.capped {
		return b.limits.Slots - b.held
	}
	return roomFor(c, b.limits, b.heldBy)
}

// roomFor is room for any number of held leases, real or supposed.
func roomFor(c Class, limits Limits, heldBy [NumClasses]int) int {
	room := limits.Slots - countFrom(Interactive, heldBy)
	for d, limit := range limits.ClassLimits[:c+1] {
		if limit > 0 {
			room = min(room, limit-countFrom(Class(d), heldBy))
		}
	}
	return room
}

// countFrom adds up what is counted for class c and those below it.
func countFrom(c Class, counts [NumClasses]int) (n int) {
	for _, count := range counts[c:] {
		n += count
	}
	return n
}

// settle follows every change that may let a waiter in. After it, nobody waits
// who could have a slot, and as many yielding leases were told to stop as the
// waiters can use.
func (b *Budget) settle(out *outbox) {
	for t := b.next(); t != nil; t = b.next() {
		b.leaveQueue(t, out)
		if err := t.ctx.Err(); err != nil {
			// Word of its departure has not reached us yet.
			b.depart(t, err, out)
			continue
		}
		t.lease = b.grant(t.class, b.now()-t.since, out)
		t.decide()
	}
	b.tellYielding(out)
}

// next returns the oldest waiter of the highest class that has one and may
// have a slot, or nil.
func (b *Budget) next() *Ticket {
	for c := range b.queue.lines {
		if t := b.queue.lines[c].oldest; t != nil && b.room(t.class) > 0 {
			return t
		}
	}
	return nil
}

// makePlace reports whether a caller of class c may wait, and displaces a
// waiter for it if need be.
//
// Whoever is going to get the slot of a lease that was told to stop takes no
// place in the queue, or else a queue of 0 would keep such a slot from being
// handed on. A queue that was shrunk below what waits in it takes nobody in
// until it has room again.
func (b *Budget) makePlace(c Class, out *outbox) bool {
	depths := b.queue.depths()
	_, before := b.vacancies(depths)
	depths[c]++
	_, after := b.vacancies(depths)
	if after <= max(b.limits.Queue, before) {
		return true
	}
	victim := b.queue.victim(c)
	if victim == nil {
		return false
	}
	b.leaveQueue(victim, out)
	if err := victim.ctx.Err(); err != nil {
		b.depart(victim, err, out)
		return true
	}
	// The arrival is about to wait in the victim's place: both are counted.
	b.reject(victim, Displaced, b.retryAfter(b.queue.waiting+1), out)
	return true
}
