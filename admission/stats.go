package admission

import "time"

// Stats is how a budget stands at one moment. Read it when gauges are scraped,
// instead of counting events.
type Stats struct {
	Slots int // how many leases may be held
	Queue int // how many callers may wait

	Held   int             // leases held, of this generation
	HeldBy [NumClasses]int // the same, per class

	Queued int             // waiters
	Depths [NumClasses]int // the same, per class

	Yielding int // held leases that are marked as yielding
	Stopping int // held leases that were told to stop and have not come back

	Leaked     uint64 // leases that were forgotten, ever
	Generation uint64 // how often the budget was closed or drained
	Closed     bool

	AverageHold time.Duration // over the last releases; 2 s before the first
	RetryAfter  time.Duration // what a caller would be told that is refused now
}

// Stats returns how the budget stands. After [Budget.Close] or [Budget.Drain]
// nothing counts as held or queued.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{
		Slots:       b.limits.Slots,
		Queue:       b.limits.Queue,
		Held:        b.held,
		HeldBy:      b.heldBy,
		Queued:      b.queue.waiting,
		Depths:      b.queue.depths(),
		Yielding:    len(b.yielding),
		Stopping:    countFrom(Interactive, b.stopping),
		Leaked:      b.leaked,
		Generation:  b.generation,
		Closed:      b.closed,
		AverageHold: b.holds.average(),
		RetryAfter:  b.retryAfter(b.queue.waiting),
	}
}
