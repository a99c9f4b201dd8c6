package coalesce

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// state is where a flight stands. It only ever moves on.
type state int

const (
	waiting   state = iota // for a slot
	rendering              // or preparing to: it has its slot
	done
	failed // or cancelled: err tells
)

// flight is one render of one variant.
type flight struct {
	group  *Group
	id     store.ID
	job    Job
	terms  Terms
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when nothing that it started is left running

	deadline time.Time // of the render, once there is a slot; of the flight's own goroutine

	mu        sync.Mutex
	state     state
	err       error
	changed   chan struct{} // closed, and made anew, when anything a listener waits for changes
	listeners [admission.NumClasses]int
	total     int
	class     admission.Class // of the best listener, and of the ticket or lease; kept when the last one leaves
	ticket    *admission.Ticket
	lease     admission.Lease
	leased    bool

	started   time.Time // the render
	written   int64     // to the latest spool
	live      *os.File
	visible   int64 // how much of live listeners may read
	final     *os.File
	finalSize int64
	stored    bool
	spools    []*Spool
	landed    bool // nobody can join any more: files close with the last listener
	kept      *store.Variant
	reader    *store.Reader
	dropped   bool // the files are given up; listeners are told store.ErrLetGo

	preparing time.Time // since when; and how long it took, once it is over
	prepared  time.Duration
	summary   Summary

	heard atomic.Int64 // how much all listeners have read together

	lettingGo sync.Mutex
	letGo     map[*Listener]func()
}

func newFlight(g *Group, id store.ID, job Job, terms Terms) *flight {
	ctx, cancel := context.WithCancelCause(g.ctx)
	return &flight{
		group:   g,
		id:      id,
		job:     job,
		terms:   terms,
		began:   time.Now(),
		ctx:     ctx,
		cancel:  cancel,
		gone:    make(chan struct{}),
		changed: make(chan struct{}),
		summary: Summary{ID: id, Job: job},
		letGo:   make(map[*Listener]func()),
	}
}

// join adds a listener, or returns nil when the flight cannot be joined any more. The group's mutex is held, so
// that nobody joins a flight that was taken off the list.
func (f *flight) join(class admission.Class) *Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.joinable() {
		return nil
	}
	if f.total == 0 && f.state == rendering && f.leased && !f.lease.Unyield() {
		return nil // it has been told to make way, and is as good as gone
	}
	return f.add(class)
}

// add adds a listener, whatever the state. The mutex is held, or nobody else knows the flight yet.
func (f *flight) add(class admission.Class) *Listener {
	f.listeners[class]++
	f.total++
	f.reclass()
	return &Listener{flight: f, class: class}
}

// joinable reports whether a listener would get the whole variant, as far as anybody can know. The mutex is held.
func (f *flight) joinable() bool {
	return f.state != failed && f.ctx.Err() == nil
}

func (f *flight) going() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.joinable()
}

// leave takes a listener away.
func (f *flight) leave(class admission.Class) {
	f.mu.Lock()
	f.listeners[class]--
	f.total--
	switch {
	case f.total > 0:
		f.reclass()
	case f.state < done:
		f.abandon()
	}
	unused := f.unusedFiles()
	f.mu.Unlock()
	unused.close()
}

// abandon is what happens when the last listener leaves before the end. Only a store has use for a variant that
// nobody listens to. The mutex is held.
func (f *flight) abandon() {
	if f.terms.FinishAbandoned && f.terms.Store != nil && f.state == rendering && f.leased {
		cancel := f.cancel // without f, and so without the lease: see Yield
		f.lease.Yield(func() { cancel(ErrCancelled) })
		return
	}
	f.cancel(ErrCancelled)
}

// reclass gives the flight the class of its best listener, of which there is at least one. The mutex is held.
func (f *flight) reclass() {
	best := f.best()
	if best == f.class {
		return // nearly always so, and the budget's lock is everybody's
	}
	f.class = best
	if f.ticket != nil {
		f.ticket.SetClass(best)
	}
	if f.leased {
		f.lease.SetClass(best)
	}
}

// best is the class of the best listener. Classes are numbered from the best to the least.
func (f *flight) best() admission.Class {
	for class, n := range f.listeners {
		if n > 0 {
			return admission.Class(class)
		}
	}
	return f.class
}

// await blocks until ready says so or the flight has ended, and returns how it ended where it ended badly. ready
// is called with the mutex held.
func (f *flight) await(ctx context.Context, ready func() bool) error {
	for {
		f.mu.Lock()
		over, err, changed := f.state >= done, f.err, f.changed
		if f.dropped {
			over, err = true, store.ErrLetGo
		}
		isReady := ready()
		f.mu.Unlock()
		if over || isReady {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wake tells every listener to look again. The mutex is held.
func (f *flight) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// end settles how the flight went; the first to say so is right. Its ID is free with that: nobody attaches to a
// flight that failed.
func (f *flight) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endLocked(err)
}

func (f *flight) endLocked(err error) {
	if f.state >= done {
		return
	}
	f.state = done
	if err != nil {
		f.state, f.err = failed, err
		if !errors.Is(err, ErrStored) {
			f.summary.Err = err
		}
	}
	f.wake()
}

func (f *flight) status() (s Status, active bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{
		ID:        f.id,
		Job:       f.job,
		Class:     f.class,
		Rendering: f.state == rendering,
		Listeners: f.total,
		Bytes:     f.visible,
		Age:       time.Since(f.began),
	}, f.state < done && f.ctx.Err() == nil
}

// causeOf is why something failed. Once its context has ended that is the reason, whatever it says itself: an
// encoder that was killed says so in many ways.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
