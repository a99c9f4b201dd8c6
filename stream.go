package audioproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// pieces are the buffers that streams are copied through. A listener holds one only while it writes.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// stream copies the variant to the client as it is rendered.
func stream(ctx context.Context, w http.ResponseWriter, l *coalesce.Listener) error {
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
		if err := flush(w); err != nil {
			return err
		}
	}
}

// flush sends what a writer holds back. A handler in front may have wrapped the writer without a way to do so: then the
// stream goes out as buffers fill, which delays it and does no other harm.
func flush(w http.ResponseWriter) error {
	err := http.NewResponseController(w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// catchUp copies what has been rendered by now.
func catchUp(w io.Writer, l *coalesce.Listener) error {
	piece := pieces.Get().(*[64 << 10]byte)
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
// without its end. What has been written goes out first; net/http knows the panic and logs nothing.
func (h *Handler) breakOff(w http.ResponseWriter, r *http.Request, err error) {
	brokenOff(w, r, err)
	if r.Context().Err() == nil {
		if c := h.logger.Check(zap.WarnLevel, "broke off a stream"); c != nil {
			c.Write(h.uriField(r), zap.Error(err))
		}
		if !errors.Is(err, store.ErrLetGo) { // whose client reads nothing
			_ = flush(w) // the connection is given up either way
		}
	}
	if lacksFraming(r) {
		reset(r)
	}
	panic(http.ErrAbortHandler)
}
