package admission_test

import (
	"slices"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// model is the contract once more, written to be read and not to be fast: lists
// that are searched, and nothing remembered that can be worked out.
type model struct {
	limits     admission.Limits
	now        time.Duration
	closed     bool
	generation uint64
	overloaded bool
	leaked     uint64
	measured   []time.Duration

	waiting []*modelWaiter // in the order in which they came into their class
	held    []*modelLease
	marked  []*modelLease // yielding, in the order in which they were marked

	// What the budget is expected to have done.
	events []admission.Event
	stops  []int
}

type modelWaiter struct {
	class   admission.Class
	since   time.Duration
	gone    bool        // its context is over, and nobody was told
	lease   *modelLease // what became of it: granted,
	reason  admission.Reason
	retry   time.Duration
	left    bool // or it left by itself
	decided bool
	taken   bool
}

type modelLease struct {
	id    int
	class admission.Class
	since time.Duration
	told  bool
}

func (m *model) ask(id int, c admission.Class) (*modelLease, *modelWaiter, admission.Reason) {
	if m.closed {
		m.event(admission.Event{Kind: admission.EventRejected, Class: c, Reason: admission.Shutdown, RetryAfter: m.retryAfter(len(m.waiting))})
		return nil, nil, admission.Shutdown
	}
	if len(m.keptOutBy(c, classesOf(m.held))) == 0 {
		return m.grant(id, c, 0), nil, 0
	}
	if !m.makePlace(c) {
		m.event(admission.Event{Kind: admission.EventRejected, Class: c, Reason: admission.Full, RetryAfter: m.retryAfter(len(m.waiting))})
		return nil, nil, admission.Full
	}
	w := &modelWaiter{class: c, since: m.now}
	m.waiting = append(m.waiting, w)
	m.event(admission.Event{Kind: admission.EventQueued, Class: c})
	m.settle()
	return nil, w, 0
}

// keptOutBy lists what keeps class c out when leases of these classes are held:
// for each reached limit the class it is about. The slots are interactive's.
func (m *model) keptOutBy(c admission.Class, held []admission.Class) (by []admission.Class) {
	if len(held) >= m.limits.Slots {
		by = append(by, admission.Interactive)
	}
	for _, d := range admission.Classes() {
		if limit := m.limits.ClassLimits[d]; limit > 0 && !c.Outranks(d) && modelCountFrom(d, held) >= limit {
			by = append(by, d)
		}
	}
	return by
}

func modelCountFrom(d admission.Class, held []admission.Class) (n int) {
	for _, h := range held {
		if !h.Outranks(d) {
			n++
		}
	}
	return n
}

func classesOf(leases []*modelLease) (classes []admission.Class) {
	for _, l := range leases {
		classes = append(classes, l.class)
	}
	return classes
}

// inLine is the order in which waiters have their turn.
func (m *model) inLine() []*modelWaiter {
	line := slices.Clone(m.waiting)
	slices.SortStableFunc(line, func(a, b *modelWaiter) int { return int(a.class) - int(b.class) })
	return line
}

func (m *model) settle() {
	for again := true; again; {
		again = false
		for _, w := range m.inLine() {
			if len(m.keptOutBy(w.class, classesOf(m.held))) == 0 {
				m.leave(w)
				if w.gone {
					w.left = true
					m.event(admission.Event{Kind: admission.EventAbandoned, Class: w.class, Wait: m.now - w.since})
				} else {
					w.lease = m.grant(-1, w.class, m.now-w.since)
				}
				again = true
				break
			}
		}
	}
	var line []admission.Class
	for _, w := range m.inLine() {
		line = append(line, w.class)
	}
	chosen, _ := m.vacancies(line)
	for _, l := range chosen {
		m.unmark(l)
		l.told = true
		m.stops = append(m.stops, l.id)
	}
}

// vacancies imagines that all who were told to stop are gone and the line is
// let in. It returns who else must stop for that, and how many still wait.
func (m *model) vacancies(line []admission.Class) (chosen []*modelLease, left int) {
	var held []admission.Class
	for _, l := range m.held {
		if !l.told {
			held = append(held, l.class)
		}
	}
	for {
		var rest []admission.Class
		for _, c := range line {
			if len(m.keptOutBy(c, held)) == 0 {
				held = append(held, c)
			} else {
				rest = append(rest, c)
			}
		}
		line = rest
		if len(line) == 0 {
			return chosen, 0
		}
		i := len(m.marked) - 1
		for ; i >= 0; i-- {
			helps := !slices.Contains(chosen, m.marked[i])
			for _, d := range m.keptOutBy(line[0], held) {
				helps = helps && !m.marked[i].class.Outranks(d)
			}
			if helps {
				break
			}
		}
		if i < 0 {
			return chosen, len(line)
		}
		chosen = append(chosen, m.marked[i])
		at := slices.Index(held, m.marked[i].class)
		held = slices.Delete(held, at, at+1)
	}
}

func (m *model) makePlace(c admission.Class) bool {
	var line []admission.Class
	for _, w := range m.inLine() {
		line = append(line, w.class)
	}
	_, before := m.vacancies(line)
	line = append(line, c)
	slices.Sort(line)
	_, after := m.vacancies(line)
	if after <= m.limits.Queue || after <= before {
		return true
	}
	var victim *modelWaiter
	for _, w := range m.waiting { // later ones are newer
		if c.Outranks(w.class) && (victim == nil || !w.class.Outranks(victim.class)) {
			victim = w
		}
	}
	if victim == nil {
		return false
	}
	if victim.gone {
		m.giveUp(victim)
		return true
	}
	m.leave(victim)
	m.refuse(victim, admission.Displaced, m.retryAfter(len(m.waiting)+1))
	return true
}

func (m *model) grant(id int, c admission.Class, wait time.Duration) *modelLease {
	l := &modelLease{id: id, class: c, since: m.now}
	m.held = append(m.held, l)
	m.event(admission.Event{Kind: admission.EventAcquired, Class: c, Wait: wait})
	return l
}

func (m *model) leave(w *modelWaiter) {
	i := slices.Index(m.waiting, w)
	m.waiting = slices.Delete(m.waiting, i, i+1)
	w.decided = true
}

func (m *model) refuse(w *modelWaiter, reason admission.Reason, retry time.Duration) {
	w.reason, w.retry = reason, retry
	kind := admission.EventRejected
	if reason == admission.Displaced {
		kind = admission.EventDisplaced
	}
	m.event(admission.Event{Kind: kind, Class: w.class, Reason: reason, Wait: m.now - w.since, RetryAfter: retry})
}

func (m *model) giveUp(w *modelWaiter) {
	switch {
	case !w.decided:
		m.leave(w)
		w.left = true
		m.event(admission.Event{Kind: admission.EventAbandoned, Class: w.class, Wait: m.now - w.since})
	case w.lease != nil && !w.taken:
		l := w.lease
		w.lease, w.left = nil, true
		m.end(l, admission.EventReleased)
	}
}

func (m *model) expire(w *modelWaiter) {
	if !w.decided {
		m.leave(w)
		m.refuse(w, admission.Timeout, m.retryAfter(len(m.waiting)))
	}
}

func (m *model) setClass(w *modelWaiter, c admission.Class) {
	if w.decided || w.class == c {
		return
	}
	from := w.class
	m.leave(w)
	w.class, w.decided = c, false
	m.waiting = append(m.waiting, w)
	m.event(admission.Event{Kind: admission.EventPromoted, Class: c, From: from})
	m.settle()
}

func (m *model) release(l *modelLease) {
	if slices.Contains(m.held, l) {
		m.measured = append(m.measured, m.now-l.since)
		m.end(l, admission.EventReleased)
	}
}

func (m *model) forget(l *modelLease) {
	if slices.Contains(m.held, l) {
		m.leaked++
		m.end(l, admission.EventLeaked)
	}
}

func (m *model) end(l *modelLease, kind admission.EventKind) {
	i := slices.Index(m.held, l)
	if i < 0 {
		return
	}
	m.held = slices.Delete(m.held, i, i+1)
	m.unmark(l)
	m.event(admission.Event{Kind: kind, Class: l.class, Hold: m.now - l.since})
	m.settle()
}

func (m *model) setLeaseClass(l *modelLease, c admission.Class) {
	if slices.Contains(m.held, l) && l.class != c {
		l.class = c
		m.settle()
	}
}

func (m *model) yield(l *modelLease) {
	if slices.Contains(m.held, l) && !l.told && !slices.Contains(m.marked, l) {
		m.marked = append(m.marked, l)
		m.settle()
	}
}

func (m *model) unmark(l *modelLease) {
	if i := slices.Index(m.marked, l); i >= 0 {
		m.marked = slices.Delete(m.marked, i, i+1)
	}
}

func (m *model) setLimits(limits admission.Limits) {
	m.limits = limits
	m.settle()
}

func (m *model) startOver(closing bool) {
	m.closed = m.closed || closing
	m.generation++
	m.held, m.marked = nil, nil
	retry := m.retryAfter(max(len(m.waiting)-1, 0))
	for _, w := range m.inLine() {
		m.leave(w)
		m.refuse(w, admission.Shutdown, retry)
	}
}

func (m *model) retryAfter(waiting int) time.Duration {
	average := 2 * time.Second
	if last := m.measured[max(0, len(m.measured)-20):]; len(last) > 0 {
		average = 0
		for _, d := range last {
			average += d
		}
		average /= time.Duration(len(last))
	}
	seconds := time.Second
	for seconds < m.limits.MaxWait && seconds*time.Duration(m.limits.Slots) < average*time.Duration(waiting+1) {
		seconds += time.Second
	}
	return seconds
}

func (m *model) event(e admission.Event) {
	e.Seq = uint64(len(m.events) + 1)
	e.Held, e.Queued, e.Depths = len(m.held), len(m.waiting), m.depths()
	m.events = append(m.events, e)
}

func (m *model) depths() (depths [admission.NumClasses]int) {
	for _, w := range m.waiting {
		depths[w.class]++
	}
	return depths
}

// stats is everything the budget says about itself, and brings the readiness
// up to date: the model looks after every step.
func (m *model) stats() admission.Stats {
	threshold := m.limits.Threshold()
	if len(m.waiting) >= threshold {
		m.overloaded = true
	} else if len(m.waiting) <= threshold/2 {
		m.overloaded = false
	}
	s := admission.Stats{
		Slots: m.limits.Slots, Queue: m.limits.Queue,
		Held: len(m.held), Queued: len(m.waiting), Depths: m.depths(),
		Yielding: len(m.marked), Leaked: m.leaked, Generation: m.generation, Closed: m.closed,
		RetryAfter: m.retryAfter(len(m.waiting)),
	}
	for _, l := range m.held {
		s.HeldBy[l.class]++
		if l.told {
			s.Stopping++
		}
	}
	return s
}
