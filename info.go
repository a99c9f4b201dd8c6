package audioproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// serveInfo answers with the facts about a source, as it is on the disk now.
func (h *Handler) serveInfo(w http.ResponseWriter, r *http.Request, v *variant) error {
	in, err := v.take(r.Context())
	if err != nil {
		return err
	}
	defer in.Close()
	etag := infoTag(v.source, in.Validator)
	may := caching{lifetime: time.Minute, public: true}
	if in.Validator != "" {
		may.lifetime = lifetimeRevalidated
		switch evaluate(r.Header, representation{tag: strong(etag), stored: true}) {
		case notModified:
			return answerNotModified(w, strong(etag), h.cacheField(r, may))
		case conditionsFail:
			return errPrecondition()
		}
	}
	var body []byte
	if r.Method != http.MethodHead { // which probes nothing
		facts, err := h.app.facts(r.Context(), v, in)
		if err != nil {
			return err
		}
		if body, err = json.Marshal(facts.Info(in.Size)); err != nil {
			return fmt.Errorf("writing the facts about a source: %w", err)
		}
		body = append(body, '\n')
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if in.Validator != "" {
		w.Header().Set("ETag", strong(etag))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", h.cacheField(r, may))
	_, _ = w.Write(body) // a client that is gone by now needs no answer
	return nil
}

// infoTag names the answer about a source as it is.
func infoTag(src urlapi.Source, validator string) string {
	sum := sha256.Sum256([]byte("info\n" + src.String() + "\n" + validator))
	return hex.EncodeToString(sum[:])
}

// facts are those of an opened source: from memory, or by a probe that all share who ask at the moment. A probe waits
// for its slot as a render does, in classes and with a bounded queue, but in a budget of its own: renders may take
// minutes. in stays the caller's.
func (a *App) facts(ctx context.Context, v *variant, in *source.Input) (ffmpeg.Facts, error) {
	key := a.sourceKey(v, in)
	if in.Validator != "" {
		if facts, known := a.engine.memory.facts.Get(key); known {
			return facts, nil
		}
		if err := a.engine.memory.refusal(forInfo, key); err != nil {
			return ffmpeg.Facts{}, err
		}
	}
	release, err := a.hold()
	if err != nil {
		return ffmpeg.Facts{}, err
	}
	in.Hold() // the probe may outlive this request
	id := store.ID{Scope: v.id.Scope, Key: infoTag(v.source, in.Revision())}
	listener, _ := a.engine.looks.JoinOrStart(id, v.class, &look{prober: a.prober(v, in), release: release}, coalesce.Terms{
		Timeout: time.Duration(a.RenderTimeout), Ended: a.lookEnded,
	})
	defer listener.Close()
	if err := listener.Complete(ctx); err != nil {
		return ffmpeg.Facts{}, err
	}
	return listener.Job().(*look).facts, nil
}

// look is the probe behind info, as a flight that has nothing to render.
type look struct {
	prober  prober
	release func()
	facts   ffmpeg.Facts
}

// Prepare finds the facts.
func (l *look) Prepare(ctx context.Context) error {
	facts, err := l.prober.Facts(ctx)
	if err != nil {
		l.prober.refuse(ctx, forInfo, err)
		return err
	}
	l.facts = facts
	return coalesce.ErrPrepared
}

// Render is never called.
func (l *look) Render(context.Context, *coalesce.Spool) error {
	return errors.New("the facts about a source are not rendered")
}

// Close gives up the source.
func (l *look) Close() {
	l.prober.input.Close()
	l.release()
}

// lookEnded is told of every probe for info, from the probe's own goroutine.
func (a *App) lookEnded(s coalesce.Summary) {
	if s.Err == nil {
		return
	}
	l := s.Job.(*look)
	if endingOf(s.Err).name == "refused" {
		measured.probed(s.Err) // those that ran have been counted
	}
	if c := a.logger.Check(endingOf(s.Err).level, "a probe failed"); c != nil {
		c.Write(append([]zap.Field{zap.String("source", loggable(l.prober.source))}, reasons(s.Err)...)...)
	}
}

var _ coalesce.Job = (*look)(nil)
