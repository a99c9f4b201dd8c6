package admission_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// machine runs one random program on a budget and on the model side by side.
type machine struct {
	budget *admission.Budget
	model  *model
	asked  int

	tickets []*pair
	leases  []*leasePair

	mu     sync.Mutex
	events []admission.Event
	stops  []int

	compared int // events
	maxHeld  int // how many may be held: after a shrink, as many as were
}

// pair is a ticket and what the model has of it.
type pair struct {
	ticket *admission.Ticket
	model  *modelWaiter
	late   *lateContext
	cancel context.CancelFunc
}

type leasePair struct {
	lease admission.Lease
	model *modelLease
}

func newMachine(t *rapid.T) *machine {
	limits := drawLimits(t)
	m := &machine{model: &model{limits: limits}, maxHeld: limits.Slots}
	m.budget = admission.New(limits,
		admission.WithClock(func() time.Duration { return m.model.now }),
		admission.WithObserver(func(e admission.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.events = append(m.events, e)
		}))
	return m
}

func drawLimits(t *rapid.T) admission.Limits {
	limits := admission.Limits{
		Slots:   rapid.IntRange(1, 4).Draw(t, "slots"),
		Queue:   rapid.IntRange(0, 5).Draw(t, "queue"),
		MaxWait: 30 * time.Second,
	}
	if rapid.Bool().Draw(t, "limited") {
		c := drawClass(t)
		limits.ClassLimits[c] = rapid.IntRange(1, 3).Draw(t, "class limit")
	}
	if rapid.Bool().Draw(t, "limited too") {
		limits.ClassLimits[admission.Low] = rapid.IntRange(1, 2).Draw(t, "limit of low")
	}
	return limits
}

func drawClass(t *rapid.T) admission.Class {
	return rapid.SampledFrom([]admission.Class{0, 1, 2, 3}).Draw(t, "class")
}

func (m *machine) drawTicket(t *rapid.T) *pair {
	if len(m.tickets) == 0 {
		t.Skip("no tickets")
	}
	return rapid.SampledFrom(m.tickets).Draw(t, "ticket")
}

func (m *machine) drawLease(t *rapid.T) *leasePair {
	if len(m.leases) == 0 {
		t.Skip("no leases")
	}
	return rapid.SampledFrom(m.leases).Draw(t, "lease")
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"ask":              m.ask,
		"ask again":        m.ask, // twice as likely, so that queues fill up
		"take":             m.take,
		"release":          m.release,
		"cancel":           m.cancel,
		"depart silently":  m.departSilently,
		"give up":          func(t *rapid.T) { p := m.drawTicket(t); p.ticket.GiveUp(); m.model.giveUp(p.model) },
		"expire":           func(t *rapid.T) { p := m.drawTicket(t); p.ticket.Expire(); m.model.expire(p.model) },
		"promote or fall":  m.setClass,
		"change the class": m.setLeaseClass,
		"yield":            m.yield,
		"unyield":          m.unyield,
		"forget":           m.forget,
		"resize":           m.resize,
		"drain or close":   m.startOver,
		"time passes": func(t *rapid.T) {
			m.model.now += time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
		},
		"": m.check,
	}
}

func (m *machine) ask(t *rapid.T) {
	c := drawClass(t)
	p := &pair{}
	ctx := context.Background()
	switch rapid.IntRange(0, 2).Draw(t, "context") {
	case 0:
		ctx, p.cancel = context.WithCancel(ctx)
	case 1:
		p.late = newLateContext()
		ctx = p.late
	}
	lease, ticket, err := m.budget.Ask(ctx, c)
	want, waiter, reason := m.model.ask(m.asked, c)
	m.asked++
	if lease.Valid() != (want != nil) || (ticket != nil) != (waiter != nil) {
		t.Fatalf("lease %v, ticket %v, error %v; want lease %v, ticket %v, %s",
			lease.Valid(), ticket != nil, err, want != nil, waiter != nil, reason)
	}
	checkRefusal(t, err, reason, 0)
	if want != nil {
		m.leases = append(m.leases, &leasePair{lease, want})
	}
	if waiter != nil {
		p.ticket, p.model = ticket, waiter
		m.tickets = append(m.tickets, p)
	}
}

func checkRefusal(t *rapid.T, err error, reason admission.Reason, retry time.Duration) {
	var refusal *admission.Refusal
	if errors.As(err, &refusal) != (reason != 0) {
		t.Fatalf("error %v, want reason %q", err, reason)
	}
	if refusal != nil && (refusal.Reason != reason || retry != 0 && refusal.RetryAfter != retry) {
		t.Fatalf("refusal %v, want reason %q and retry after %s", err, reason, retry)
	}
}

func (m *machine) take(t *rapid.T) {
	p := m.drawTicket(t)
	lease, err := p.ticket.Lease()
	w := p.model
	switch {
	case !w.decided:
		if !errors.Is(err, admission.ErrPending) {
			t.Fatalf("a waiting ticket: %v", err)
		}
	case w.lease != nil && !w.taken:
		if err != nil || !lease.Valid() {
			t.Fatalf("a granted ticket: %v", err)
		}
		w.taken = true
		w.lease.id = m.asked
		m.asked++
		m.leases = append(m.leases, &leasePair{lease, w.lease})
	case w.taken:
		if !errors.Is(err, admission.ErrTaken) {
			t.Fatalf("a taken ticket: %v", err)
		}
	case w.left:
		if !errors.Is(err, context.Canceled) && !errors.Is(err, admission.ErrGivenUp) {
			t.Fatalf("a departed ticket: %v", err)
		}
	default:
		checkRefusal(t, err, w.reason, w.retry)
	}
}

func (m *machine) release(t *rapid.T) {
	p := m.drawLease(t)
	p.lease.Release()
	m.model.release(p.model)
}

// cancel ends a context whose ticket is told about it.
func (m *machine) cancel(t *rapid.T) {
	p := m.drawTicket(t)
	if p.cancel == nil {
		t.Skip("not to be cancelled")
	}
	p.cancel()
	if !p.model.decided {
		m.model.giveUp(p.model)
		<-p.ticket.Done()
	}
}

// departSilently ends a context without word of it arriving.
func (m *machine) departSilently(t *rapid.T) {
	p := m.drawTicket(t)
	if p.late == nil {
		t.Skip("cannot depart silently")
	}
	p.late.over.Store(true)
	p.model.gone = true
}

func (m *machine) setClass(t *rapid.T) {
	p, c := m.drawTicket(t), drawClass(t)
	p.ticket.SetClass(c)
	m.model.setClass(p.model, c)
}

func (m *machine) setLeaseClass(t *rapid.T) {
	p, c := m.drawLease(t), drawClass(t)
	p.lease.SetClass(c)
	m.model.setLeaseClass(p.model, c)
}

func (m *machine) yield(t *rapid.T) {
	p := m.drawLease(t)
	id := p.model.id
	p.lease.Yield(func() { m.stops = append(m.stops, id) })
	m.model.yield(p.model)
}

func (m *machine) unyield(t *rapid.T) {
	p := m.drawLease(t)
	got := p.lease.Unyield()
	for _, l := range m.model.held {
		if l == p.model && got == l.told {
			t.Fatalf("taking the mark back: %v, told to stop: %v", got, l.told)
		}
	}
	m.model.unmark(p.model)
}

func (m *machine) forget(t *rapid.T) {
	p := m.drawLease(t)
	for _, l := range m.model.held {
		if l == p.model { // a released one has nothing left to forget
			m.budget.Forget(p.lease)
			m.model.forget(p.model)
			return
		}
	}
}

func (m *machine) resize(t *rapid.T) {
	limits := drawLimits(t)
	m.budget.SetLimits(limits)
	m.model.setLimits(limits)
	m.maxHeld = max(limits.Slots, len(m.model.held))
}

func (m *machine) startOver(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "how") {
	case 0:
		m.budget.Close()
		m.model.startOver(true)
	case 1, 2:
		m.budget.Drain()
		m.model.startOver(false)
	default:
		t.Skip("rarely")
	}
	m.maxHeld = m.model.limits.Slots
}

// check compares everything that can be seen of the two, after every step.
func (m *machine) check(t *rapid.T) {
	want := m.model.stats()
	got := m.budget.Stats()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(admission.Stats{}, "AverageHold")); diff != "" {
		t.Fatalf("stats (-want +got):\n%s", diff)
	}
	// What must hold whatever the model says.
	m.maxHeld = max(m.model.limits.Slots, min(m.maxHeld, got.Held))
	if got.Held > m.maxHeld {
		t.Fatalf("%d held, of %d slots", got.Held, got.Slots)
	}
	for i, p := range m.tickets {
		if decided(p.ticket) != p.model.decided {
			t.Fatalf("ticket %d: decided is %v, want %v", i, !p.model.decided, p.model.decided)
		}
	}
	if ready, _, _ := m.budget.Ready(); ready == m.model.overloaded {
		t.Fatalf("ready is %v", ready)
	}
	m.checkEvents(t)
	if diff := cmp.Diff(m.model.stops, m.stops); diff != "" {
		t.Fatalf("told to stop (-want +got):\n%s", diff)
	}
}

// checkEvents waits for the event of a cancellation, which another goroutine
// tells, and compares all that are new.
func (m *machine) checkEvents(t *rapid.T) {
	var got []admission.Event
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		m.mu.Lock()
		got = m.events
		m.mu.Unlock()
		if len(got) >= len(m.model.events) || time.Now().After(deadline) {
			break
		}
	}
	if diff := cmp.Diff(m.model.events[m.compared:], got[min(m.compared, len(got)):]); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	m.compared = len(got)
}

// windDown has everybody leave. Then nothing is held, nobody waits, and all
// slots are there.
func (m *machine) windDown(t *rapid.T) {
	for _, p := range m.tickets {
		p.ticket.GiveUp()
		if p.cancel != nil {
			p.cancel()
		}
	}
	for _, p := range m.leases {
		p.lease.Release()
	}
	if s := m.budget.Stats(); s.Held != 0 || s.Queued != 0 || s.Yielding != 0 || s.Stopping != 0 || s.HeldBy != [admission.NumClasses]int{} {
		t.Fatalf("after all have left: %+v", s)
	}
	if m.model.closed {
		return
	}
	for range m.model.limits.Slots {
		if lease, _, err := m.budget.Ask(context.Background(), admission.Interactive); !lease.Valid() && m.model.limits.ClassLimits == [admission.NumClasses]int{} {
			t.Fatalf("a slot is missing: %v", err)
		}
	}
}

func TestHeldNeverExceedsSlotsAndEverythingIsGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
		m.windDown(t)
		runtime.KeepAlive(m)
	})
}

// TestNoClassNamedIsIndistinguishableFromFIFO compares a budget that everybody
// asks without naming a class with a plain list.
func TestNoClassNamedIsIndistinguishableFromFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, queue := rapid.IntRange(1, 4).Draw(t, "slots"), rapid.IntRange(0, 6).Draw(t, "queue")
		b := admission.New(admission.Limits{Slots: slots, Queue: queue})
		var running []admission.Lease
		var line []*admission.Ticket
		// serve expects that just the first in line were granted, as many as fit.
		serve := func(t *rapid.T) {
			for len(running) < slots && len(line) > 0 {
				lease, err := line[0].Lease()
				if err != nil {
					t.Fatalf("the oldest waiter has no slot: %v", err)
				}
				running, line = append(running, lease), line[1:]
			}
			for i, ticket := range line {
				if decided(ticket) {
					t.Fatalf("waiter %d has overtaken", i)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				lease, ticket, err := b.Ask(context.Background(), admission.Default)
				switch {
				case len(running) < slots:
					if !lease.Valid() {
						t.Fatalf("a slot is free: %v", err)
					}
					running = append(running, lease)
				case len(line) < queue:
					if ticket == nil {
						t.Fatalf("there is room in the queue: %v", err)
					}
					line = append(line, ticket)
				default:
					if !errors.Is(err, admission.ErrFull) {
						t.Fatalf("no room: %v", err)
					}
				}
			},
			"release": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip("nothing runs")
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				running[i].Release()
				running = append(running[:i], running[i+1:]...)
				serve(t)
			},
			"give up": func(t *rapid.T) {
				if len(line) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "which")
				line[i].GiveUp()
				line = append(line[:i:i], line[i+1:]...)
				serve(t)
			},
			"resize": func(t *rapid.T) {
				slots, queue = rapid.IntRange(1, 4).Draw(t, "slots"), rapid.IntRange(0, 6).Draw(t, "queue")
				b.SetLimits(admission.Limits{Slots: slots, Queue: queue})
				serve(t)
			},
			"": func(t *rapid.T) {
				if s := b.Stats(); s.Held != len(running) || s.Queued != len(line) {
					t.Fatalf("held %d, queued %d; want %d and %d", s.Held, s.Queued, len(running), len(line))
				}
			},
		})
		runtime.KeepAlive(running)
	})
}
