package admission

import (
	"math"
	"math/bits"
	"time"
)

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
	// A day of waiting is no advice anyone follows.
	longest := 24 * time.Hour
	if b.limits.MaxWait > 0 {
		longest = min(longest, b.limits.MaxWait)
	}
	expected := shared(b.holds.average(), waiting+1, max(b.limits.Slots, 1))
	return max(min(expected, longest.Truncate(time.Second)), time.Second)
}

// shared returns in how many whole seconds, rounded up, that many renders of
// this length are done in that many slots. It counts in integers of any size:
// in floating point 1.1 s * 10 / 11 is a little more than a second, and would
// be told as two.
func shared(each time.Duration, renders, slots int) time.Duration {
	hi, lo := bits.Mul64(uint64(max(each, 0)), uint64(renders))
	perSecond := uint64(slots) * uint64(time.Second)
	if hi >= perSecond {
		return math.MaxInt64
	}
	seconds, rest := bits.Div64(hi, lo, perSecond)
	if rest > 0 {
		seconds++
	}
	return time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second
}
