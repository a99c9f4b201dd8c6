// Package audioproxy serves audio variants from Caddy: other formats, previews, peaks, rendered by ffmpeg when
// they are first asked for and kept afterwards.
package audioproxy

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
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

	app          *App
	sources      map[string]SourceModule
	keyring      urlapi.Keyring
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
	refuseWaitersOnShutdown(ctx, h.app.engine)
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
	if len(h.keyring) == 0 && !h.Insecure {
		return errors.New("nobody could be served: give the site a key, or say insecure")
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
		h.sources[scheme] = module.(SourceModule)
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
	server.RegisterOnShutdown(func() {
		if caddy.Exiting() {
			e.budget.Close()
		}
	})
}

// ServeHTTP answers a request. The steps are those of the URL API, in its order of checks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	path, err := route(r)
	if err != nil {
		return h.refuse(w, r, err)
	}
	if path.health {
		return serveHealth(w)
	}
	v, err := h.read(path, time.Now())
	if err != nil {
		return h.refuse(w, r, err)
	}
	if v.notModified(r) {
		return v.answerNotModified(w)
	}
	if v.class, err = h.classify(r); err != nil {
		return err
	}
	return h.serve(w, r, v)
}

// Interface guards
var (
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
)
