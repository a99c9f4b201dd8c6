package admission

// readiness is kept at every change of the queue and not when somebody asks,
// so that it is right even if nobody looked during an excursion.
type readiness struct {
	overloaded bool
}

// update flips once per excursion: over at the threshold, back at half of it.
func (r *readiness) update(waiting, threshold int) {
	switch {
	case threshold == 0:
		r.overloaded = false
	case waiting >= threshold:
		r.overloaded = true
	case waiting <= threshold/2:
		r.overloaded = false
	}
}

// Ready reports whether the budget can take more work soon: true until the
// queue reaches the threshold, then false until it is down to half of that. It
// also returns the two numbers behind the answer; a threshold of 0 means that
// the budget is always ready. It speaks of the queue alone: whether the budget
// is closed is in [Stats].
func (b *Budget) Ready() (ready bool, queued, threshold int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.readiness.overloaded, b.queue.waiting, b.limits.Threshold()
}
