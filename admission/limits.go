package admission

import (
	"fmt"
	"time"
)

// ReadyAlways as [Limits.ReadyThreshold] turns readiness off: the budget is
// then always ready. A configuration's "ready_threshold 0" becomes this, since
// the zero value stands for the default.
const ReadyAlways = -1

// Limits are what a configuration says about a budget. They can be changed
// while it runs, with [Budget.SetLimits].
type Limits struct {
	// Slots is how many leases may be held at once. At least 1.
	Slots int

	// Queue is how many callers may wait. 0 means that nobody waits.
	Queue int

	// ClassLimits bounds, for a class, how many slots that class and those
	// below it may hold together. 0 is no bound.
	ClassLimits [NumClasses]int

	// MaxWait is the longest time that a refusal asks its caller to wait
	// before it comes back (the render timeout). 0 leaves it at a day.
	MaxWait time.Duration

	// ReadyThreshold is how many waiters make the budget not ready. 0 is the
	// default, half the queue but at least 1; [ReadyAlways] turns it off.
	ReadyThreshold int
}

// Validate says what is wrong with the limits, for the time a configuration is
// loaded. A class limit above the number of slots is allowed, since it does no
// harm and the two may be set in different places.
func (l Limits) Validate() error {
	if l.Slots < 1 {
		return fmt.Errorf("slots must be at least 1, not %d", l.Slots)
	}
	if l.Queue < 0 {
		return fmt.Errorf("the queue size must be 0 or more, not %d", l.Queue)
	}
	for c, limit := range l.ClassLimits {
		if limit < 0 {
			return fmt.Errorf("class_limit %s must be at least 1, not %d", Class(c), limit)
		}
	}
	if l.MaxWait < 0 {
		return fmt.Errorf("the longest wait must not be negative, but is %s", l.MaxWait)
	}
	if l.ReadyThreshold < ReadyAlways {
		return fmt.Errorf("ready_threshold must be 0 or more, not %d", l.ReadyThreshold)
	}
	if l.ReadyThreshold > l.Queue {
		return fmt.Errorf("ready_threshold %d is above the queue size %d and would never be reached", l.ReadyThreshold, l.Queue)
	}
	return nil
}

// Threshold is the number of waiters at which the budget stops being ready,
// with the default filled in. 0 means that it is always ready.
func (l Limits) Threshold() int {
	switch {
	case l.ReadyThreshold < 0:
		return 0
	case l.ReadyThreshold == 0:
		return max(1, l.Queue/2)
	default:
		return l.ReadyThreshold
	}
}
