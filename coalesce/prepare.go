package coalesce

import (
	"context"
	"time"
)

// preparation is the job's Prepare, going on beside the wait for a slot.
type preparation struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// prepare starts the preparation, once.
func (f *flight) prepare() *preparation {
	if f.preparation != nil {
		return f.preparation
	}
	p := &preparation{done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(f.ctx)
	f.preparation = p
	start := time.Now()
	f.mu.Lock()
	f.preparing = start
	f.mu.Unlock()
	go func() {
		defer close(p.done)
		p.err = guard(func() error { return f.job.Prepare(p.ctx) })
		f.mu.Lock()
		defer f.mu.Unlock()
		f.prepared = time.Since(start)
	}()
	return p
}

// awaitPreparation waits for the preparation with the slot in hand, and gives that back if it was in vain. A
// preparation that does not come to its end is a render that takes too long: the slot is held no longer for it.
func (f *flight) awaitPreparation() error {
	p := f.preparation
	timer := time.NewTimer(time.Until(f.deadline))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.cancel(ErrTimeout)
		<-p.done
	}
	if p.err != nil {
		f.release()
	}
	return causeOf(p.ctx, p.err)
}

// endPreparation stops the preparation, if it is still going on, and returns when it is gone.
func (f *flight) endPreparation() {
	if p := f.preparation; p != nil {
		p.cancel(ErrCancelled)
		<-p.done
	}
}
