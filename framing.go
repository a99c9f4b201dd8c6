package audioproxy

import (
	"context"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// lacksFraming reports whether a stream's end is the connection's: HTTP/1.0 has neither chunks nor streams. A stream
// that is broken off then looks like a complete one, unless the connection is reset. nginx speaks HTTP/1.0 to its
// upstreams unless it is told otherwise, and would keep half a song.
func lacksFraming(r *http.Request) bool { return !r.ProtoAtLeast(1, 1) }

// connKey is the context key of the connection that a request came by.
type connKey struct{}

// noteConnections makes connections known to the handler. Hijacking finds them only where no handler in front has
// wrapped the response: Caddy's own access log hides the socket.
func noteConnections(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return // not in a server: adapted, or a test
	}
	server.RegisterConnContext(func(ctx context.Context, conn net.Conn) context.Context {
		if ctx.Value(connKey{}) != nil {
			return ctx // another site of the same server
		}
		return context.WithValue(ctx, connKey{}, conn)
	})
}

// socket is a TCP connection without what is on top of it, or anything else that can be reset.
type socket interface {
	net.Conn
	SetLinger(seconds int) error
}

// socketOf finds the socket below a request, or nil where there is none that can be reset: a Unix socket, or a
// connection that a listener wrapper hides. Addresses don't tell: the PROXY protocol sets them.
func socketOf(r *http.Request) socket {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	for conn != nil {
		switch c := conn.(type) {
		case socket:
			return c
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		case interface{ Raw() net.Conn }: // the PROXY protocol
			conn = c.Raw()
		default:
			return nil
		}
	}
	return nil
}

// reset closes the connection in the one way that does not look like the end of an answer without a length.
func reset(r *http.Request) {
	conn := socketOf(r)
	if conn == nil {
		return // which has been answered with a file of known length
	}
	_ = conn.SetLinger(0) // an ordinary end otherwise, which is all there is then
	_ = conn.Close()      // not through TLS, which would say good-bye
}
