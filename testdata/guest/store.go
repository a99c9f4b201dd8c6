package guest

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

func init() {
	caddy.RegisterModule(new(MemoryStore))
}

// MemoryStore keeps variants in memory, for as long as the process lives. In a Caddyfile: store memory
type MemoryStore struct{}

// shared is the one store behind all config loads: what is stored outlives a reload.
var shared = &memory{variants: make(map[store.ID]kept)}

// CaddyModule returns the Caddy module information.
func (*MemoryStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.stores.memory", New: func() caddy.Module { return new(MemoryStore) }}
}

// UnmarshalCaddyfile reads: memory
func (*MemoryStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Hold returns the store. It is called once for every config, and once for every render that is going on.
func (*MemoryStore) Hold() (store.Store, error) { return shared, nil }

// Release takes a Hold back.
func (*MemoryStore) Release() {}

// Apply puts the settings of the config that runs into force. There are none.
func (*MemoryStore) Apply() {}

// memory implements store.Store.
type memory struct {
	mu       sync.Mutex
	variants map[store.ID]kept
	failures int64
}

type kept struct {
	content []byte
	info    store.Info
}

// Open opens a variant.
func (m *memory) Open(id store.ID) (*store.Variant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.variants[id]
	if !ok {
		return nil, store.ErrNotFound
	}
	v.info.LastUsed = time.Now()
	m.variants[id] = v
	return store.NewVariant(v.info, bytes.NewReader(v.content), func() {}), nil
}

// Stat tells what is known about a variant.
func (m *memory) Stat(id store.ID) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.variants[id]
	if !ok {
		return store.Info{}, store.ErrNotFound
	}
	return v.info, nil
}

// Stage makes a folder to render into, among the temporary files.
func (m *memory) Stage() (*store.Stage, error) {
	dir, err := os.MkdirTemp("", "memory-store-")
	if err != nil {
		return nil, err
	}
	return store.NewStage(dir, nil), nil
}

// Put reads a finished file into memory.
func (m *memory) Put(id store.ID, path string) error {
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failures++
		return err
	}
	now := time.Now()
	m.variants[id] = kept{content, store.Info{ID: id, Size: int64(len(content)), Stored: now, LastUsed: now}}
	return nil
}

// Delete forgets a variant.
func (m *memory) Delete(id store.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.variants[id]; !ok {
		return store.ErrNotFound
	}
	delete(m.variants, id)
	return nil
}

// MakeRoom is asked when the disk under a stage is full, which nothing in memory can help.
func (*memory) MakeRoom(int64) bool { return false }

// List finds the variants with this key.
func (m *memory) List(key string) ([]store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []store.Info
	for id, v := range m.variants {
		if id.Key == key {
			infos = append(infos, v.info)
		}
	}
	return infos, nil
}

// Stats reads the totals.
func (m *memory) Stats() store.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := store.Stats{Files: int64(len(m.variants)), WriteFailures: m.failures}
	for _, v := range m.variants {
		stats.Bytes += v.info.Size
	}
	return stats
}

// Interface guards
var (
	_ store.Store           = (*memory)(nil)
	_ caddyfile.Unmarshaler = (*MemoryStore)(nil)
)
