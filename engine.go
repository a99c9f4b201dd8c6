package audioproxy

import (
	"context"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// engine is what all sites of the process share, whatever their config load: the budget and the flights. It
// lives in a usage pool, held by every app and by every flight, so that a reload resets no count, drops no
// waiter and kills no render.
type engine struct {
	budget  *admission.Budget
	flights *coalesce.Group
	probes  *probes

	mu         sync.Mutex
	registered []registration // in the order in which they were started; the first one's limits apply
}

// limits are what the active config allows the engine.
type limits struct {
	admission.Limits
	probes int
}

// registration is one running app's say about the limits.
type registration struct {
	app    *App
	limits limits
}

// engineKey is the one key of the engine pool.
const engineKey = "engine"

var (
	enginePool = caddy.NewUsagePool()

	// storePool holds the stores by the folder they are in, never by their settings: two config loads with the
	// same folder have the same store.
	storePool = caddy.NewUsagePool()
)

func init() {
	// What still renders after Caddy's grace period is ended here, so that it leaves nothing on the disk.
	// Nothing else is told of the process's end after all apps have stopped.
	caddy.OnExit(func(context.Context) {
		for _, e := range pooled[*engine](enginePool) {
			e.end()
		}
		for _, s := range pooled[*pooledStore](storePool) {
			_ = s.Destruct()
		}
	})
}

// pooled lists what is in a pool. Range holds the pool's lock, under which nothing may be done that gives a
// value back.
func pooled[T any](pool *caddy.UsagePool) []T {
	var values []T
	pool.Range(func(_, value any) bool {
		values = append(values, value.(T))
		return true
	})
	return values
}

// holdEngine returns the process's engine, making it with these limits if there is none yet. Give it back with
// releaseEngine.
func holdEngine(limits limits) *engine {
	e, _, _ := enginePool.LoadOrNew(engineKey, func() (caddy.Destructor, error) {
		return newEngine(limits), nil
	})
	return e.(*engine)
}

func releaseEngine() {
	if _, err := enginePool.Delete(engineKey); err != nil {
		caddy.Log().Named("audio_proxy").Error("ending the engine", zap.Error(err))
	}
}

func newEngine(limits limits) *engine {
	budget := admission.New(limits.Limits, admission.WithObserver(measured.observe))
	return &engine{budget: budget, flights: coalesce.NewGroup(budget), probes: newProbes(limits.probes)}
}

// Destruct is called when no config has an audio_proxy any more and no render is left.
func (e *engine) Destruct() error {
	e.end()
	return nil
}

// end answers all who wait and stops all that renders.
func (e *engine) end() {
	e.budget.Close()
	e.flights.Close()
}

// register notes the limits of an app that starts. They apply at once where no other app runs; else when that one
// stops, which is when Caddy has found that the whole config starts. Raised limits cannot be taken back: they
// grant slots.
func (e *engine) register(app *App, limits limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.registered = append(e.registered, registration{app, limits})
	if len(e.registered) == 1 {
		e.apply(limits)
	}
}

func (e *engine) apply(limits limits) {
	e.budget.SetLimits(limits.Limits)
	e.probes.setLimit(limits.probes)
}

// unregister ends an app's say: the limits are then those of the app that came after it. It does nothing for an
// app that is not registered.
func (e *engine) unregister(app *App) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.registered, func(r registration) bool { return r.app == app })
	if i < 0 {
		return
	}
	e.registered = slices.Delete(e.registered, i, i+1)
	if i == 0 && len(e.registered) > 0 {
		e.apply(e.registered[0].limits)
	}
}

// pooledStore is a store that is closed when nobody holds it any more.
type pooledStore struct {
	*store.FileSystem
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
		fs, err := store.OpenFileSystem(dir, maxBytes)
		if err != nil {
			return nil, err
		}
		s := &pooledStore{fs, sync.OnceValue(fs.Close)}
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
