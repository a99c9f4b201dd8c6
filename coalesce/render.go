package coalesce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// How a flight renders.

// minRoom is how much space a render is given a second chance with, at least.
const minRoom = 256 << 10

var (
	// errNoStage: the place to render into could not be made.
	errNoStage = errors.New("no place to render into")
	// errDiffers: a second render is shorter than what listeners have of the first.
	errDiffers = errors.New("the render differed from the one before it")
)

// render runs the job while the flight holds its slot, in the store's own staging folder first. When that is
// full the store gives up what it can; when that does not help, the variant is rendered into the system's
// temporary folder and not kept. Variants are deterministic, so listeners read on in the next spool from where
// they were in the last.
func (f *flight) render() (*Spool, error) {
	defer f.release()
	ctx, cancel := context.WithDeadlineCause(f.ctx, f.deadline, ErrTimeout)
	defer cancel()
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.started = time.Now()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.summary.Render = time.Since(f.started)
		f.mu.Unlock()
	}()

	if f.terms.Store == nil {
		return f.attempt(ctx, store.TempStage)
	}
	spool, err := f.attempt(ctx, f.terms.Store.Stage)
	if errors.Is(err, ErrNoSpace) && f.makeRoom() {
		spool, err = f.attempt(ctx, f.terms.Store.Stage)
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, errNoStage) {
		unkept := err
		if spool, err = f.attempt(ctx, store.TempStage); err == nil {
			spool.unkept = unkept
		}
	}
	return spool, err
}

// prepare has the job find out what it must know, within the slot: looking at a source takes a CPU as rendering does.
func (f *flight) prepare(ctx context.Context) error {
	start := time.Now()
	f.mu.Lock()
	f.preparing = start
	f.mu.Unlock()
	err := guard.Do(func() error { return f.job.Prepare(ctx) })
	f.mu.Lock()
	f.prepared = time.Since(start)
	f.mu.Unlock()
	return causeOf(ctx, err)
}

// makeRoom has the store give up what it can, up to twice of what did not fit.
func (f *flight) makeRoom() bool {
	f.mu.Lock()
	written := f.written
	f.mu.Unlock()
	return f.terms.Store.MakeRoom(2*written + minRoom)
}

// attempt renders into one spool, and returns when the encoder is gone.
func (f *flight) attempt(ctx context.Context, place func() (*store.Stage, error)) (*Spool, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	spool, err := openSpool(place)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStage, err)
	}
	f.mu.Lock()
	f.spools = append(f.spools, spool)
	unused := f.unusedSpools()
	f.mu.Unlock()
	unused.close()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	guard.Go(func() {
		ended <- guard.Do(func() error { return f.job.Render(ctx, spool) })
	})
	return spool, causeOf(ctx, f.watch(spool, ended, cancel))
}
