package audioproxy

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// storePool holds the stores by the folder they are in, never by their settings: two config loads with the same
// folder have the same store.
var storePool = caddy.NewUsagePool()

// pooledStore is a store that is closed when nobody holds it any more.
type pooledStore struct {
	*store.FileSystem
	dir   string
	close func() error
}

// Destruct closes the store. Finished variants stay where they are.
func (s *pooledStore) Destruct() error {
	defer measured.forget(s)
	return s.close()
}

// holdStore opens the store in a folder, or returns the one that is open. Give it back with releaseStore.
func holdStore(dir string, maxBytes int64) (*pooledStore, error) {
	s, _, err := storePool.LoadOrNew(dir, func() (caddy.Destructor, error) {
		logger := caddy.Log().Named("audio_proxy").With(zap.String("store", dir))
		fs, err := store.OpenFileSystem(dir, maxBytes, func(err error) { logger.Warn("trouble with the store", zap.Error(err)) })
		if err != nil {
			return nil, err
		}
		s := &pooledStore{fs, dir, sync.OnceValue(fs.Close)}
		measured.follow(s)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*pooledStore), nil
}

func releaseStore(dir string) {
	if _, err := storePool.Delete(dir); err != nil {
		caddy.Log().Named("audio_proxy").Error("closing the store", zap.Error(err))
	}
}
