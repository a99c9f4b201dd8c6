package audioproxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Who may keep the answers of a site.
const (
	cachePublic  = "public"
	cachePrivate = "private"
)

// caching is how an answer may be cached, whoever has asked for it.
type caching struct {
	lifetime    time.Duration // never: not at all
	public      bool          // by shared caches too, whatever else would forbid them
	immutable   bool
	noTransform bool
}

// cacheField is the Cache-Control field of an answer to this request. It is the one place that says "public": never to
// a request with credentials, whose answer is not for everybody (RFC 9111, 3.5), nor in a site that keeps its listeners
// apart by cookies or addresses, and says so with the setting cache.
func (h *Handler) cacheField(r *http.Request, c caching) string {
	if c.lifetime == never {
		return noStore
	}
	field := "max-age=" + strconv.FormatInt(int64(c.lifetime/time.Second), 10)
	switch {
	case h.Cache == cachePrivate:
		field = "private, " + field
	case c.public && len(r.Header.Values("Authorization")) == 0:
		field = "public, " + field
	}
	if c.immutable {
		field += ", immutable"
	}
	if c.noTransform {
		field += ", no-transform"
	}
	return field
}

// caching is how the variant may be cached. What is audio must not be compressed on the way, peaks may.
func (v *variant) caching() caching {
	return caching{
		lifetime:    v.lifetime,
		public:      true,
		immutable:   !v.revalidated,
		noTransform: !v.revalidated && v.options.Format != urlapi.Peaks,
	}
}
