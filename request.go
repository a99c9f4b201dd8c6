package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

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
	id      store.ID
	class   admission.Class
	outcome *outcome // of the request; nil where there is none

	lifetime    time.Duration // of a response; an expiry cuts it
	revalidated bool          // the key stands for the source as it is now
	keep        bool          // whether anybody may have it for longer than this answer: the store, a client with its tag

	opener   source.Opener
	patience time.Duration // how long opening may take
	input    *source.Input // open already where the source had to be looked at; close gives it up
}

// Lifetimes of a response: of what never changes, of what is looked at again, and of what cannot be told from what it
// will be (URL API).
const (
	lifetimeImmutable   = 31536000 * time.Second
	lifetimeRevalidated = time.Hour
	lifetimeUnknown     = time.Minute
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
		if err := v.look(ctx); err != nil {
			return nil, err
		}
	}
	in := v.input
	v.input = nil
	return in, nil
}

// look opens the source. It is the one way to open one, and where the site follows changes of its sources it names the
// variant after what it opened: however often that is done, the key is that of the bytes that are rendered.
func (v *variant) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	in, err := v.opener.Open(ctx, v.source.Path)
	if err != nil {
		return timedOut(err)
	}
	v.input = in
	if v.revalidated {
		v.lifetime, v.keep = lifetimeRevalidated, in.Validator != ""
		if !v.keep {
			v.lifetime = lifetimeUnknown
		}
		v.id.Key = urlapi.CacheKey(v.options.Canonical(), v.source.String(), in.Revision())
	}
	return nil
}

// timedOut says what it means that a source did not answer in time, where it does not say so itself.
func timedOut(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, source.ErrUnavailable) {
		return fmt.Errorf("%w: %w", source.ErrUnavailable, err)
	}
	return err
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
	return target{signature: signature, rest: urlapi.RestoreSlash(rest)}, nil
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
	v.opener, v.patience = module, time.Duration(h.app.ProbeTimeout)
	v.id.Scope = scopeOf(v.source.Scheme, module)
	v.revalidated = h.Freshness == freshnessRevalidate && !v.info
	if v.revalidated {
		return v.look(ctx)
	}
	v.keep = true
	v.lifetime = lifetimeImmutable
	v.id.Key = urlapi.CacheKey(v.options.Canonical(), v.source.String())
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
