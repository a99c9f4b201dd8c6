package coalesce

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// Group holds the flights of a process. Its methods may be called concurrently.
//
// Locks are taken in this order: the group's, a flight's, the budget's. The budget is called under the first two,
// and so its observer must not call the group.
type Group struct {
	budget  *admission.Budget
	ledger  *store.Ledger
	ctx     context.Context // ends every flight
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // flights with an encoder or files

	mu      sync.Mutex
	closed  bool
	flights map[store.ID]*flight // the latest flight of an ID, which can be joined unless it has just ended
	holders map[store.ID]*flight // the one flight of an ID that may have an encoder
}

// NewGroup makes a group whose flights take their slots from the budget.
func NewGroup(budget *admission.Budget) *Group {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Group{
		budget:  budget,
		ledger:  store.NewLedger(heldLimit),
		ctx:     ctx,
		cancel:  cancel,
		flights: make(map[store.ID]*flight),
		holders: make(map[store.ID]*flight),
	}
}

// Join joins the flight of a variant, if there is one.
func (g *Group) Join(id store.ID, class admission.Class) (*Listener, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.joinLocked(id, class)
	return l, l != nil
}

func (g *Group) joinLocked(id store.ID, class admission.Class) *Listener {
	if f := g.flights[id]; f != nil {
		return f.join(class)
	}
	return nil
}

// Going reports whether a flight of the variant could be joined now.
func (g *Group) Going(id store.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.flights[id]
	return f != nil && f.going()
}

// JoinOrStart joins the flight of a variant, or starts one with the job. Either way the job is the group's from
// then on; where it is not needed it is closed at once. started says which it was. After Close the listener is
// one that is told ErrClosed.
func (g *Group) JoinOrStart(id store.ID, class admission.Class, job Job, terms Terms) (l *Listener, started bool) {
	l, started = g.joinOrStart(id, class, job, terms)
	if !started {
		job.Close() // not under the lock: nobody knows what it does
	}
	return l, started
}

func (g *Group) joinOrStart(id store.ID, class admission.Class, job Job, terms Terms) (*Listener, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.joinLocked(id, class); l != nil {
		return l, false
	}
	f := newFlight(g, id, job, terms)
	l := f.add(class)
	if g.closed {
		f.end(ErrClosed)
		f.cancel(ErrClosed)
		return l, false
	}
	g.flights[id] = f
	g.running.Add(1)
	guard.Go(f.run)
	return l, true
}

// Cancel ends the flights of a key, whatever their scope, and returns how many there were. Their listeners are
// told ErrCancelled. What is complete stays so.
func (g *Group) Cancel(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for id, f := range g.flights {
		if id.Key != key {
			continue
		}
		if _, active := f.status(); active {
			n++
		}
		delete(g.flights, id)
		f.cancel(ErrCancelled)
	}
	return n
}

// Close ends every flight with ErrClosed and returns when their encoders and, but for those that somebody still
// reads, their files are gone. Nothing is started afterwards. A job's Close may call it.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(ErrClosed)
	g.running.Wait()
}

// Status is what one flight is doing.
type Status struct {
	ID        store.ID
	Job       Job // what it was started with, which may be closed by the time anybody looks
	Class     admission.Class
	Rendering bool // false: waiting for a slot
	Listeners int
	Bytes     int64
	Age       time.Duration
}

// Flights tells what is waiting and rendering now.
func (g *Group) Flights() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, len(g.flights))
	for _, f := range g.flights {
		if s, active := f.status(); active {
			all = append(all, s)
		}
	}
	return all
}

// land takes a flight off the list: nobody can join it any more.
func (g *Group) land(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flights[f.id] == f {
		delete(g.flights, f.id)
	}
}

// hold makes f the one flight of its ID that may have an encoder, or returns the one that is. When that one has
// nothing left running, its gone channel is closed.
func (g *Group) hold(f *flight) (other *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if other = g.holders[f.id]; other == nil {
		g.holders[f.id] = f
	}
	return other
}

// letGo is called when nothing that f started is left running, whether or not it ever was the holder.
func (g *Group) letGo(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holders[f.id] == f {
		delete(g.holders, f.id)
	}
	close(f.gone)
}
