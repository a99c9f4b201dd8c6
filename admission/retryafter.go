package admission

import "time"

const (
	// rememberedHolds is over how many finished renders the average is taken.
	rememberedHolds = 20

	// unmeasuredHold stands for the average before any render has finished.
	unmeasuredHold = 2 * time.Second
)

// holdTimes remembers how long the last leases were held.
type holdTimes struct {
	last [rememberedHolds]time.Duration
	next int
	n    int
	sum  time.Duration
}

func (h *holdTimes) add(d time.Duration) {
	h.sum += d - h.last[h.next]
	h.last[h.next] = d
	h.next++
	if h.next == rememberedHolds {
		h.next = 0
	}
	h.n = min(h.n+1, rememberedHolds)
}

func (h *holdTimes) average() time.Duration {
	if h.n == 0 {
		return unmeasuredHold
	}
	return h.sum / time.Duration(h.n)
}

// retryAfter says when a caller that is turned away while so many others wait
// may expect its turn: the time in which the slots work off those before it,
// and itself.
func (b *Budget) retryAfter(waiting int) time.Duration {
	slots := max(b.limits.Slots, 1)
	expected := b.holds.average().Seconds() * float64(waiting+1) / float64(slots)
	return wholeSeconds(expected, b.limits.MaxWait)
}

// wholeSeconds rounds up, since Retry-After is counted in seconds and coming
// back too early is the worse mistake, and keeps to the bounds: one second at
// least, and no more than longest allows.
func wholeSeconds(expected float64, longest time.Duration) time.Duration {
	// A day of waiting is no advice anyone follows, and keeps the conversion
	// below from overflowing.
	bound := 24 * time.Hour
	if longest > 0 {
		bound = min(bound, longest)
	}
	seconds := bound.Truncate(time.Second)
	if expected < bound.Seconds() {
		seconds = time.Duration(expected) * time.Second
		if seconds.Seconds() < expected {
			seconds += time.Second
		}
		seconds = min(seconds, bound.Truncate(time.Second))
	}
	return max(seconds, time.Second)
}
