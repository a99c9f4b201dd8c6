package coalesce

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// Group holds the flights of a process. Its methods may be called concurrently.
type Group struct {
	budget *admission.Budget
	ctx    context.Context // ends every flight
	cancel context.CancelCauseFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	flights map[store.ID]*flight // those that can be joined
	dying   map[store.ID]*flight // the latest flight of an ID, until its encoder is gone
}

// NewGroup makes a group whose flights take their slots from the budget.
func NewGroup(budget *admission.Budget) *Group {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Group{
		budget:  budget,
		ctx:     ctx,
		cancel:  cancel,
		flights: make(map[store.ID]*flight),
		dying:   make(map[store.ID]*flight),
	}
}

// Join joins the flight of a variant, if there is one.
func (g *Group) Join(id store.ID, class admission.Class) (*Listener, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[id]; f != nil {
		if l := f.join(class); l != nil {
			return l, true
		}
	}
	return nil, false
}

// Going reports whether a flight of the variant could be joined now.
func (g *Group) Going(id store.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.flights[id] != nil
}

// JoinOrStart joins the flight of a variant, or starts one with the job. Either way the job is the group's from
// then on; a flight that already has one closes it. started says which it was.
func (g *Group) JoinOrStart(id store.ID, class admission.Class, job Job, terms Terms) (l *Listener, started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[id]; f != nil {
		if l := f.join(class); l != nil {
			job.Close()
			return l, false
		}
	}
	f := newFlight(g, id, job, terms)
	predecessor := g.dying[id]
	g.flights[id], g.dying[id] = f, f
	l = f.join(class)
	g.ended.Add(1)
	go f.run(predecessor)
	return l, true
}

// Cancel ends the flights of a key, whatever their scope, and returns how many there were. Their listeners are
// told ErrCancelled.
func (g *Group) Cancel(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for id, f := range g.flights {
		if id.Key == key {
			delete(g.flights, id)
			f.cancel(ErrCancelled)
			n++
		}
	}
	return n
}

// Close ends every flight with ErrCancelled and returns when their encoders are gone. Nothing may be started
// afterwards.
func (g *Group) Close() {
	g.cancel(ErrCancelled)
	g.ended.Wait()
}

// Status is what one flight is doing.
type Status struct {
	ID        store.ID
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
	g.landLocked(f)
}

func (g *Group) landLocked(f *flight) {
	if g.flights[f.id] == f {
		delete(g.flights, f.id)
	}
}

// gone records that nothing of a flight is left running.
func (g *Group) gone(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.landLocked(f)
	if g.dying[f.id] == f {
		delete(g.dying, f.id)
	}
	close(f.gone)
	g.ended.Done()
}
