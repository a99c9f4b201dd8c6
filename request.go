package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// variant is what a request asks for, once everything that can be checked without rendering has been.
type variant struct {
	info    bool // the source's facts, and no variant at all
	options urlapi.Options
	source  urlapi.Source
	opener  source.Opener
	id      store.ID
	class   admission.Class
	outcome *outcome // of the request; nil where there is none

	lifetime    time.Duration // of a response; an expiry cuts it
	revalidated bool          // the key stands for the source as it is now
	keep        bool          // whether the store may have it
	input       *source.Input // open already where the source had to be looked at; close gives it up
}

// Lifetimes of a response: of what never changes, and of what is looked at again (URL API).
const (
	lifetimeImmutable   = 31536000 * time.Second
	lifetimeRevalidated = time.Hour
)

func (v *variant) close() {
	if v.input != nil {
		v.input.Close()
		v.input = nil
	}
}

// take hands the open source over, opening it if need be.
func (v *variant) take(ctx context.Context) (*source.Input, error) {
	if v.input == nil {
		return v.opener.Open(ctx, v.source.Path)
	}
	in := v.input
	v.input = nil
	return in, nil
}

// target is where a path leads.
type target struct {
	kind            targetKind
	signature, rest string
	file            string // under a fixed variant: the source's path, decoded
}

type targetKind int

const (
	variantTarget targetKind = iota
	fixedTarget
	healthTarget
	readyTarget
)

// route says where the path leads, or that it leads nowhere.
func (h *Handler) route(r *http.Request) (target, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return target{}, errNotFound(fmt.Errorf("method %s", r.Method))
	}
	path := escapedPath(r)
	if h.fixed != nil {
		file, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
		if err != nil {
			return target{}, errNotFound(err)
		}
		return target{kind: fixedTarget, file: file}, nil
	}
	switch path {
	case "/health":
		return target{kind: healthTarget}, nil
	case "/ready":
		return target{kind: readyTarget}, nil
	}
	signature, rest, ok := urlapi.Split(path)
	if !ok {
		return target{}, errNotFound(errors.New("no such route"))
	}
	return target{signature: signature, rest: rest}, nil
}

// escapedPath is the path as the client sent it, without what handle_path or uri strip_prefix took off its
// front. A path that was decoded and encoded again is another path, and so is one with its slashes merged, such as
// those of local://. net/url does the one to characters that came without an escape they need, Caddy's rewrites do
// the other. So it is taken from the request line, which says what was sent.
func escapedPath(r *http.Request) string {
	sent := r.RequestURI
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		sent = original.RequestURI // a rewrite changes the field
	}
	sent, _, _ = strings.Cut(sent, "?")
	if !strings.HasPrefix(sent, "/") { // the absolute form, as sent to proxies
		_, sent, _ = strings.Cut(sent, "://")
		sent = sent[max(strings.IndexByte(sent, '/'), 0):]
	}
	if decoded, err := url.PathUnescape(sent); err == nil && decoded == r.URL.Path {
		return sent
	}
	// The prefix that is missing from the path is as long as what the rewrite's own cleaning has more of.
	if full, ok := cleaned(sent); ok && strings.HasSuffix(full, r.URL.Path) {
		rest := skipDecoded(sent, len(full)-len(r.URL.Path))
		if path, ok := cleaned(rest); ok && path == r.URL.Path {
			return rest
		}
	}
	return r.URL.EscapedPath() // rewritten to something else
}

// cleaned is what a rewrite makes of an escaped path before it decodes it.
func cleaned(escaped string) (string, bool) {
	decoded, err := url.PathUnescape(caddyhttp.CleanPath(escaped, true))
	return decoded, err == nil
}

// skipDecoded drops the first n characters of an escaped path, where an escape counts as one.
func skipDecoded(path string, n int) string {
	for ; n > 0 && path != ""; n-- {
		if path[0] == '%' && len(path) > 2 {
			path = path[2:]
		}
		path = path[1:]
	}
	return path
}

// read takes a path apart and checks it, in the order of the URL API: signature, expiry, options, source.
func (h *Handler) read(ctx context.Context, path target, now time.Time) (*variant, error) {
	if path.kind == fixedTarget {
		return h.readFixed(ctx, path.file)
	}
	if !h.verified(path) {
		return nil, errSignature()
	}
	asked, err := urlapi.ParseRequest(path.rest)
	if err != nil {
		return nil, err
	}
	expires := urlapi.PeekExpiry(asked.OptionSegments)
	if urlapi.Expired(expires, now) {
		return nil, errExpired()
	}
	v, err := h.readSigned(ctx, asked)
	if err != nil {
		return nil, cutLifetime(err, expires, now)
	}
	v.lifetime = urlapi.ClampLifetime(v.lifetime, expires, now)
	return v, nil
}

// readSigned reads what a verified URL asks for that has not expired.
func (h *Handler) readSigned(ctx context.Context, asked urlapi.Request) (v *variant, err error) {
	v = &variant{info: asked.Info}
	if !asked.Info {
		if v.options, err = h.parseOptions(asked.OptionSegments); err != nil {
			return nil, err
		}
	}
	if v.source, err = urlapi.ParseSource(asked.Source); err != nil {
		return nil, err
	}
	if err := h.identify(ctx, v); err != nil {
		return nil, err
	}
	return v, nil
}

func (h *Handler) verified(path target) bool {
	if path.signature == urlapi.Insecure {
		return h.Insecure
	}
	return h.keyring.Verify(path.signature, path.rest)
}

func (h *Handler) parseOptions(segments string) (urlapi.Options, error) {
	expanded, err := urlapi.Presets(h.Presets).Expand(segments, h.PresetsOnly)
	if err != nil {
		return urlapi.Options{}, err
	}
	return urlapi.ParseOptions(expanded)
}

// identify finds who opens the source, and what the variant is called. Where the site follows changes of its
// sources, this is where the source is looked at.
func (h *Handler) identify(ctx context.Context, v *variant) error {
	module, ok := h.sources[v.source.Scheme]
	if !ok {
		return errNotFound(fmt.Errorf("no source of kind %q is configured", v.source.Scheme))
	}
	v.opener = module
	v.id.Scope = scopeOf(v.source.Scheme, module)
	v.keep = true
	v.lifetime = lifetimeImmutable
	if h.Freshness != freshnessRevalidate || v.info {
		v.id.Key = urlapi.CacheKey(v.options.Canonical(), v.source.String())
		return nil
	}
	if v.input == nil {
		in, err := v.opener.Open(ctx, v.source.Path)
		if err != nil {
			return err
		}
		v.input = in
	}
	v.revalidated = true
	v.lifetime = lifetimeRevalidated
	v.keep = v.input.Validator != ""
	v.id.Key = urlapi.CacheKey(v.options.Canonical(), v.source.String(), v.input.Validator)
	return nil
}

// open opens the source for a render and holds it to the limit.
func (h *Handler) open(ctx context.Context, v *variant) (*source.Input, error) {
	in, err := v.take(ctx)
	if err != nil {
		return nil, err
	}
	if limit := h.app.MaxSourceSize; in.Size > limit {
		in.Close()
		return nil, errSourceTooLarge(in.Size, limit)
	}
	return in, nil
}
