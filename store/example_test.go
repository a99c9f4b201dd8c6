package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// memory is about the smallest store there can be: it keeps variants in memory, for as long as the process lives, and
// has them rendered among the system's temporary files.
type memory struct {
	mu       sync.Mutex
	maxBytes int64
	stats    store.Stats
	variants map[store.ID][]byte
	stored   map[store.ID]time.Time
}

func newMemory(maxBytes int64) *memory {
	return &memory{maxBytes: maxBytes, variants: make(map[store.ID][]byte), stored: make(map[store.ID]time.Time)}
}

func (m *memory) Stage() (*store.Stage, error) {
	dir, err := os.MkdirTemp("", "memory-store-*") // absolute where TMPDIR is
	if err != nil {
		return nil, err
	}
	return store.NewStage(dir, nil), nil
}

func (m *memory) Put(id store.ID, path string) error {
	if !id.Valid() {
		return store.ErrBadID
	}
	content, err := os.ReadFile(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.stats.WriteFailures++
		return err
	case int64(len(content)) > m.maxBytes:
		return store.ErrTooLarge
	}
	m.variants[id], m.stored[id] = content, time.Now()
	m.evict(m.maxBytes)
	return os.Remove(path) // the file is the store's from now on, and it has no use for it
}

// evict lets the oldest go. The mutex is held.
func (m *memory) evict(limit int64) (evicted int) {
	for m.size() > limit {
		var oldest store.ID
		for id, at := range m.stored {
			if oldest == (store.ID{}) || at.Before(m.stored[oldest]) {
				oldest = id
			}
		}
		m.forget(oldest)
		evicted++
	}
	m.stats.Evictions += int64(evicted)
	return evicted
}

func (m *memory) size() (n int64) {
	for _, content := range m.variants {
		n += int64(len(content))
	}
	return n
}

func (m *memory) forget(id store.ID) {
	delete(m.variants, id)
	delete(m.stored, id)
}

func (m *memory) Open(id store.ID) (*store.Variant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.info(id)
	if err != nil {
		return nil, err
	}
	return store.NewVariant(info, bytes.NewReader(m.variants[id]), func() {}), nil
}

func (m *memory) Stat(id store.ID) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info(id)
}

// info is what is known about a variant. The mutex is held.
func (m *memory) info(id store.ID) (store.Info, error) {
	content, known := m.variants[id]
	switch {
	case !id.Valid():
		return store.Info{}, store.ErrBadID
	case !known:
		return store.Info{}, store.ErrNotFound
	}
	return store.Info{ID: id, Size: int64(len(content)), Stored: m.stored[id], LastUsed: m.stored[id]}, nil
}

func (m *memory) List(key string) (infos []store.Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, content := range m.variants {
		if id.Key == key {
			infos = append(infos, store.Info{ID: id, Size: int64(len(content)), Stored: m.stored[id]})
		}
	}
	return infos, nil
}

func (m *memory) Delete(id store.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.info(id)
	m.forget(id)
	return err
}

// MakeRoom cannot make any: what is kept takes nothing from the disk that renders write to.
func (m *memory) MakeRoom(int64) bool { return false }

func (m *memory) Stats() store.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.stats
	stats.Files, stats.Bytes, stats.MaxBytes = int64(len(m.variants)), m.size(), m.maxBytes
	return stats
}

var _ store.Store = (*memory)(nil)

// A store of one's own implements Store. Here it does what a render has it do.
func ExampleNewStage() {
	var kept store.Store = newMemory(1 << 20)
	id := store.ID{Scope: strings.Repeat("0", 16), Key: strings.Repeat("a", 64)}

	stage, err := kept.Stage()
	if err != nil {
		fmt.Println(err)
		return
	}
	finished := filepath.Join(stage.Dir(), "final")
	if err := os.WriteFile(finished, []byte("a finished variant"), 0o600); err != nil {
		fmt.Println(err)
	}
	fmt.Println("put:", kept.Put(id, finished))
	fmt.Println("removed:", stage.Remove())

	v, err := kept.Open(id)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	_, err = os.Stat(stage.Dir())
	fmt.Println(v.Size, "bytes; the stage is gone:", os.IsNotExist(err))
	// Output:
	// put: <nil>
	// removed: <nil>
	// 18 bytes; the stage is gone: true
}
