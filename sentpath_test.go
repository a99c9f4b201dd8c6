package audioproxy

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"pgregory.net/rapid"
)

// rewritten is a request for a path after Caddy's own rewrites have taken a prefix and a suffix off it.
func rewritten(t rapid.TB, sent, prefix, suffix string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(sent)
	if err != nil {
		t.Fatalf("%q: %v", sent, err)
	}
	r := &http.Request{Method: http.MethodGet, URL: u, RequestURI: sent}
	original := *r
	r = r.WithContext(context.WithValue(context.Background(), caddyhttp.OriginalRequestCtxKey, original))
	clone := *u
	r.URL = &clone
	repl := caddy.NewReplacer()
	if prefix != "" {
		rewrite.Rewrite{StripPathPrefix: prefix}.Rewrite(r, repl)
	}
	if suffix != "" {
		rewrite.Rewrite{StripPathSuffix: suffix}.Rewrite(r, repl)
	}
	return r
}

// N15, G07: whatever rewrites make of a path, signatures are over the bytes that were sent, minus prefix and suffix.
func TestThePathIsWhatWasSent(t *testing.T) {
	const core = "/sig/f:mp3/plain/local://"
	for _, test := range []struct{ prefix, before, core, after, suffix string }{
		{"", "", core + "a.wav", "", ""},
		{"", "", core + "a.wav", ".mp3", ".mp3"},
		{"", "", core + "a.wav", "%2Emp3", ".mp3"},
		{"", "", core + "a.wav", ".m%703", ".mp3"},
		{"", "", core + "a.wav", ".MP3", ".mp3"},
		{"", "", core + "a%2Ewav", ".mp3", ".mp3"},
		{"", "", core + "a.wav", "/play.mp3", "/play.mp3"},
		{"", "", core + "album//", ".mp3", ".mp3"},
		{"/audio", "/audio", core + "a.wav", "", ""},
		{"/audio", "/%61udio", core + "a.wav", "", ""},
		{"/audio", "/AUDIO", core + "a.wav", "", ""},
		{"/audio/", "/audio", core + "a.wav", "", ""},
		{"/a/b", "/a//b", core + "a.wav", "", ""},
		{"/a/b", "//a/./b", core + "a.wav", "", ""},
		{"/a/b", "/x/../a/b", core + "a.wav", "", ""},
		{"/a//b", "/a//b", core + "a.wav", "", ""},
		{"/audio", "/audio", core + "a.wav", ".mp3", ".mp3"},
		{"/audio", "/%61udio", core + "x//./y/../a%20b[1]\"\u00e9.wav", "%2emp3", ".mp3"},
		{"/audio", "/audio", core + "%2e%2e/%41.wav", ".mp3", ".mp3"},
		{"/audio", "/audio", core + "x/%2e%2e/%41%2fb.wav", "", ""},
		{"/audio", "/audio", core + "x/../y/./../a.wav", "", ""},
		{"/a%2Fb", "/a%2Fb", core + "a%2Fb.wav", "", ""},
		{"/audio", "/audio", core + "audio" + core + "a.wav.mp3", ".mp3", ".mp3"},
		{"/a", "/a", "/a/a/a.wav/a", "", ""},
		{"/a", "/a", core + "a/a", "/a", "/a"},
		{"/caf%C3%A9", "/caf%C3%A9", core + "caf\u00e9.wav", "", ""},
		{"/caf%C3%A9", "/caf\u00e9", core + "caf%C3%A9.wav", "", ""},
	} {
		sent := test.before + test.core + test.after
		r := rewritten(t, sent, test.prefix, test.suffix)
		if got := escapedPath(r); got != test.core {
			t.Errorf("%q without %q and %q: got %q, want %q (the rewrite left %q)", sent, test.prefix, test.suffix, got, test.core, r.URL.EscapedPath())
		}
	}
}

// A path that was rewritten to another is the other.
func TestAPathThatWasReplaced(t *testing.T) {
	for sent, now := range map[string]string{"/a/b.wav": "/c.wav", "/x": "/a%20b", "/": "/index"} {
		r := rewritten(t, sent, "", "")
		rewrite.Rewrite{URI: now}.Rewrite(r, caddy.NewReplacer())
		if got := escapedPath(r); got != now {
			t.Errorf("%q, rewritten to %q: got %q", sent, now, got)
		}
	}
}

func TestThePathIsWhatWasSentProperty(t *testing.T) {
	character := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "Z", "0", ".", "-", "_", "+", ":", "(", "[", "]", "\"", "\u00e9", "\u65e5", "~", "'", "|"}),
		rapid.SampledFrom([]string{"%20", "%2F", "%2f", "%41", "%2E", "%25", "%C3%A9", "%c3%a9", "%5B", "%22", "%00"}),
	)
	// Segments that are dots only once they are decoded are the table's: a rewrite folds them, and what it leaves may
	// then be what it leaves of another path.
	segment := rapid.Custom(func(t *rapid.T) string {
		return "s" + strings.Join(rapid.SliceOfN(character, 0, 6).Draw(t, "characters"), "")
	}).Filter(func(s string) bool {
		decoded, err := url.PathUnescape(s)
		return err == nil && !slices.ContainsFunc(strings.Split(decoded, "/"), func(part string) bool { return part == "." || part == ".." })
	})
	separator := rapid.SampledFrom([]string{"/", "/", "/", "//", "///", "/./", "/x/../"})
	rapid.Check(t, func(t *rapid.T) {
		core := "/" + rapid.StringMatching(`[A-Za-z0-9_-]{43}`).Draw(t, "signature") + "/f:mp3/plain/local://"
		for i, s := range rapid.SliceOfN(segment, 1, 5).Draw(t, "segments") {
			if i > 0 {
				core += separator.Draw(t, "separator")
			}
			core += s
		}
		prefix := rapid.SampledFrom([]string{"", "", "/audio", "/a/b", "/a b", "/s", "/caf%C3%A9"}).Draw(t, "prefix")
		suffix := rapid.SampledFrom([]string{"", "", ".mp3", "/play", "-%C3%A9", ".m3u8", "a", "%20x"}).Draw(t, "suffix")
		before, after := spelled(t, prefix), spelled(t, suffix)
		r := rewritten(t, before+core+after, prefix, suffix)
		if got := escapedPath(r); got != core {
			t.Fatalf("%q without %q and %q: got %q, want %q (the rewrite left %q)", before+core+after, prefix, suffix, got, core, r.URL.EscapedPath())
		}
	})
}

// spelled writes a prefix or suffix in a way that a rewrite still takes for it: with escapes that need not be.
func spelled(t *rapid.T, s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			b.WriteString(s[i : i+3])
			i += 2
		case c == ' ' || c != '/' && c < 0x80 && rapid.IntRange(0, 3).Draw(t, "escape") == 0:
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// cleanPath is CleanPath of Caddy's.
func TestCleanPathIsCaddys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/", "/", ".", "..", "a", "b%2F", "%2E", "%2e%2e", "x"}), 0, 12).Draw(t, "path"), "")
		for _, merge := range []bool{true, false} {
			var got strings.Builder
			for _, b := range cleanPath(pairBytes(path, path), merge, false) {
				got.WriteString(path[b.from:b.to])
			}
			if want := caddyhttp.CleanPath(path, merge); got.String() != want {
				t.Fatalf("%q, merging %v: got %q, want %q", path, merge, got.String(), want)
			}
		}
	})
}

func FuzzEscapedPath(f *testing.F) {
	f.Add("/a/sig/plain/local://x.wav.mp3", "/a", ".mp3")
	f.Add("//a/%2e%2e/b", "/a", "b")
	f.Add("/%", "/", "%")
	f.Fuzz(func(t *testing.T, sent, prefix, suffix string) {
		if _, err := url.ParseRequestURI(sent); err != nil || !strings.HasPrefix(sent, "/") || strings.Contains(sent, "?") {
			return
		}
		escapedPath(rewritten(t, sent, prefix, suffix))
	})
}
