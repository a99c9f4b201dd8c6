package audioproxy

import (
	"context"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

// engine is what all sites of the process share, whatever their config load: the budget and the flights. It
// lives in a usage pool, held by every app and by every flight, so that a reload resets no count, drops no
// waiter and kills no render.
type engine struct {
	budget  *admission.Budget
	flights *coalesce.Group
	probes  *probes

	mu         sync.Mutex
	registered []*App // in the order in which they were started; the first one's settings apply
}

// engineKey is the one key of the engine pool.
const engineKey = "engine"

var enginePool = caddy.NewUsagePool()

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
func holdEngine(limits admission.Limits, probes int) *engine {
	e, _, _ := enginePool.LoadOrNew(engineKey, func() (caddy.Destructor, error) {
		return newEngine(limits, probes), nil
	})
	return e.(*engine)
}

func releaseEngine() {
	if _, err := enginePool.Delete(engineKey); err != nil {
		caddy.Log().Named("audio_proxy").Error("ending the engine", zap.Error(err))
	}
}

func newEngine(limits admission.Limits, probes int) *engine {
	budget := admission.New(limits, admission.WithObserver(measured.observe))
	return &engine{budget: budget, flights: coalesce.NewGroup(budget), probes: newProbes(probes)}
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

// register notes an app that starts. What its config allows applies at once where no other app runs; else when
// that one stops, which is when Caddy has found that the whole config starts. Raised limits cannot be taken back:
// they grant slots.
func (e *engine) register(app *App) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.registered = append(e.registered, app)
	if len(e.registered) == 1 {
		e.apply(app)
	}
}

// unregister ends an app's say: what applies is then the config of the app that came after it. It does nothing
// for an app that is not registered.
func (e *engine) unregister(app *App) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.registered, app)
	if i < 0 {
		return
	}
	e.registered = slices.Delete(e.registered, i, i+1)
	if i == 0 && len(e.registered) > 0 {
		e.apply(e.registered[0])
	}
}

func (e *engine) apply(app *App) {
	e.budget.SetLimits(app.limits())
	e.probes.setLimit(app.Probes)
	app.storeModule.Apply()
}
