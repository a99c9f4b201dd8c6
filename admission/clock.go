package admission

import (
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// A reading of the clock may be used again for so long and so many times.
// Renders last tens of milliseconds and more.
const (
	readingKept = time.Millisecond
	readingUses = 16
)

// clock is the budget's time, read under the lock. To read the system's clock
// twice costs as much as all the rest of an uncontended ask and release, so in
// a burst a few changes in a row share a reading. A change that comes by
// itself reads the clock and has the exact time.
//
// A reading ends by a timer. Where everybody is busy timers are late, by more
// than a hundred milliseconds, but then its uses are soon used up.
type clock struct {
	read  func() time.Duration // since some fixed moment
	exact bool                 // no reading is used again
	last  time.Duration        // the last reading
	uses  int                  // how many times it may be used again
	timed bool                 // a timer is on its way to end it
}

// now returns the time since some fixed moment. It never goes back.
func (b *Budget) now() time.Duration {
	if c := &b.clock; c.uses > 0 {
		c.uses--
		return c.last
	}
	return b.readClock()
}

func (b *Budget) readClock() time.Duration {
	c := &b.clock
	before := c.last
	c.last = c.read()
	if c.exact || c.last-before >= readingKept {
		return c.last
	}
	c.uses = readingUses
	if !c.timed {
		// It fires once, so that a budget with nothing to do does not wake up,
		// and it is a new one each time, since a timer must not be carried from
		// one bubble of testing/synctest into another.
		c.timed = true
		time.AfterFunc(readingKept, guard.Func(b.endReading))
	}
	return c.last
}

func (b *Budget) endReading() {
	b.mu.Lock()
	b.clock.uses, b.clock.timed = 0, false
	b.mu.Unlock()
}
