package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// How a variant was come by, as X-Audio-Proxy says it.
const (
	cacheHit       = "HIT"
	cacheMiss      = "MISS"
	cacheCoalesced = "COALESCED"
)

// clientIdle is how long a listener may stand still before its connection is given up. Caddy's own limit is a
// minute, which a paused player exceeds.
const clientIdle = 10 * time.Minute

// serve answers with the variant: from the store, from the render that is going on, or from one of its own.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, v *variant) error {
	if _, idle := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil {
		defer idle.Override(clientIdle, 0, 0)()
	}
	kept, err := h.app.openStore()
	if err != nil {
		return h.refuse(w, r, fmt.Errorf("opening the store: %w", err))
	}
	for {
		if hit := lookUp(kept, v.id); hit != nil {
			defer hit.Close()
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
		return nil // not there, or gone by now: then it is rendered
	}
	return hit
}

// serveRender joins the variant's render, starting it where there is none. It returns coalesce.ErrStored when
// the variant turns out to be in the store, and nothing has been answered then.
func (h *Handler) serveRender(w http.ResponseWriter, r *http.Request, v *variant, kept store.Store) error {
	if r.Method == http.MethodHead {
		return h.serveHead(w, r, v)
	}
	listener, cache, err := h.listen(r.Context(), v, kept)
	if err != nil {
		return h.refuse(w, r, err)
	}
	defer listener.Close()
	if err := listener.Ready(r.Context()); err != nil {
		if errors.Is(err, coalesce.ErrStored) {
			return err
		}
		return h.refuse(w, r, err)
	}
	v.setHeader(w.Header(), `W/"`+v.id.Key+`"`, cache)
	w.WriteHeader(http.StatusOK)
	if err := stream(r.Context(), w, listener); err != nil {
		h.breakOff(r, err)
	}
	return nil
}

// listen joins or starts the render. A source is not looked at while its render is going on.
func (h *Handler) listen(ctx context.Context, v *variant, kept store.Store) (*coalesce.Listener, string, error) {
	if l, joined := h.app.engine.flights.Join(v.id, v.class); joined {
		return l, cacheCoalesced, nil
	}
	in, err := h.open(ctx, v)
	if err != nil {
		return nil, "", err
	}
	l, started := h.app.engine.flights.JoinOrStart(v.id, v.class, h.app.newJob(v, in), h.app.terms(kept))
	if started {
		return l, cacheMiss, nil
	}
	return l, cacheCoalesced, nil
}

// serveHead gives the header that a GET would get now, and renders nothing.
func (h *Handler) serveHead(w http.ResponseWriter, r *http.Request, v *variant) error {
	cache := cacheMiss
	if h.app.engine.flights.Going(v.id) {
		cache = cacheCoalesced
	} else {
		in, err := h.open(r.Context(), v)
		if err != nil {
			return h.refuse(w, r, err)
		}
		in.Close()
	}
	v.setHeader(w.Header(), `W/"`+v.id.Key+`"`, cache)
	w.WriteHeader(http.StatusOK)
	return nil
}

// pieces are the buffers that streams are copied through. A listener holds one only while it writes.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// stream copies the variant to the client as it is rendered.
func stream(ctx context.Context, w http.ResponseWriter, l *coalesce.Listener) error {
	controller := http.NewResponseController(w)
	for {
		if err := l.More(ctx); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := catchUp(w, l); err != nil {
			return err
		}
		// What there is must not sit in a buffer until there is more.
		if err := controller.Flush(); err != nil {
			return err
		}
	}
}

// catchUp copies what has been rendered by now.
func catchUp(w io.Writer, l *coalesce.Listener) error {
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	for {
		n, err := l.Read(piece[:])
		if err != nil || n == 0 {
			return err
		}
		if _, err := w.Write(piece[:n]); err != nil {
			return err
		}
	}
}

// breakOff ends an answer that cannot be completed in the one way a client can tell from a complete one:
// without its end. net/http knows the panic and logs nothing.
func (h *Handler) breakOff(r *http.Request, err error) {
	if r.Context().Err() == nil {
		if c := h.logger.Check(zap.WarnLevel, "broke off a stream"); c != nil {
			c.Write(zap.String("uri", r.RequestURI), zap.Error(err))
		}
	}
	panic(http.ErrAbortHandler)
}

// setHeader sets what every answer with this variant says of it.
func (v *variant) setHeader(header http.Header, etag, cache string) {
	header.Set("Content-Type", v.options.ContentType())
	header.Set("ETag", etag)
	header.Set("Cache-Control", v.cacheControl())
	header.Set("X-Audio-Proxy", cache)
	if disposition := v.options.ContentDisposition(); disposition != "" {
		header.Set("Content-Disposition", disposition)
	}
}

func (v *variant) cacheControl() string {
	return "public, max-age=" + strconv.FormatInt(int64(v.lifetime/time.Second), 10) + ", immutable, no-transform"
}
