package audioproxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// variant is what a request asks for, once everything that can be checked without touching a source has been.
type variant struct {
	options urlapi.Options
	source  urlapi.Source
	opener  source.Opener
	id      store.ID
	class   admission.Class

	lifetime time.Duration // of a response; an expiry cuts it
}

// yearly is the lifetime of what never changes, by the URL API.
const yearly = 31536000 * time.Second

// target is where a path leads.
type target struct {
	health          bool
	signature, rest string
}

// route says where the path leads, or that it leads nowhere.
func route(r *http.Request) (target, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return target{}, errNotFound(fmt.Errorf("method %s", r.Method))
	}
	path := escapedPath(r)
	if path == "/health" {
		return target{health: true}, nil
	}
	signature, rest, ok := urlapi.Split(path)
	if !ok {
		return target{}, errNotFound(fmt.Errorf("no such route"))
	}
	return target{signature: signature, rest: rest}, nil
}

// escapedPath is the path as the client sent it, without what handle_path or uri strip_prefix took off its
// front. A path that was decoded and encoded again is another path. After a rewrite Caddy keeps no escaped form
// if that equals the decoded one, and then URL.EscapedPath would escape what the client did not.
func escapedPath(r *http.Request) string {
	escaped := r.URL.EscapedPath()
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil {
		return escaped
	}
	sent := original.URL.EscapedPath()
	if !strings.HasSuffix(sent, escaped) && strings.HasSuffix(sent, r.URL.Path) {
		return r.URL.Path
	}
	return escaped
}

// read takes a path apart and checks it, in the order of the URL API: signature, expiry, options, source.
func (h *Handler) read(path target, now time.Time) (*variant, error) {
	if !h.verified(path) {
		return nil, errSignature()
	}
	asked, err := urlapi.ParseRequest(path.rest)
	if err != nil {
		return nil, err
	}
	if urlapi.Expired(urlapi.PeekExpiry(asked.OptionSegments), now) {
		return nil, errExpired()
	}
	options, err := urlapi.ParseOptions(asked.OptionSegments)
	if err != nil {
		return nil, err
	}
	src, err := urlapi.ParseSource(asked.Source)
	if err != nil {
		return nil, err
	}
	module, ok := h.sources[src.Scheme]
	if !ok {
		return nil, errNotFound(fmt.Errorf("no source of kind %q is configured", src.Scheme))
	}
	return &variant{
		options:  options,
		source:   src,
		opener:   module,
		id:       store.ID{Scope: scopeOf(src.Scheme, module), Key: urlapi.CacheKey(options.Canonical(), src.String())},
		lifetime: urlapi.ClampLifetime(yearly, options.Expires, now),
	}, nil
}

func (h *Handler) verified(path target) bool {
	if path.signature == urlapi.Insecure {
		return h.Insecure
	}
	return h.keyring.Verify(path.signature, path.rest)
}

// open opens the source and holds it to the limit.
func (h *Handler) open(ctx context.Context, v *variant) (*source.Input, error) {
	in, err := v.opener.Open(ctx, v.source.Path)
	if err != nil {
		return nil, err
	}
	if limit := h.app.MaxSourceSize; in.Size > limit {
		in.Close()
		return nil, errSourceTooLarge(in.Size, limit)
	}
	return in, nil
}
