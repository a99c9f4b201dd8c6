package audioproxy

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// cutoff breaks an answer off from another goroutine, even where the client reads nothing and a write blocks.
type cutoff struct {
	controller *http.ResponseController
	done       atomic.Bool
}

func newCutoff(w http.ResponseWriter, r *http.Request) *cutoff {
	// Caddy's own writer notes a handler's deadline without a lock, and sets its own before each piece. What is below
	// it may be told from any goroutine, for as long as the handler has not returned.
	if _, idle := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil {
		return &cutoff{controller: idle.Ctrl}
	}
	return &cutoff{controller: http.NewResponseController(w)}
}

// now ends the write that blocks. One that begins later does not fail by itself: whoever calls this calls it again,
// or has the reading fail.
func (c *cutoff) now() {
	c.done.Store(true)
	_ = c.controller.SetWriteDeadline(time.Unix(1, 0)) // where there are none, the client's own time limit ends it
}

// cause is why an answer ended early: what the copying says, unless that was our doing. It is nil where the answer
// is whole, as far as anybody knows here.
func (c *cutoff) cause(err error) error {
	if c.done.Load() {
		return store.ErrLetGo
	}
	return err
}
