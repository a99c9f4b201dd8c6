package coalesce

import (
	"os"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// What the listeners of a flight that has ended hold. As long as one of them has not read to the end, the files
// stay; how many there may be of that is a ledger's to say: the store's own, or else the group's.

// heldLimit is how much the listeners of variants may hold that no store with a ledger of its own takes: as much as a
// store keeps by default.
const heldLimit = 1 << 30

// Held is how many bytes are held by the listeners of variants that no store with a ledger of its own takes.
func (g *Group) Held() int64 { return g.ledger.Held() }

// ledger is where the flight's files are accounted for.
func (f *flight) ledger() *store.Ledger {
	if s, ok := f.terms.Store.(interface{ Ledger() *store.Ledger }); ok {
		return s.Ledger()
	}
	return f.group.ledger
}

// readStored has listeners read the variant that the store has just taken as any reader of the store's does: what
// they hold is the store's to account for. single says that the file that was streamed is the one that was stored.
func (f *flight) readStored(size int64, single bool) {
	kept, err := f.terms.Store.Open(f.id)
	if err != nil {
		return // the file is open already, and so is held beside the store
	}
	file, ok := kept.Content.(*os.File)
	if !ok || kept.Size != size {
		kept.Close()
		return
	}
	f.mu.Lock()
	unused := files{final: f.final}
	f.final, f.kept = file, kept
	if single && f.visible == size {
		unused.spools = f.spools
		f.live, f.spools = file, nil
	}
	f.mu.Unlock()
	unused.close()
}

// account enters what is on the disk for the flight's listeners alone. The flight has ended.
func (f *flight) account() {
	before := f.heard.Load()
	position := func() int64 { return f.heard.Load() - before }
	f.mu.Lock()
	kept, spools := f.kept, f.spools // which stay until it has landed
	size := int64(0)
	if f.stored && kept == nil {
		size = f.finalSize // the store has its own, and this one is open still
	}
	f.mu.Unlock()
	for _, spool := range spools {
		size += spool.size()
	}
	f.mu.Lock()
	if size > 0 {
		h := f.ledger().Holding(size)
		f.reader = h.Read(position, f.drop)
		h.Hold()
	}
	f.mu.Unlock()
	if kept != nil {
		kept.Watch(position, f.drop)
	}
}

// drop gives the flight's files up. Listeners are told, and close them by leaving.
func (f *flight) drop() {
	f.cancel(store.ErrLetGo) // nobody is to join any more
	f.mu.Lock()
	f.dropped = true
	f.wake()
	f.mu.Unlock()
	f.lettingGo.Lock()
	defer f.lettingGo.Unlock()
	for _, letGo := range f.letGo {
		letGo()
	}
}
