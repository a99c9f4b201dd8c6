package admission

import "time"

// Forget does to a lease what the runtime does some time after its owner has
// dropped it, for tests that cannot wait for the garbage collector ten thousand
// times. That the runtime does it is tested by itself.
func (b *Budget) Forget(l Lease) { b.reclaim(l.handle.hold) }

// SharedClock is WithClock for a clock whose readings are shared in a burst, as
// those of the system's clock are.
func SharedClock(read func() time.Duration) Option {
	return func(b *Budget) { b.clock = clock{read: read} }
}

// ReadingUses is how many times a reading may be used again.
const ReadingUses = readingUses
