package coalesce

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// state is where a flight stands. It only ever moves on.
type state int

const (
	waiting state = iota // for a slot
	rendering
	done
	failed // or cancelled: err tells
)

// lingerTime is how long a finished spool that the store did not take stays, for those who come a moment late.
const lingerTime = time.Second

// flight is one render of one variant. Lock order: the group's mutex, then the flight's, then the budget's.
type flight struct {
	group  *Group
	id     store.ID
	job    Job
	terms  Terms
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when nothing of it is left running

	mu        sync.Mutex
	state     state
	err       error
	changed   chan struct{} // closed, and made anew, when anything a listener waits for changes
	listeners [admission.NumClasses]int
	total     int
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
	landed    bool // off the group's list for good: files close with the last listener

	prepared time.Duration
	summary  Summary
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
		summary: Summary{ID: id},
	}
}

// join adds a listener, or returns nil when the flight cannot be joined any more. The group's mutex is held.
func (f *flight) join(class admission.Class) *Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == failed || f.ctx.Err() != nil && f.state != done {
		return nil
	}
	if f.leased && f.total == 0 && f.state == rendering && !f.lease.Unyield() {
		return nil // it has been told to make way, and is as good as gone
	}
	f.listeners[class]++
	f.total++
	f.reclass()
	return &Listener{flight: f, class: class}
}

// leave takes a listener away.
func (f *flight) leave(class admission.Class) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners[class]--
	f.total--
	if f.total > 0 {
		f.reclass()
		return
	}
	switch {
	case f.state >= done:
		f.closeFiles()
	case f.state == rendering && f.leased && f.terms.FinishAbandoned:
		cancel := f.cancel // without f, and so without the lease: see Yield
		f.lease.Yield(func() { cancel(ErrCancelled) })
	default:
		f.group.landLocked(f)
		f.cancel(ErrCancelled)
	}
}

// reclass gives the flight the class of its best listener. The mutex is held.
func (f *flight) reclass() {
	best := f.best()
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
	return admission.Class(len(f.listeners) - 1)
}

// await blocks until ready says so or the flight has ended, and returns how it ended where it ended badly.
func (f *flight) await(ctx context.Context, ready func(*flight) bool) error {
	for {
		f.mu.Lock()
		state, err, changed := f.state, f.err, f.changed
		isReady := ready(f)
		f.mu.Unlock()
		switch {
		case isReady || state == done:
			return err
		case state == failed:
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

// end settles how the flight went, once. Nobody attaches to a failed one: its ID is free first.
func (f *flight) end(err error) {
	if err != nil {
		f.group.land(f)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.err = done, nil
	if err != nil {
		f.state = failed
		if !errors.Is(err, ErrStored) {
			f.summary.Err = err
		}
		f.err = err
	}
	f.wake()
}

// dispose lets the files go as soon as no listener reads them.
func (f *flight) dispose() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.group.landLocked(f)
	f.landed = true
	if f.total == 0 {
		f.closeFiles()
	}
}

// closeFiles closes and removes what is left of the spools, once the flight can gain no listener. The mutex is
// held.
func (f *flight) closeFiles() {
	if !f.landed {
		return
	}
	for _, s := range f.spools {
		s.remove()
	}
	f.spools = nil
	if f.final != nil {
		f.final.Close()
		f.final = nil
	}
}

func (f *flight) status() (Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{
		ID:        f.id,
		Class:     f.best(),
		Rendering: f.state == rendering,
		Listeners: f.total,
		Bytes:     f.visible,
		Age:       time.Since(f.began),
	}, f.state < done
}
