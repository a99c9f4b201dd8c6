package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// How a flight renders, and shows its listeners what there is.

const (
	// firstByteInterval is how often the spool is looked at until listeners have their first byte.
	firstByteInterval = 2 * time.Millisecond
	// growthInterval is how often afterwards: seldom enough that each listener writes large pieces, often
	// enough that none runs dry.
	growthInterval = 25 * time.Millisecond

	// minRoom is how much space a render is given a second chance with, at least.
	minRoom = 256 << 10
)

// render runs the job while the flight holds its slot, in the store's own staging folder first. When that is
// full the store gives up what it can; when that does not help, the variant is rendered into the system's
// temporary folder and not kept. Variants are deterministic, so listeners read on in the next spool from where
// they were in the last.
func (f *flight) render() (*Spool, error) {
	defer f.release()
	started := time.Now()
	f.mu.Lock()
	f.state, f.started = rendering, started
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.summary.Render = time.Since(started)
		f.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeoutCause(f.ctx, f.terms.Timeout, ErrTimeout)
	defer cancel()

	if f.terms.Store == nil {
		return f.attempt(ctx, store.TempStage)
	}
	spool, err := f.attempt(ctx, f.terms.Store.Stage)
	if errors.Is(err, ErrNoSpace) && f.makeRoom() {
		spool, err = f.attempt(ctx, f.terms.Store.Stage)
	}
	if errors.Is(err, ErrNoSpace) {
		spool, err = f.attempt(ctx, store.TempStage)
		if spool != nil {
			spool.outside = true
		}
	}
	return spool, err
}

// makeRoom has the store give up what it can, up to twice of what did not fit.
func (f *flight) makeRoom() bool {
	f.mu.Lock()
	written := f.written
	f.mu.Unlock()
	return f.terms.Store.MakeRoom(2*written + minRoom)
}

// attempt renders into one spool and follows its growth.
func (f *flight) attempt(ctx context.Context, place func() (*store.Stage, error)) (*Spool, error) {
	stage, err := place()
	if err != nil {
		return nil, spaceError(err)
	}
	spool, err := newSpool(stage)
	if err != nil {
		_ = stage.Remove()
		return nil, spaceError(err)
	}
	f.mu.Lock()
	f.spools = append(f.spools, spool)
	f.dropOldSpools()
	f.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		ended <- guard(func() error { return f.job.Render(ctx, spool) })
	}()
	interval := time.NewTimer(firstByteInterval)
	defer interval.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				spool.Release()
			}
			if tooLarge := f.follow(spool); err == nil {
				err = tooLarge
			}
			return spool, f.causeOf(err)
		case <-interval.C:
			if err := f.follow(spool); err != nil {
				cancel(err)
			}
			interval.Reset(f.interval())
		}
	}
}

// follow shows listeners what has been written since, and says when the variant must not grow on.
func (f *flight) follow(spool *Spool) error {
	written, visible, err := spool.measure()
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = written
	if visible > f.visible {
		if f.visible == 0 {
			f.summary.FirstByte = time.Since(f.started)
		}
		f.live, f.visible = spool.live, visible
		f.dropOldSpools()
		f.wake()
	}
	if f.terms.MaxSize > 0 && written > f.terms.MaxSize {
		return ErrTooLarge
	}
	return nil
}

// dropOldSpools gives back the room of spools that no listener needs any more: all but the latest, once it has
// what the one before it had. The mutex is held.
func (f *flight) dropOldSpools() {
	latest := f.spools[len(f.spools)-1]
	if f.visible > 0 && f.live != latest.live {
		return
	}
	for _, s := range f.spools[:len(f.spools)-1] {
		s.remove()
	}
	f.spools = append(f.spools[:0], latest)
}

func (f *flight) interval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.visible == 0 {
		return firstByteInterval
	}
	return growthInterval
}

// guard makes a panic in a job an error like any other: a bug there must cost one render, not the server and
// not the slot.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a render: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}
