package urlapi_test

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// drawOptions draws option segments that are mostly acceptable, in any order.
func drawOptions(t *rapid.T) []string {
	number := rapid.Custom(func(t *rapid.T) string {
		sign := rapid.SampledFrom([]string{"", "", "", "-"}).Draw(t, "sign")
		return sign + rapid.StringMatching(`0{0,2}[0-9]{1,2}(\.[0-9]{1,3})?`).Draw(t, "number")
	})
	joined := func(prefix string, atMost int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return prefix + strings.Join(rapid.SliceOfN(number, 1, atMost).Draw(t, "numbers"), ":")
		})
	}
	format := rapid.SampledFrom(urlapi.Formats())
	values := map[string]*rapid.Generator[string]{
		"f":       rapid.Map(format, func(f urlapi.Format) string { return string(f) }),
		"br":      rapid.Map(rapid.IntRange(30, 200), func(n int) string { return fmt.Sprintf("%04d", n) }),
		"q":       number,
		"sr":      rapid.SampledFrom([]string{"8000", "24000", "48000", "96000"}),
		"ch":      rapid.SampledFrom([]string{"1", "2"}),
		"bd":      rapid.SampledFrom([]string{"16", "24", "32f"}),
		"t":       joined("", 2),
		"fade":    joined("", 2),
		"gain":    number,
		"norm":    rapid.OneOf(rapid.Just("ebu"), joined("ebu:-", 1)),
		"enhance": rapid.Just("voice"),
		"pts":     rapid.StringMatching(`[1-9][0-9]{0,4}`),
		"pk_fmt":  rapid.SampledFrom([]string{"json", "dat"}),
		"dl":      rapid.Map(rapid.String(), func(s string) string { return url.PathEscape(s + "x") }),
		"cb":      rapid.StringMatching(`[a-z0-9:%+=~]{1,8}`),
		"exp":     rapid.StringMatching(`[1-9][0-9]{0,9}`),
	}
	keys := slices.Sorted(func(yield func(string) bool) {
		for key := range values {
			if !yield(key) {
				return
			}
		}
	})
	var segments []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 6, rapid.ID).Draw(t, "keys") {
		segments = append(segments, key+":"+values[key].Draw(t, key))
	}
	return segments
}

func TestCanonicalOptionsProperties(t *testing.T) {
	drawn, accepted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		segments := drawOptions(t)
		o, err := urlapi.ParseOptions(strings.Join(segments, "/"))
		if err != nil {
			return
		}
		accepted++
		checkCanonicalOptions(t, o)

		shuffled := rapid.Permutation(segments).Draw(t, "shuffled")
		same, err := urlapi.ParseOptions(strings.Join(shuffled, "/"))
		if err != nil || same.Canonical() != o.Canonical() {
			t.Fatalf("another order: %q and %v, want %q", same.Canonical(), err, o.Canonical())
		}
	})
	if accepted < drawn/5 {
		t.Errorf("only %d of %d drawn options were acceptable: the property is hardly tested", accepted, drawn)
	}
}

// checkCanonicalOptions holds for all options that were ever accepted.
func checkCanonicalOptions(t rapid.TB, o urlapi.Options) {
	t.Helper()
	canonical := o.Canonical()
	again, err := urlapi.ParseOptions(canonical)
	if err != nil {
		t.Fatalf("canonical %q is refused: %v", canonical, err)
	}
	if twice := again.Canonical(); twice != canonical {
		t.Fatalf("canonical twice: %q, then %q", canonical, twice)
	}
	o.Expires = 0
	if diff := cmp.Diff(o, again, cmpopts.IgnoreUnexported(o)); diff != "" {
		t.Fatalf("%q reads back differently:\n%s", canonical, diff)
	}
	segments := strings.Split(canonical, "/")
	keys := make([]string, len(segments))
	for i, segment := range segments {
		keys[i], _, _ = strings.Cut(segment, ":")
	}
	if !slices.IsSorted(keys) || slices.Contains(keys, "exp") || !slices.Contains(keys, "f") {
		t.Fatalf("keys of %q", canonical)
	}
	if strings.ContainsAny(canonical, "\n\r\x00") {
		t.Fatalf("control byte in %q", canonical)
	}
}

func TestSourceProperties(t *testing.T) {
	component := rapid.OneOf(rapid.SampledFrom([]string{"", ".", "..", "a", "%41", "a b+c"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]string{"local", "LOCAL", "s3", "gs", "https", "https://H.example:443"}).Draw(t, "scheme")
		path := strings.Join(rapid.SliceOfN(component, 1, 8).Draw(t, "components"), "/")
		if !strings.Contains(scheme, "://") {
			scheme += "://" + rapid.SampledFrom([]string{"", "h", "h.", "[::1]", "127.0.0.1"}).Draw(t, "host")
		}
		decoded := scheme + path
		s, err := urlapi.ParseCanonical(decoded)
		if err != nil {
			return
		}
		checkCanonicalSource(t, s)
		for _, spelling := range []string{"plain/" + url.PathEscape(decoded), "enc/" + base64.RawURLEncoding.EncodeToString([]byte(decoded))} {
			if same, err := urlapi.ParseSource(spelling); err != nil || same != s {
				t.Fatalf("%q: %q and %v, want %q", spelling, same, err, s)
			}
		}
	})
}

// checkCanonicalSource holds for all sources that were ever accepted.
func checkCanonicalSource(t rapid.TB, s urlapi.Source) {
	t.Helper()
	again, err := urlapi.ParseCanonical(s.String())
	if err != nil || again != s {
		t.Fatalf("canonical %q reads back as %q and %v", s, again, err)
	}
	if strings.ContainsAny(s.String(), "\n\r\x00\x7f") {
		t.Fatalf("control byte in %q", s)
	}
	switch {
	case !strings.HasPrefix(s.String(), s.Scheme+"://"):
		t.Fatalf("%q is not of scheme %q", s, s.Scheme)
	case s.Scheme == urlapi.SchemeLocal && (!fs.ValidPath(s.Path) || s.Path == "."):
		t.Fatalf("local path %q", s.Path)
	case s.Scheme != urlapi.SchemeLocal && s.Authority() == "":
		t.Fatalf("%q has no authority", s)
	}
	if s.Scheme == urlapi.SchemeHTTPS {
		u, err := url.Parse(s.String())
		if err == nil && (u.Hostname() != s.Authority() || u.User != nil || u.Fragment != "") {
			t.Fatalf("net/url sees another host in %q: %q", s, u.Hostname())
		}
	}
}
