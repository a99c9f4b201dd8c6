package audioproxy

import (
	"context"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// engine is what all sites of the process share, whatever their config load: the budget and the flights. It
// lives in a usage pool, held by every app and by every flight, so that a reload resets no count, drops no
// waiter and kills no render.
type engine struct {
	budget  *admission.Budget // of renders
	flights *coalesce.Group

	lookBudget *admission.Budget // of the probes behind info
	looks      *coalesce.Group

	memory *memory // of what sources are

	mu         sync.Mutex
	registered []*App // in the order in which they were started; the first one's settings apply
}

// engineKey is the one key of the engine pool.
const engineKey = "engine"

var enginePool = caddy.NewUsagePool()

func init() {
	guard.OnPanic(measured.panicked)
	// What still renders after Caddy's grace period is ended here, so that it leaves nothing on the disk.
	// Nothing else is told of the process's end after all apps have stopped.
	caddy.OnExit(guardedEnd)
}

func guardedEnd(context.Context) {
	guard.Func(func() {
		for _, e := range pooled[*engine](enginePool) {
			e.end()
		}
		for _, s := range pooled[*pooledStore](storePool) {
			_ = s.Destruct()
		}
	})()
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
func holdEngine(limits, looks admission.Limits) *engine {
	e, _, _ := enginePool.LoadOrNew(engineKey, func() (caddy.Destructor, error) {
		return newEngine(limits, looks), nil
	})
	return e.(*engine)
}

func releaseEngine() {
	if _, err := enginePool.Delete(engineKey); err != nil {
		caddy.Log().Named("audio_proxy").Error("ending the engine", zap.Error(err))
	}
}

func newEngine(limits, looks admission.Limits) *engine {
	budget := admission.New(limits, admission.WithObserver(measured.observe))
	lookBudget := admission.New(looks)
	return &engine{
		budget: budget, flights: coalesce.NewGroup(budget),
		lookBudget: lookBudget, looks: coalesce.NewGroup(lookBudget),
		memory: newMemory(),
	}
}

// Destruct is called when no config has an audio_proxy any more and no render is left.
func (e *engine) Destruct() error {
	e.end()
	return nil
}

// end answers all who wait and stops all that renders.
func (e *engine) end() {
	e.refuseWaiters()
	e.flights.Close()
	e.looks.Close()
}

// refuseWaiters answers all who wait for a slot, and all who come after: the process exits.
func (e *engine) refuseWaiters() {
	e.budget.Close()
	e.lookBudget.Close()
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
	e.lookBudget.SetLimits(app.lookLimits())
	app.storeModule.Apply()
}
