package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// serve answers with the variant. No error is to be kept for longer than its URL is good for.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, v *variant) error {
	return cutLifetime(h.serveVariant(w, r, v), v.options.Expires, time.Now())
}

// serveVariant answers from the store, from the render that is going on, or from one of its own.
func (h *Handler) serveVariant(w http.ResponseWriter, r *http.Request, v *variant) error {
	if _, idle := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil {
		defer idle.Override(time.Duration(h.ClientIdle), 0, 0)()
	}
	kept, err := h.app.openStore()
	if err != nil {
		return endStoreClosed.refuse(err)
	}
	if !v.keep {
		kept = nil
	}
	for {
		if hit := lookUp(kept, v.id); hit != nil {
			defer hit.Close()
			v.close() // a client may take hours, and the master is not read
			return h.serveStored(w, r, v, hit)
		}
		err := h.serveRender(w, r, v, kept)
		if !errors.Is(err, coalesce.ErrStored) {
			return err
		}
		// It was put into the store between our look and our joining.
	}
}

// lookUp opens a stored variant, or returns nil.
func lookUp(kept store.Store, id store.ID) *store.Variant {
	if kept == nil {
		return nil
	}
	hit, err := kept.Open(id)
	if err != nil {
		return nil // not there; or not to be read, which the store counts and logs: then it is rendered
	}
	return hit
}

// serveRender joins the variant's render, starting it where there is none. It returns coalesce.ErrStored when
// the variant turns out to be in the store.
func (h *Handler) serveRender(w http.ResponseWriter, r *http.Request, v *variant, kept store.Store) error {
	switch decided := evaluate(r.Header, v.representation(nil)); {
	case decided == notModified:
		return answerNotModified(w, strong(v.id.Key), h.cacheField(r, v.caching()))
	case decided == conditionsFail:
		return h.refuseUnseen(r.Context(), v)
	case r.Method == http.MethodHead:
		return h.serveHead(w, r, v)
	}
	listener, cache, err := h.listen(r.Context(), v, kept)
	if err != nil {
		return err
	}
	defer listener.Close()
	v.outcome.follows(listener, cache)
	cut := newCutoff(w, r)
	listener.OnLetGo(cut.now)
	switch complete, err := h.awaitComplete(r, v, listener); {
	case err != nil:
		return err
	case complete:
		return h.serveComplete(w, r, v, kept, listener, cache, cut)
	}
	if err := listener.Ready(r.Context()); err != nil {
		return err
	}
	h.setHeader(w.Header(), r, v, weak(v.id.Key), timingOf(cache, listener))
	w.WriteHeader(http.StatusOK)
	if err := cut.cause(stream(r.Context(), w, listener)); err != nil {
		h.breakOff(w, r, err)
	}
	return nil
}

// listen joins or starts the render. A source is not looked at while its render is going on.
func (h *Handler) listen(ctx context.Context, v *variant, kept store.Store) (*coalesce.Listener, string, error) {
	if l, joined := h.app.engine.flights.Join(v.id, v.class); joined {
		v.close()
		return l, cacheCoalesced, nil
	}
	in, err := h.open(ctx, v)
	if err != nil {
		return nil, "", err
	}
	if !v.keep { // opened again, the source may have lost its validator
		kept = nil
	}
	j, err := h.app.newJob(v, in)
	if err != nil {
		return nil, "", err
	}
	l, started := h.app.engine.flights.JoinOrStart(v.id, v.class, j, h.app.terms(kept))
	if started {
		return l, cacheMiss, nil
	}
	return l, cacheCoalesced, nil
}

// wantsFile reports whether a request for a variant that is not there yet is to be answered with the finished file.
func (h *Handler) wantsFile(r *http.Request, v *variant) bool {
	return h.Delivery == deliveryComplete || lacksFraming(r) || v.wantsPart(r)
}

// awaitComplete waits for the finished file where the answer is to be one, and reports whether it is there. Where it
// takes too long a stream may do in its place, unless the site wants none, or the client could not tell that one was
// broken off.
func (h *Handler) awaitComplete(r *http.Request, v *variant, l *coalesce.Listener) (bool, error) {
	if !h.wantsFile(r, v) {
		return false, nil
	}
	ctx := r.Context()
	if h.Delivery != deliveryComplete && (!lacksFraming(r) || socketOf(r) != nil) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(h.app.RangeWait))
		defer cancel()
	}
	err := l.Complete(ctx)
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// serveComplete answers with a variant that has just become complete.
func (h *Handler) serveComplete(w http.ResponseWriter, r *http.Request, v *variant, kept store.Store, l *coalesce.Listener, cache string, cut *cutoff) error {
	when := timingOf(cache, l)
	if stored := lookUp(kept, v.id); stored != nil {
		defer stored.Close()
		l.Close() // its files are of no use to this client, which may take hours
		return h.serveFile(w, r, v, stored, when, cut)
	}
	final, size := l.Final()
	file := store.NewVariant(store.Info{ID: v.id, Size: size, Stored: time.Now()}, io.NewSectionReader(final, 0, size), func() {})
	return h.serveFile(w, r, v, file, when, cut)
}

// wantsPart reports whether a request for a variant that is not there yet is for a part of it, wherever it ends.
func (v *variant) wantsPart(r *http.Request) bool {
	asked, ok := parseRange(r.Header)
	return ok && !asked.whole() && rangeApplies(r.Header, v.representation(nil))
}

// serveHead gives the header that a GET would get now, and renders nothing.
func (h *Handler) serveHead(w http.ResponseWriter, r *http.Request, v *variant) error {
	cache, err := h.look(r.Context(), v)
	if err != nil {
		return err
	}
	etag := weak(v.id.Key)
	if h.wantsFile(r, v) {
		etag = strong(v.id.Key)
		w.Header().Set("Accept-Ranges", "bytes")
	}
	h.setHeader(w.Header(), r, v, etag, timing{cache: cache})
	w.WriteHeader(http.StatusOK)
	return nil
}

// refuseUnseen answers a request whose conditions a variant cannot meet that is not there yet, without rendering it.
// A condition counts only where there would be an answer without it (RFC 9110, 13.2.1).
func (h *Handler) refuseUnseen(ctx context.Context, v *variant) error {
	if _, err := h.look(ctx, v); err != nil {
		return err
	}
	return errPrecondition()
}

// look finds what can be known of a variant that is not stored, without rendering it: whether its source can be had,
// and how a GET would come by it.
func (h *Handler) look(ctx context.Context, v *variant) (cache string, err error) {
	if h.app.engine.flights.Going(v.id) {
		return cacheCoalesced, nil
	}
	in, err := h.open(ctx, v)
	if err != nil {
		return "", err
	}
	in.Close()
	return cacheMiss, nil
}

// setHeader sets what every answer with this variant says of it.
func (h *Handler) setHeader(header http.Header, r *http.Request, v *variant, etag string, when timing) {
	header.Set("Content-Type", v.options.ContentType())
	header.Set("X-Content-Type-Options", "nosniff") // a source's bytes are somebody else's
	if v.keep {
		header.Set("ETag", etag)
	}
	header.Set("Cache-Control", h.cacheField(r, v.caching()))
	if disposition := v.options.ContentDisposition(); disposition != "" {
		header.Set("Content-Disposition", disposition)
	}
	when.setHeader(header)
	v.outcome.cameBy(when.cache)
}

// Entity tags of a variant. A stream is only weakly the same as the stored file, whose header fields were
// completed after the stream had passed.
func strong(key string) string { return `"` + key + `"` }

func weak(key string) string { return `W/"` + key + `"` }

// How a variant was come by, as X-Audio-Proxy says it.
const (
	cacheHit       = "HIT"
	cacheMiss      = "MISS"
	cacheCoalesced = "COALESCED"
)

// timing is how a variant was come by, and how long that took.
type timing struct {
	cache                    string
	queue, probe, firstBytes time.Duration
}

func timingOf(cache string, l *coalesce.Listener) timing {
	t := timing{cache: cache}
	t.queue, t.probe, t.firstBytes = l.Times()
	return t
}

// setHeader tells it in the API's own field, and in those of RFC 9211 and of Server Timing.
func (t timing) setHeader(header http.Header) {
	header.Set("X-Audio-Proxy", t.cache)
	status := map[string]string{cacheHit: "hit", cacheMiss: "fwd=miss", cacheCoalesced: "fwd=miss; collapsed"}
	header.Add("Cache-Status", "audio_proxy; "+status[t.cache])
	header.Add("Server-Timing", fmt.Sprintf("queue;dur=%.1f, probe;dur=%.1f, first-byte;dur=%.1f",
		milliseconds(t.queue), milliseconds(t.probe), milliseconds(t.firstBytes)))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
