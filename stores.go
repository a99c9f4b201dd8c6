package audioproxy

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

func init() {
	caddy.RegisterModule(new(FileSystemStore))
	caddy.RegisterModule(new(NoStore))
}

// defaultStoreSize bounds a store that has no max_size: 1 GiB.
const defaultStoreSize = 1 << 30

// FileSystemStore keeps finished variants in a folder. Several processes may share it.
type FileSystemStore struct {
	// The folder. Default: "audio_proxy" in Caddy's data directory.
	Directory string `json:"directory,omitempty"`

	// How much is kept, in bytes; the least recently used goes first. Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`

	dir string
}

// CaddyModule returns the Caddy module information.
func (*FileSystemStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.stores.file_system", New: func() caddy.Module { return new(FileSystemStore) }}
}

// Provision refuses a folder that can't be written, and makes nothing yet.
func (s *FileSystemStore) Provision(ctx caddy.Context) error {
	dir, err := replace(s.Directory)
	if err != nil {
		return fmt.Errorf("store file_system: %w", err)
	}
	if dir == "" {
		dir = filepath.Join(caddy.AppDataDir(), "audio_proxy")
	}
	if s.dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("store file_system: %w", err)
	}
	// The same folder by another name is the same store.
	if resolved, err := filepath.EvalSymlinks(s.dir); err == nil {
		s.dir = resolved
	}
	if s.MaxSize < 0 {
		return errors.New("store file_system: max_size must be positive")
	}
	if s.MaxSize == 0 {
		s.MaxSize = defaultStoreSize
	}
	if err := store.CheckDir(s.dir); err != nil {
		return fmt.Errorf("store file_system: %w", err)
	}
	if err := store.CheckTemp(); err != nil {
		ctx.Logger().Warn("renders that find no room in the store will fail", zap.Error(err))
	}
	return nil
}

// Hold opens the store.
func (s *FileSystemStore) Hold() (store.Store, error) {
	held, err := holdStore(s.dir, s.MaxSize)
	if err != nil {
		return nil, err // not held: a nil *pooledStore in a store.Store would not be nil
	}
	return held, nil
}

// Release gives it back.
func (s *FileSystemStore) Release() { releaseStore(s.dir) }

// Apply bounds the store that is open.
func (s *FileSystemStore) Apply() {
	for _, open := range pooled[*pooledStore](storePool) {
		if open.dir == s.dir {
			open.SetMaxBytes(s.MaxSize)
		}
	}
}

// NoStore keeps nothing. Renders are still shared by all who ask while they run.
type NoStore struct{}

// CaddyModule returns the Caddy module information.
func (*NoStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.stores.off", New: func() caddy.Module { return new(NoStore) }}
}

// Provision refuses to go without a store where there is no other place to render into.
func (*NoStore) Provision(caddy.Context) error {
	if err := store.CheckTemp(); err != nil {
		return fmt.Errorf("store off: renders have no place to write to: %w", err)
	}
	return nil
}

// Hold returns no store.
func (*NoStore) Hold() (store.Store, error) { return nil, nil }

// Release does nothing.
func (*NoStore) Release() {}

// Apply does nothing.
func (*NoStore) Apply() {}

// Interface guards
var (
	_ StoreModule       = (*FileSystemStore)(nil)
	_ StoreModule       = (*NoStore)(nil)
	_ caddy.Provisioner = (*FileSystemStore)(nil)
	_ caddy.Provisioner = (*NoStore)(nil)
)
