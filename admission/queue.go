package admission

// queue holds the waiters, one line per class. Every operation costs the same
// however many wait: a ticket is its own list element, so it can be taken out
// of the middle without being looked for.
type queue struct {
	lines   [NumClasses]line
	waiting int
}

// line is the waiters of one class, the oldest first.
type line struct {
	oldest, newest *Ticket
	depth          int
}

// push puts t at the tail of its class.
func (q *queue) push(t *Ticket) {
	l := &q.lines[t.class]
	t.older, t.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = t
	} else {
		l.oldest = t
	}
	l.newest = t
	l.depth++
	q.waiting++
}

// remove takes t out of its class, wherever it stands.
func (q *queue) remove(t *Ticket) {
	l := &q.lines[t.class]
	if t.older != nil {
		t.older.newer = t.newer
	} else {
		l.oldest = t.newer
	}
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		l.newest = t.older
	}
	t.older, t.newer = nil, nil
	l.depth--
	q.waiting--
}

// victim returns whom an arrival of class c may displace: the newest waiter of
// the lowest class below c that has one, or nil. Nothing is above interactive,
// so an interactive waiter is never returned.
func (q *queue) victim(c Class) *Ticket {
	for lowest := Class(NumClasses - 1); c.Outranks(lowest); lowest-- {
		if t := q.lines[lowest].newest; t != nil {
			return t
		}
	}
	return nil
}

func (q *queue) depths() (depths [NumClasses]int) {
	for c := range q.lines {
		depths[c] = q.lines[c].depth
	}
	return depths
}
