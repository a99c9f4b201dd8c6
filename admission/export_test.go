package admission

// Forget does to a lease what the runtime does some time after its owner has
// dropped it, for tests that cannot wait for the garbage collector ten thousand
// times. That the runtime does it is tested by itself.
func (b *Budget) Forget(l Lease) { b.reclaim(l.handle.hold) }
