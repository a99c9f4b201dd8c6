package audioproxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(bareWriter{})
	httpcaddyfile.RegisterHandlerDirective("test_bare_writer", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return bareWriter{}, nil
	})
}

// bareWriter is a handler that wraps the response as careless middleware does: what is behind it can be written to,
// and neither flushed, nor hijacked, nor unwrapped.
type bareWriter struct{}

func (bareWriter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_bare_writer", New: func() caddy.Module { return new(bareWriter) }}
}

func (bareWriter) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
}

// behindBareWriter is a site whose every answer passes through a bareWriter.
func behindBareWriter(global, directive string) string {
	return around(global, "route {\n\ttest_bare_writer\n\taudio_proxy {\n\t{audio}\n"+directive+"\n\t}\n}")
}

// R9: every cold stream broke off after 2 kB.
func TestAWriterThatCannotFlushStreams(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, behindBareWriter("ffmpeg "+ffmpeg.path, ""))
	for _, options := range []string{"f:wav/bd:16", "f:mp3", "f:peaks"} {
		url := s.url(options, "speech.wav")

		stream := s.get(url)

		stored := s.get(url)
		if stream.status != http.StatusOK || stream.cache() != "MISS" || stream.err != nil || len(stream.body) != len(stored.body) || len(stream.body) < 2048 {
			t.Errorf("%s: %d %s, %d bytes of %d, %v", options, stream.status, stream.cache(), len(stream.body), len(stored.body), stream.err)
		}
		if stored.cache() != "HIT" || stored.err != nil {
			t.Errorf("%s: then %s, %v", options, stored.cache(), stored.err)
		}
		if part := s.get(url, "Range", "bytes=1000-1999"); part.status != http.StatusPartialContent || !bytes.Equal(part.body, stored.body[1000:2000]) {
			t.Errorf("%s: a range: %d, %d bytes", options, part.status, len(part.body))
		}
	}
}

// What is broken off must look so even where nothing can be flushed.
func TestAWriterThatCannotFlushShowsThatAStreamWasBrokenOff(t *testing.T) {
	ffmpeg := script(t, toOutput+`printf '%0100000d' 1; sleep 0.3; exit 1`)
	s := newSite(t, behindBareWriter("ffmpeg "+ffmpeg.path, ""))
	resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3", "speech.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil || strings.Trim(string(body), "01") != "" {
		t.Errorf("%d, %d bytes as if they were all", resp.StatusCode, len(body))
	}
}
