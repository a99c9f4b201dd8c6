package coalesce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// The life of a flight, from its own goroutine.

// lingerTime is how long a finished spool that the store did not take stays, for those who come a moment late.
const lingerTime = time.Second

func (f *flight) run() {
	// Last of all, since it may bring about the end of the group, which waits for what is still running.
	defer guard.Func(f.job.Close)()
	defer f.group.running.Done()
	defer f.cancel(ErrCancelled)
	f.fly()
	guard.Func(f.account)()
	guard.Func(f.report)()
	f.linger()
	f.dispose()
}

// fly is all of a flight that has something running.
func (f *flight) fly() {
	defer f.group.letGo(f)
	defer f.release() // where a panic left it
	patience := time.NewTimer(f.terms.Timeout)
	defer patience.Stop()
	f.end(guard.Do(func() error { return f.reach(patience.C) }))
}

// reach leads to the complete variant, or returns what came in the way.
func (f *flight) reach(patience <-chan time.Time) error {
	if err := f.takeTurn(patience); err != nil {
		return err
	}
	if f.isStored() {
		return ErrStored
	}
	if err := f.admit(patience); err != nil {
		return err
	}
	spool, err := f.render()
	switch {
	case errors.Is(err, ErrPrepared):
		return nil
	case err != nil:
		return err
	}
	return f.keep(spool)
}

// takeTurn waits until the encoder of the flight that had the same ID before is gone: there is never more than one
// per ID. Whoever is too impatient for that is refused like one that waited too long for a slot.
func (f *flight) takeTurn(patience <-chan time.Time) error {
	for {
		other := f.group.hold(f)
		if other == nil {
			return nil
		}
		select {
		case <-other.gone:
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-patience:
			f.mu.Lock()
			defer f.mu.Unlock()
			return &admission.Refusal{
				Reason: admission.Timeout, Class: f.class, RetryAfter: f.group.budget.Stats().RetryAfter,
			}
		}
	}
}

// isStored looks once more: the variant may have been put into the store between a listener's look and this
// flight's start. It looks as a listener will: one that were told to open what cannot be opened would come back
// and be told the same again.
func (f *flight) isStored() bool {
	if f.terms.Store == nil {
		return false
	}
	v, err := f.terms.Store.Open(f.id)
	if err != nil {
		return false
	}
	v.Close()
	return true
}

// keep opens the finished file for listeners and puts it into the store. A store that cannot take it costs
// nobody their variant.
func (f *flight) keep(spool *Spool) error {
	path := spool.finalPath()
	final, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the finished variant: %w", err)
	}
	info, err := final.Stat()
	if err != nil {
		final.Close()
		return fmt.Errorf("opening the finished variant: %w", err)
	}
	if f.tooLarge(info.Size()) { // the job wrote another file beside the one that was watched
		final.Close()
		return ErrTooLarge
	}
	stored, storeErr := false, spool.unkept
	if f.terms.Store != nil && storeErr == nil {
		storeErr = f.terms.Store.Put(f.id, path)
		stored = storeErr == nil
	}
	f.mu.Lock()
	f.final, f.finalSize, f.stored = final, info.Size(), stored
	f.summary.Bytes, f.summary.Stored, f.summary.StoreErr = info.Size(), stored, storeErr
	f.mu.Unlock()
	if stored {
		f.readStored(info.Size(), filepath.Base(path) == LiveName)
	}
	return nil
}

func (f *flight) report() {
	if f.terms.Ended == nil {
		return
	}
	f.mu.Lock()
	summary, found := f.summary, errors.Is(f.err, ErrStored)
	if summary.Err != nil {
		summary.Bytes = f.visible
	}
	f.mu.Unlock()
	if !found {
		f.terms.Ended(summary)
	}
}

// linger keeps a finished spool that the store did not take joinable for a moment.
func (f *flight) linger() {
	f.mu.Lock()
	wanted := f.state == done && f.final != nil && !f.stored
	f.mu.Unlock()
	if !wanted {
		return
	}
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ctx.Done():
	}
}
