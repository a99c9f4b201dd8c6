package coalesce

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// The life of a flight, from its own goroutine.

// run is the whole flight. The encoder of the flight that had the same ID before must be gone first: there is
// never more than one per ID.
func (f *flight) run(predecessor *flight) {
	defer f.group.gone(f)
	defer f.cancel(ErrCancelled)
	defer f.job.Close()
	if predecessor != nil {
		defer func() { <-predecessor.gone }()
		select {
		case <-predecessor.gone:
		case <-f.ctx.Done():
		}
	}
	f.fly()
	f.report()
	f.linger()
	f.dispose()
}

func (f *flight) fly() {
	if f.isStored() {
		f.end(ErrStored)
		return
	}
	if err := f.admit(); err != nil {
		f.end(err)
		return
	}
	spool, err := f.render()
	if err == nil {
		err = f.keep(spool)
	}
	f.end(err)
}

// isStored looks once more: the variant may have been put into the store between a listener's look and this
// flight's start.
func (f *flight) isStored() bool {
	if f.terms.Store == nil {
		return false
	}
	_, err := f.terms.Store.Stat(f.id)
	return err == nil
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
	var storeErr error
	stored := false
	switch {
	case f.terms.Store == nil:
	case spool.outside:
		storeErr = ErrNoSpace
	default:
		storeErr = f.terms.Store.Put(f.id, path)
		stored = storeErr == nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.final, f.finalSize, f.stored = final, info.Size(), stored
	f.summary.Bytes, f.summary.Stored, f.summary.StoreErr = info.Size(), stored, storeErr
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
	wanted := f.state == done && !f.stored
	f.mu.Unlock()
	if !wanted {
		return
	}
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.group.ctx.Done():
	}
}
