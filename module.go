// Package audioproxy serves audio variants from Caddy: other formats, previews, peaks, rendered by ffmpeg when
// they are first asked for and kept afterwards.
package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler serves the variants of one site's audio. See the README for what its URLs look like.
type Handler struct {
	// Where audio comes from, by scheme.
	SourcesRaw caddy.ModuleMap `json:"sources,omitempty" caddy:"namespace=audio_proxy.sources"`

	// The keys that sign URLs. Any of them verifies.
	Keys []KeyPair `json:"keys,omitempty"`

	// Accept the word "insecure" in place of a signature.
	Insecure bool `json:"insecure,omitempty"`

	// What decides about a request's class. The first rule that matches counts.
	Classes []ClassRule `json:"classes,omitempty"`

	// The class of a request that no rule matched: interactive (the default), high, normal or low.
	DefaultClass string `json:"default_class,omitempty"`

	// Names for option strings: "p:<name>" in a URL stands for one.
	Presets map[string]string `json:"presets,omitempty"`

	// Refuse all options but presets, and those about the request (exp, dl, cb).
	PresetsOnly bool `json:"presets_only,omitempty"`

	// Serve a tree of files, each as this one variant, under its own path: no signature, no options in the URL.
	Variant *string `json:"variant,omitempty"`

	// Whether a stored variant stays what it is when its source changes ("immutable"), or every request looks at
	// the source first ("revalidate"). Default: immutable; revalidate under Variant.
	Freshness string `json:"freshness,omitempty"`

	// Whether to answer while a variant renders ("stream", the default), or only when it is complete
	// ("complete"), with its length.
	Delivery string `json:"delivery,omitempty"`

	// How long a listener may stand still before its connection is given up. Default: 10m.
	ClientIdle caddy.Duration `json:"client_idle,omitempty"`

	// Who renders errors: this handler, in JSON ("json", the default), or the site's error routes ("caddy").
	Errors string `json:"errors,omitempty"`

	// Let the next handler answer what would be 404.
	PassThru bool `json:"pass_thru,omitempty"`

	// Who may keep answers, as Cache-Control says it: any cache ("public", the default; never where the request has an
	// Authorization field), or only the listener's own ("private").
	Cache string `json:"cache,omitempty"`

	// The origin, or "*", whose pages may use the answers (CORS). Default: none.
	CORS string `json:"cors,omitempty"`

	app          *App
	sources      map[string]SourceModule
	keyring      urlapi.Keyring
	fixed        *urlapi.Options
	searched     atomic.Int64 // when the store was last asked for all that a path of a fixed variant may mean
	defaultClass admission.Class
	logger       *zap.Logger
}

// KeyPair is a key and its salt, each in hex. Placeholders such as {env.AUDIO_KEY} are filled in.
type KeyPair struct {
	Key  string `json:"key"`
	Salt string `json:"salt"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.audio_proxy", New: func() caddy.Module { return new(Handler) }}
}

// Provision sets the handler up.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if err := h.provisionSettings(); err != nil {
		return err
	}
	if err := h.provisionKeys(); err != nil {
		return err
	}
	if err := h.provisionClasses(ctx); err != nil {
		return err
	}
	if err := h.provisionSources(ctx); err != nil {
		return err
	}
	app, err := ctx.App("audio_proxy")
	if err != nil {
		return err
	}
	h.app = app.(*App)
	h.app.addSite(ctx, h)
	refuseWaitersOnShutdown(ctx, h.app.engine)
	noteConnections(ctx)
	return nil
}

func (h *Handler) provisionKeys() error {
	for i, pair := range h.Keys {
		key, err := pair.resolve()
		if err != nil {
			return fmt.Errorf("key %d: %w", i+1, err)
		}
		h.keyring = append(h.keyring, key)
	}
	if len(h.keyring) == 0 && !h.Insecure && h.Variant == nil {
		return errors.New("nobody could be served: give the site a key or a variant, or say insecure")
	}
	if h.Insecure {
		h.logger.Warn("unsigned URLs are accepted: anybody may ask for any variant (setting: insecure)")
	}
	return nil
}

func (p KeyPair) resolve() (urlapi.Key, error) {
	key, err := replace(p.Key)
	if err != nil {
		return urlapi.Key{}, err
	}
	salt, err := replace(p.Salt)
	if err != nil {
		return urlapi.Key{}, err
	}
	return urlapi.NewKey(key, salt)
}

func (h *Handler) provisionSources(ctx caddy.Context) error {
	modules, err := ctx.LoadModule(h, "SourcesRaw")
	if err != nil {
		return fmt.Errorf("loading sources: %w", err)
	}
	h.sources = make(map[string]SourceModule)
	for scheme, module := range modules.(map[string]any) {
		source, ok := module.(SourceModule)
		if !ok {
			return fmt.Errorf("the module audio_proxy.sources.%s (%T) opens no sources", scheme, module)
		}
		h.sources[scheme] = source
	}
	if len(h.sources) == 0 {
		return errors.New("there is nothing to serve: name a source, such as: source local <root>")
	}
	return nil
}

// refuseWaitersOnShutdown closes the budget when the process exits, as soon as the server is told to. The HTTP
// app waits for requests to end, and requests that wait for a slot would make it wait for nothing.
func refuseWaitersOnShutdown(ctx caddy.Context, e *engine) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return // not in a server: adapted, or a test
	}
	server.RegisterOnShutdown(guard.Func(func() {
		if caddy.Exiting() {
			e.refuseWaiters()
		}
	}))
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	o := watch(w, r)
	defer o.end()
	if h.CORS != "" {
		h.allowOrigin(w.Header())
		if r.Method == http.MethodOptions {
			o.endsWell()
			return answerPreflight(o, r)
		}
	}
	err := h.answer(o, r)
	if err == nil {
		o.endsWell()
		return nil
	}
	if cause := context.Cause(r.Context()); cause != nil {
		o.isGone()
		return caddyhttp.Error(statusClientGone, cause) // nobody is there to read it
	}
	refused := refusalOf(err)
	if h.PassThru && refused.status == http.StatusNotFound {
		o.passes()
		return next.ServeHTTP(w, r)
	}
	o.refused(refused)
	return h.refuse(o, r, refused)
}

// answer takes the steps of the URL API, in its order of checks. Its errors are what refusalOf understands, and
// nothing has been written then.
func (h *Handler) answer(w *outcome, r *http.Request) error {
	path, err := h.route(r)
	if err != nil {
		return err
	}
	w.leadsTo(path.kind)
	switch path.kind {
	case healthTarget:
		return serveHealth(w, r)
	case readyTarget:
		return h.serveReady(w, r)
	}
	v, err := h.read(r.Context(), path, time.Now())
	if err != nil {
		return err
	}
	defer v.close()
	w.reads(v)
	if !v.info && v.keep && notModifiedByTag(r.Header, strong(v.id.Key)) {
		return answerNotModified(w, strong(v.id.Key), h.cacheField(r, v.caching()))
	}
	if v.class, err = h.classify(r); err != nil {
		return err
	}
	w.classified = true
	if v.info {
		return h.serveInfo(w, r, v)
	}
	return h.serve(w, r, v)
}

// Interface guards
var (
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
)
