package audioproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func init() {
	caddy.RegisterModule(new(AdminAPI))
}

// AdminAPI adds the endpoints under /audio_proxy/ to Caddy's admin API: what is rendering and waiting, what is
// stored, and how to change either.
//
// Caddy makes the admin endpoint of a config before its apps, and keeps that of a config that was refused. So
// nothing is remembered here: every request looks up what runs.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.audio_proxy", New: func() caddy.Module { return new(AdminAPI) }}
}

// Provision registers the metrics with the registry that this endpoint's /metrics shows, which stays when the rest
// of its config is refused. A config without audio_proxy shows none.
func (*AdminAPI) Provision(ctx caddy.Context) error {
	if len(pooled[*engine](enginePool)) == 0 {
		return nil
	}
	return measured.register(ctx.GetMetricsRegistry())
}

// adminPath is what the paths of all endpoints begin with.
const adminPath = "/audio_proxy/"

// Routes implements caddy.AdminRouter.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: adminPath, Handler: caddy.AdminHandlerFunc(a.serve)}}
}

// endpoint is one path of the API, or what lies below it when the path ends in a slash, and what it does for
// each method.
type endpoint struct {
	path    string
	methods map[string]func(w http.ResponseWriter, r *http.Request, app *App, key string) error
}

type adminMethods = map[string]func(http.ResponseWriter, *http.Request, *App, string) error

var endpoints = []endpoint{
	{"status", adminMethods{http.MethodGet: getStatus}},
	{"renders", adminMethods{http.MethodGet: getRenders}},
	{"renders/", adminMethods{http.MethodDelete: deleteRender}},
	{"variants/", adminMethods{http.MethodGet: getVariant, http.MethodDelete: deleteVariant}},
	{"warm", adminMethods{http.MethodPost: postWarm}},
}

func (*AdminAPI) serve(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(r.URL.Path, adminPath)
	for _, e := range endpoints {
		key, below := strings.CutPrefix(path, e.path)
		if !below || strings.HasSuffix(e.path, "/") != (key != "") {
			continue
		}
		handle := e.methods[r.Method]
		if handle == nil {
			return apiError(http.StatusMethodNotAllowed, "method %s is not for this path", r.Method)
		}
		if key != "" && !urlapi.IsKey(key) {
			return apiError(http.StatusBadRequest, "a key is 64 lower-case hex digits, as the ETag of a variant has it")
		}
		app := runningApp()
		if app == nil {
			return apiError(http.StatusNotFound, "no site of the running config uses audio_proxy")
		}
		return handle(w, r, app, key)
	}
	return apiError(http.StatusNotFound, "there is no such endpoint: %s", r.URL.Path)
}

func apiError(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

func answerJSON(w http.ResponseWriter, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(answer)
}

// runningApp is the app of the config that runs, or nil.
func runningApp() *App {
	for _, e := range pooled[*engine](enginePool) { // one, or none
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.registered) > 0 {
			return e.registered[0]
		}
	}
	return nil
}

// serverStatus is the answer of GET status.
type serverStatus struct {
	Budget budgetStatus `json:"budget"`
	Probes struct {
		Running  int `json:"running"`
		Capacity int `json:"capacity"`
	} `json:"probes"`
	Store *storeStatus `json:"store"` // null: nothing is kept

	// What takes room for its readers alone: what the store evicted while it was read, and what it did not take.
	HeldBytes int64 `json:"held_bytes"`

	FFmpeg ffmpegStatus `json:"ffmpeg"`
}

type budgetStatus struct {
	Slots      int            `json:"slots"`
	Held       int            `json:"held"`
	Yielding   int            `json:"yielding"`
	Queue      int            `json:"queue"`
	Queued     int            `json:"queued"`
	Depth      map[string]int `json:"depth"`
	RetryAfter float64        `json:"retry_after"` // seconds; what a request would be told that is refused now
	Closed     bool           `json:"closed"`      // the process exits
}

type storeStatus struct {
	Files         int64 `json:"files"`
	Bytes         int64 `json:"bytes"`
	MaxBytes      int64 `json:"max_bytes"`
	HeldBytes     int64 `json:"held_bytes"` // evicted, and still read
	Evictions     int64 `json:"evictions"`
	WriteFailures int64 `json:"write_failures"`
	ReadFailures  int64 `json:"read_failures"`
}

func getStatus(w http.ResponseWriter, _ *http.Request, app *App, _ string) error {
	stats := app.engine.budget.Stats()
	status := serverStatus{
		Budget: budgetStatus{
			Slots: stats.Slots, Held: stats.Held, Yielding: stats.Yielding,
			Queue: stats.Queue, Queued: stats.Queued, Depth: make(map[string]int),
			RetryAfter: stats.RetryAfter.Seconds(), Closed: stats.Closed,
		},
		FFmpeg: app.inspected(),
	}
	for _, class := range admission.Classes() {
		status.Budget.Depth[class.String()] = stats.Depths[class]
	}
	status.Probes.Running, status.Probes.Capacity = app.engine.probes()
	kept, err := app.openStore()
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	if kept != nil {
		s := kept.Stats()
		status.Store = &storeStatus{s.Files, s.Bytes, s.MaxBytes, s.HeldBytes, s.Evictions, s.WriteFailures, s.ReadFailures}
		status.HeldBytes = s.HeldBytes
	}
	status.HeldBytes += app.engine.flights.Held()
	return answerJSON(w, status)
}

// probes is how many sources info examines now, and how many it may.
func (e *engine) probes() (running, capacity int) {
	stats := e.lookBudget.Stats()
	return stats.Held, stats.Slots
}

// renderStatus is one element of the answer of GET renders.
type renderStatus struct {
	Key       string          `json:"key"`
	Options   string          `json:"options"`
	Source    string          `json:"source"`
	Class     admission.Class `json:"class"`
	State     string          `json:"state"` // waiting or rendering
	Listeners int             `json:"listeners"`
	Bytes     int64           `json:"bytes"`
	Age       float64         `json:"age"` // seconds
}

func getRenders(w http.ResponseWriter, _ *http.Request, app *App, _ string) error {
	renders := []renderStatus{} // and not null
	for _, f := range app.engine.flights.Flights() {
		j := f.Job.(*job)
		state := "waiting"
		if f.Rendering {
			state = "rendering"
		}
		renders = append(renders, renderStatus{
			Key: f.ID.Key, Options: j.options.Canonical(), Source: loggable(j.source),
			Class: f.Class, State: state, Listeners: f.Listeners, Bytes: f.Bytes, Age: f.Age.Seconds(),
		})
	}
	return answerJSON(w, renders)
}

func deleteRender(w http.ResponseWriter, _ *http.Request, app *App, key string) error {
	n := app.engine.flights.Cancel(key)
	if n == 0 {
		return apiError(http.StatusNotFound, "nothing with this key is rendering or waiting")
	}
	return answerJSON(w, map[string]int{"cancelled": n})
}

// variantStatus is one element of the answer of GET variants: one key may name variants of several sites.
type variantStatus struct {
	Key      string    `json:"key"`
	Scope    string    `json:"scope"`
	Size     int64     `json:"size"`
	Age      float64   `json:"age"` // seconds
	LastUsed time.Time `json:"last_used"`
}

func getVariant(w http.ResponseWriter, _ *http.Request, app *App, key string) error {
	_, stored, err := storedUnder(app, key)
	if err != nil {
		return err
	}
	answer := make([]variantStatus, len(stored))
	for i, info := range stored {
		answer[i] = variantStatus{
			Key: key, Scope: info.ID.Scope, Size: info.Size,
			Age: time.Since(info.Stored).Seconds(), LastUsed: info.LastUsed.UTC(),
		}
	}
	return answerJSON(w, answer)
}

func deleteVariant(w http.ResponseWriter, _ *http.Request, app *App, key string) error {
	kept, stored, err := storedUnder(app, key)
	if err != nil {
		return err
	}
	n := 0
	for _, info := range stored {
		err := kept.Delete(info.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("forgetting a variant: %w", err)
		}
		if err == nil {
			n++
		}
	}
	return answerJSON(w, map[string]int{"forgotten": n})
}

// storedUnder finds the variants of a key, of which there is at least one.
func storedUnder(app *App, key string) (store.Store, []store.Info, error) {
	kept, err := keeping(app)
	if err != nil {
		return nil, nil, err
	}
	stored, err := kept.List(key)
	if err != nil {
		return nil, nil, apiError(http.StatusBadGateway, "the store could not be read: %w", err)
	}
	if len(stored) == 0 {
		return nil, nil, apiError(http.StatusNotFound, "nothing is stored under this key")
	}
	return kept, stored, nil
}

// keeping is the store of a config that has one.
func keeping(app *App) (store.Store, error) {
	kept, err := app.openStore()
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if kept == nil {
		return nil, apiError(http.StatusNotFound, "nothing is kept (setting: store off)")
	}
	return kept, nil
}

// Interface guards
var (
	_ caddy.AdminRouter = (*AdminAPI)(nil)
	_ caddy.Provisioner = (*AdminAPI)(nil)
)
