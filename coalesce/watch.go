package coalesce

import (
	"context"
	"fmt"
	"time"
)

// How a flight shows its listeners what there is.

const (
	// growthInterval is how often a spool is looked at: seldom enough that each listener writes large pieces,
	// often enough that none runs dry.
	growthInterval = 50 * time.Millisecond

	// Until listeners have their first byte it is looked at more often, but no more often than after a fiftieth
	// of the time that has passed: a first byte comes at most 2 % late, and an encoder whose source stalls is
	// not watched a thousand times a second. (inotify is quicker by half a millisecond, but to end a watch takes
	// 10 ms of the slot's time.)
	shortestInterval  = time.Millisecond
	firstByteFraction = 50
)

// watch follows a spool's growth until the encoder has ended, and returns how it ended. Where the variant must not
// grow on, it has the encoder stopped by cancel.
func (f *flight) watch(spool *Spool, ended <-chan error, cancel context.CancelCauseFunc) error {
	begun := time.Now()
	timer := time.NewTimer(shortestInterval)
	defer timer.Stop()
	released := spool.released
	for {
		select {
		case err := <-ended:
			if err == nil {
				return f.complete(spool)
			}
			_, _ = f.follow(spool) // how much was written; what is wrong with it does not matter any more
			return err
		case <-released:
			released = nil // a closed channel would be ready for ever
		case <-timer.C:
		}
		visible, err := f.follow(spool)
		if err != nil {
			cancel(err)
		}
		timer.Reset(interval(visible, time.Since(begun)))
	}
}

// complete shows the rest of a render that ended well.
func (f *flight) complete(spool *Spool) error {
	spool.Release()
	visible, err := f.follow(spool)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if visible < f.visible {
		return errDiffers
	}
	return nil
}

// follow shows listeners what has been written since, and returns how much of the spool they may see. The error
// says why the variant must not grow on.
func (f *flight) follow(spool *Spool) (visible int64, err error) {
	written, visible, err := spool.measure()
	if err != nil {
		return 0, fmt.Errorf("reading the spool: %w", err)
	}
	if f.tooLarge(written) {
		visible = min(visible, f.terms.MaxSize) // much may have been written since the last look
	}
	f.mu.Lock()
	f.written = written
	if visible > f.visible {
		if f.visible == 0 {
			f.summary.FirstByte = time.Since(f.started)
		}
		f.live, f.visible = spool.live, visible
		f.wake()
	}
	unused := f.unusedSpools()
	f.mu.Unlock()
	unused.close()
	if f.tooLarge(written) {
		return visible, ErrTooLarge
	}
	return visible, nil
}

func (f *flight) tooLarge(size int64) bool { return f.terms.MaxSize > 0 && size > f.terms.MaxSize }

// interval is how long to wait before the next look at a spool, so long after it was begun.
func interval(visible int64, since time.Duration) time.Duration {
	if visible > 0 {
		return growthInterval
	}
	return min(max(shortestInterval, since/firstByteFraction), growthInterval)
}
