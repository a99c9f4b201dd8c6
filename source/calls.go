package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

const (
	// maxCalls is how many system calls one place answers at a time. A local disk answers in microseconds, so that
	// this many are never under way; a share that has stopped answering costs so many threads and no more.
	maxCalls = 32

	// defaultTimeout is how long a call may take where the caller's context has no deadline: probe_timeout's default.
	defaultTimeout = 10 * time.Second

	// idleWorker is how long a goroutine is kept for the next call.
	idleWorker = time.Second
)

// calls makes the system calls on one place. On a file system that does not answer (a mount whose server is gone) a
// system call neither returns nor can be cancelled, and holds a thread of the operating system; Go ends the process
// when there are 10,000. So calls are made by workers, at most so many at once; the caller stops waiting when its time
// is over, and a call that comes back late gives up what it opened.
type calls struct {
	places chan struct{} // one for each call under way
	idle   chan func()   // to a worker that waits for one; a new goroutine would have to grow its stack, which takes longer than most calls
	late   atomic.Int32  // calls that took longer than they were allowed and have not come back

	mu     sync.Mutex
	queued []func() // calls that nobody waits for, until there is a place
}

func newCalls(atOnce int) *calls {
	return &calls{places: make(chan struct{}, atOnce), idle: make(chan func())}
}

// How a call and its caller part. Whoever is second sees what the first has done.
const (
	waiting  = iota
	answered // the call has returned, and the caller takes the result
	left     // the caller's context was cancelled
	overdue  // the caller's time is over
)

// outcome is the result of a call on its way to the caller.
type outcome[T any] struct {
	state atomic.Int32
	done  chan struct{} // closed once answered
	value T
	err   error
}

// call makes a system call, and waits for it until ctx ends or timeout has passed. Waiting too long is
// ErrUnavailable, be it for the call or for the others. discard gets the value that came too late for the caller.
func call[T any](ctx context.Context, c *calls, timeout time.Duration, do func() (T, error), discard func(T)) (T, error) {
	var none T
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if err := c.enter(ctx, timer.C); err != nil {
		return none, err
	}
	o := &outcome[T]{done: make(chan struct{})}
	c.start(func() {
		o.err = guard.Do(func() (err error) {
			o.value, err = do()
			return err
		})
		switch o.state.Swap(answered) {
		case waiting:
			close(o.done)
			return
		case overdue:
			c.late.Add(-1)
		}
		if o.err == nil {
			discard(o.value)
		}
	})
	var err error
	state := int32(left)
	begun := time.Now()
	select {
	case <-o.done:
		return o.value, o.err
	case <-ctx.Done():
		if err = ended(ctx); errors.Is(err, ErrUnavailable) {
			state = overdue
		}
	case <-timer.C:
		err, state = errNoAnswer, overdue
	}
	if state == overdue {
		c.late.Add(1) // before the call can see that it is late
	}
	if !o.state.CompareAndSwap(waiting, state) { // it came back at this very moment
		if state == overdue {
			c.late.Add(-1)
		}
		<-o.done
		return o.value, o.err
	}
	if state == left { // late it may be all the same, only that nobody waits
		time.AfterFunc(timeout-time.Since(begun), guard.Func(func() {
			c.late.Add(1)
			if !o.state.CompareAndSwap(left, overdue) {
				c.late.Add(-1)
			}
		}))
	}
	return none, err
}

var errNoAnswer = fmt.Errorf("%w: no answer in time (setting: probe_timeout)", ErrUnavailable)

// ended is why a caller stops waiting whose context has ended: by itself, or because its time is over.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errNoAnswer, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// timeAllowed is how long a call for ctx may take.
func timeAllowed(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return defaultTimeout
}

// enter waits for a place. It does not wait where every place is held by a call that is late: the next one would be,
// too, and the callers would pile up.
func (c *calls) enter(ctx context.Context, tooLate <-chan time.Time) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if int(c.late.Load()) >= cap(c.places) {
		return fmt.Errorf("%w: it has not answered the last %d calls", ErrUnavailable, cap(c.places))
	}
	select {
	case c.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-tooLate:
		return errNoAnswer
	}
}

// start has a worker make a call for which there is a place.
func (c *calls) start(do func()) {
	select {
	case c.idle <- do:
	default:
		guard.Go(func() { c.work(do) })
	}
}

// work makes calls until there has been none for a while.
func (c *calls) work(do func()) {
	patience := time.NewTimer(idleWorker)
	defer patience.Stop()
	for {
		guard.Func(do)()
		c.leave()
		patience.Reset(idleWorker)
		select {
		case do = <-c.idle:
		case <-patience.C:
			return
		}
	}
}

// leave gives a place back, to a call that is queued or to whoever is next.
func (c *calls) leave() {
	for {
		c.mu.Lock()
		if len(c.queued) == 0 {
			<-c.places
			c.mu.Unlock()
			return
		}
		next := c.queued[0]
		c.queued = c.queued[1:]
		c.mu.Unlock()
		guard.Func(next)()
	}
}

// later makes a call that nobody waits for, such as closing a file, as soon as there is a place for it.
func (c *calls) later(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.places <- struct{}{}:
		c.start(do)
	default:
		c.queued = append(c.queued, do)
	}
}
