package audioproxy

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

func init() {
	caddy.RegisterModule(new(App))
}

// Defaults of the global options.
const (
	defaultQueue         = 32
	defaultRenderTimeout = 5 * time.Minute
	defaultProbeTimeout  = 10 * time.Second
	defaultRangeWait     = 30 * time.Second
	defaultMaxSourceSize = 2_000_000_000 // "2GB" as Caddy spells sizes: powers of ten
)

// App is what all sites of the process share: the render budget, the limits of a render, the store and the
// ffmpeg that is run. Without a configuration of it every default applies.
//
// The budget itself belongs to the process, not to a config load: a reload changes its limits, and nothing
// else about it.
type App struct {
	// How many renders run at once. Default: the CPUs this process may use.
	Slots int `json:"slots,omitempty"`

	// How many renders may wait for a slot. Default: 32. 0 means that none waits.
	Queue *int `json:"queue,omitempty"`

	// At most so many slots may be held by a class and those below it together. Default: no such limit.
	ClassLimits map[string]int `json:"class_limits,omitempty"`

	// How many waiting renders make /ready answer 503, until they are down to half as many. Default: half the
	// queue, at least 1. 0 turns it off.
	ReadyThreshold *int `json:"ready_threshold,omitempty"`

	// How many sources info examines at once. More wait, in classes and in a queue as renders do. Default: 2 × slots.
	Probes int `json:"probes,omitempty"`

	// How long a probe may take. Default: 10s.
	ProbeTimeout caddy.Duration `json:"probe_timeout,omitempty"`

	// How long a render may take, and how long one may wait for its slot. Default: 5m.
	RenderTimeout caddy.Duration `json:"render_timeout,omitempty"`

	// How long a request for a range of a variant that is not there yet waits for it to be. After that the
	// whole variant is streamed. Default: 30s.
	RangeWait caddy.Duration `json:"range_wait,omitempty"`

	// What becomes of a render whose last listener has left: "cancel" (the default) stops it, "finish" lets it
	// go on, for the store, while nobody waits for its slot.
	Abandoned string `json:"abandoned,omitempty"`

	// The largest source that is rendered, in bytes. Default: 2 GB.
	MaxSourceSize int64 `json:"max_source_size,omitempty"`

	// The largest variant, in bytes; a render is stopped above it. Default: max_source_size.
	MaxVariantSize int64 `json:"max_variant_size,omitempty"`

	// Where finished variants are kept. Default: the file_system store, in Caddy's data directory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=audio_proxy.stores inline_key=kind"`

	// The ffmpeg to run, and its ffprobe. Default: found in PATH.
	FFmpeg  string `json:"ffmpeg,omitempty"`
	FFprobe string `json:"ffprobe,omitempty"`

	logger     *zap.Logger
	engine     *engine
	engineHeld bool
	tools      ffmpeg.Tools

	storeModule StoreModule
	openStore   func() (store.Store, error) // opens at the first call
	storeOpened bool
	storeMu     sync.Mutex

	sites   []configured
	sitesMu sync.Mutex
}

// StoreModule is a guest module in the namespace audio_proxy.stores: a place for finished variants.
type StoreModule interface {
	// Hold opens the store, or shares the one that is open. It returns nil where nothing is to be kept.
	Hold() (store.Store, error)
	// Release gives back what Hold returned, once for each.
	Release()
	// Apply puts the module's settings into force, once its config is the one that runs.
	Apply()
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy", New: func() caddy.Module { return new(App) }}
}

// Provision checks the configuration. It changes nothing that a running config uses.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.setDefaults()
	if err := a.checkSettings(); err != nil {
		return err
	}
	if err := a.findTools(); err != nil {
		return err
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading the store: %w", err)
	}
	var ok bool
	if a.storeModule, ok = module.(StoreModule); !ok {
		return fmt.Errorf("the module of store (%T) keeps no variants", module)
	}
	a.openStore = sync.OnceValues(a.holdStore)
	a.engine, a.engineHeld = holdEngine(a.limits(), a.lookLimits()), true
	return measured.register(ctx.GetMetricsRegistry())
}

func (a *App) setDefaults() {
	if a.Slots == 0 {
		a.Slots = runtime.GOMAXPROCS(0)
	}
	if a.Queue == nil {
		queue := defaultQueue
		a.Queue = &queue
	}
	if a.RenderTimeout == 0 {
		a.RenderTimeout = caddy.Duration(defaultRenderTimeout)
	}
	if a.Probes == 0 {
		a.Probes = 2 * a.Slots
	}
	if a.ProbeTimeout == 0 {
		a.ProbeTimeout = caddy.Duration(defaultProbeTimeout)
	}
	if a.RangeWait == 0 {
		a.RangeWait = caddy.Duration(defaultRangeWait)
	}
	if a.MaxSourceSize == 0 {
		a.MaxSourceSize = defaultMaxSourceSize
	}
	if a.MaxVariantSize == 0 {
		a.MaxVariantSize = a.MaxSourceSize
	}
	if a.StoreRaw == nil {
		a.StoreRaw = json.RawMessage(`{"kind":"file_system"}`)
	}
}

// What becomes of an abandoned render.
const (
	abandonedCancel = "cancel"
	abandonedFinish = "finish"
)

func (a *App) checkSettings() error {
	for class := range a.ClassLimits {
		if _, err := admission.ParseClass(class); err != nil {
			return fmt.Errorf("class_limit: %w", err)
		}
	}
	if a.ReadyThreshold != nil && *a.ReadyThreshold < 0 {
		return fmt.Errorf("ready_threshold must be 0 or more, not %d", *a.ReadyThreshold)
	}
	for _, setting := range []struct {
		name  string
		value int64
	}{
		{"slots", int64(a.Slots)}, // before what is made of it
		{"probes", int64(a.Probes)},
		{"probe_timeout", int64(a.ProbeTimeout)},
		{"render_timeout", int64(a.RenderTimeout)},
		{"range_wait", int64(a.RangeWait)},
		{"max_source_size", a.MaxSourceSize},
		{"max_variant_size", a.MaxVariantSize},
	} {
		if setting.value < 0 {
			return fmt.Errorf("%s must be positive, not %d", setting.name, setting.value)
		}
	}
	switch a.Abandoned {
	case "", abandonedCancel, abandonedFinish:
	default:
		return fmt.Errorf("abandoned is %s or %s, not %q", abandonedCancel, abandonedFinish, a.Abandoned)
	}
	return a.limits().Validate()
}

// limits are what this config allows the budget.
func (a *App) limits() admission.Limits {
	l := admission.Limits{
		Slots:   a.Slots,
		Queue:   *a.Queue,
		MaxWait: time.Duration(a.RenderTimeout),
	}
	for name, n := range a.ClassLimits {
		if class, err := admission.ParseClass(name); err == nil { // checked when the config was
			l.ClassLimits[class] = n
		}
	}
	if a.ReadyThreshold != nil {
		l.ReadyThreshold = *a.ReadyThreshold
		if l.ReadyThreshold == 0 {
			l.ReadyThreshold = admission.ReadyAlways
		}
	}
	return l
}

// lookLimits are what this config allows the budget of the probes behind info: the same queue and patience.
func (a *App) lookLimits() admission.Limits {
	return admission.Limits{Slots: a.Probes, Queue: *a.Queue, MaxWait: time.Duration(a.RenderTimeout)}
}

// findTools finds the programs. One that is named must be there; which name was meant is told, not guessed.
func (a *App) findTools() error {
	for _, tool := range []struct {
		name       string
		configured string
		found      *string
	}{
		{"ffmpeg", a.FFmpeg, &a.tools.FFmpeg},
		{"ffprobe", a.FFprobe, &a.tools.FFprobe},
	} {
		name, err := replace(tool.configured)
		if err != nil {
			return fmt.Errorf("%s: %w", tool.name, err)
		}
		if name == "" {
			name = tool.name
		}
		path, err := findProgram(name)
		if err != nil {
			return fmt.Errorf("%s cannot be run: %w (install ffmpeg, or name it with the global option audio_proxy > %s)",
				tool.name, err, tool.name)
		}
		*tool.found = path
	}
	return nil
}

// Start applies the limits and opens the store.
func (a *App) Start() error {
	if _, err := a.openStore(); err != nil {
		return err
	}
	a.warnOfFFmpeg()
	a.warnOfTasks()
	a.engine.register(a)
	return nil
}

// Stop takes the limits back.
func (a *App) Stop() error {
	a.engine.unregister(a)
	return nil
}

// Cleanup gives back what Provision and Start took, however far they got.
func (a *App) Cleanup() error {
	// The pointer stays: requests that came in under this config may still be on their way.
	if a.engineHeld {
		a.engineHeld = false
		a.engine.unregister(a) // Caddy does not stop what it started when a load fails late
		releaseEngine()
	}
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	if a.storeOpened {
		a.storeOpened = false
		a.storeModule.Release()
	}
	return nil
}

func (a *App) holdStore() (store.Store, error) {
	s, err := a.storeModule.Hold()
	if err != nil {
		return nil, err
	}
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	a.storeOpened = true
	return s, nil
}

// terms are what renders of this config are held to.
func (a *App) terms(s store.Store) coalesce.Terms {
	return coalesce.Terms{
		Store:   s,
		Timeout: time.Duration(a.RenderTimeout),
		MaxSize: a.MaxVariantSize,
		Ended:   a.renderEnded,

		FinishAbandoned: a.Abandoned == abandonedFinish,
	}
}

// hold keeps the engine and the store for a flight, which may outlive every config. release gives them back. It
// fails when the last config has gone, and the engine with it.
func (a *App) hold() (release func(), err error) {
	if holdEngine(a.limits(), a.lookLimits()) != a.engine {
		releaseEngine()
		return nil, coalesce.ErrClosed
	}
	if _, err := a.storeModule.Hold(); err != nil {
		releaseEngine()
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return sync.OnceFunc(func() {
		a.storeModule.Release()
		releaseEngine()
	}), nil
}

// replace fills in the placeholders that a setting may have, such as {env.AUDIO_KEY}. One that is empty or
// unknown is an error: it is nearly always a variable that was not set.
func replace(setting string) (string, error) {
	if setting == "" {
		return "", nil
	}
	return caddy.NewReplacer().ReplaceOrErr(setting, true, true)
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
