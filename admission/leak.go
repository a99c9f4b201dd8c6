package admission

import (
	"weak"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// forgotten is what the runtime hands to guardedRecover when a handle is gone. It
// knows the budget only weakly, or else no budget could ever be collected.
type forgotten struct {
	budget weak.Pointer[Budget]
	hold   *hold
}

// guardedRecover is called by the runtime, on a goroutine of its own, after a
// handle has become unreachable.
func guardedRecover(f forgotten) {
	guard.Func(func() {
		if b := f.budget.Value(); b != nil {
			b.reclaim(f.hold)
		}
	})()
}

// reclaim takes back the slot of a lease that was dropped without release.
// Nothing can have released it: whoever could was holding the handle.
func (b *Budget) reclaim(h *hold) {
	var out outbox
	b.mu.Lock()
	if h.number == 0 || h.generation != b.generation {
		b.unlock(&out)
		return
	}
	class, held := h.class, b.now()-h.since
	b.vacate(h)
	b.leaked++
	if e := b.note(&out, EventLeaked, class); e != nil {
		e.Hold = held
	}
	b.settle(&out)
	b.unlock(&out)
	b.logger.Error("a render slot was dropped without being released", "class", class, "held", held)
}
