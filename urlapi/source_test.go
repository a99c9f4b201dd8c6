package urlapi_test

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestSourcesThatAreOne(t *testing.T) {
	for in, want := range map[string]string{
		"local://a/../b.wav":    "local://b.wav",
		"local://a/./..//b":     "local://b",
		"local://a.wav/":        "local://a.wav",
		"local://..a/b..":       "local://..a/b..",
		"local://a?b#c":         "local://a?b#c",
		"local://colon:x.mp3":   "local://colon:x.mp3",
		"local://-y.mp3":        "local://-y.mp3",
		"local://https://x":     "local://https:/x",
		"local://caf\u00e9":     "local://caf\u00e9",
		"local://cafe\u0301":    "local://cafe\u0301",
		`local://a\b`:           `local://a\b`,
		"local://" + deep(64):   "local://" + deep(64),
		"local://" + long(1024): "local://" + long(1024),

		"S3://Bucket/A//./../b":               "s3://Bucket/A//./../b",
		"s3://b//x":                           "s3://b//x",
		"gs://b/k":                            "gs://b/k",
		"azblob://$root/k":                    "azblob://$root/k",
		"s3://" + long(63) + "/" + long(1024): "s3://" + long(63) + "/" + long(1024),

		"HTTPS://H.Example":                "https://h.example/",
		"https://h.example?":               "https://h.example/",
		"https://h.example?a=b":            "https://h.example/?a=b",
		"https://h.example#f":              "https://h.example/",
		"https://h.example/?#":             "https://h.example/",
		"https://h.example/a?b?c#d#e":      "https://h.example/a?b?c",
		"https://h.example/A%2fb/%7E/../x": "https://h.example/A%2fb/%7E/../x",
		"https://h.example./a":             "https://h.example/a",
		"https://h.example.:443/a":         "https://h.example/a",
		"https://h.example:8443/a":         "https://h.example:8443/a",
		"https://h.example/a@b:c":          "https://h.example/a@b:c",
		"https://127.0.0.1/a":              "https://127.0.0.1/a",
		"https://127.0.0.1./a":             "https://127.0.0.1/a",
		"https://[2001:DB8::0001]:443/a":   "https://[2001:db8::1]/a",
		"https://[2001:db8:0:0::1]:8443":   "https://[2001:db8::1]:8443/",
		"https://[::ffff:127.0.0.1]/":      "https://[::ffff:127.0.0.1]/",
		"https://my_bucket.h-1.example/":   "https://my_bucket.h-1.example/",
		"https://localhost/":               "https://localhost/",
		"https://1e100.net/":               "https://1e100.net/",
	} {
		got, err := urlapi.ParseCanonical(in)
		if err != nil || got.String() != want {
			t.Errorf("%.100q: got %.100q and %v, want %.100q", in, got, err, want)
			continue
		}
		for _, spelling := range []string{
			"plain/" + url.PathEscape(in),
			"enc/" + base64.RawURLEncoding.EncodeToString([]byte(in)),
			"enc/" + base64.URLEncoding.EncodeToString([]byte(in)),
		} {
			if same, err := urlapi.ParseSource(spelling); err != nil || same != got {
				t.Errorf("%.100q: %q and %v, want %q", spelling, same, err, got)
			}
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

// deep is a path of n components.
func deep(n int) string { return strings.Repeat("a/", n-1) + "x" }

func TestSourcesRefused(t *testing.T) {
	for _, in := range []string{
		"", "tones.wav", "local:tones.wav", "://a", "file:///etc/passwd", "concat:a|b", "local", "lоcal://a", "loca\u212a://a",
		"local://", "local://.", "local://a/..", "local://..", "local:///a", "local:////a", "local://./../a", "local://a/b/../../..",
		"local://" + deep(65), "local://" + strings.Repeat("/", 70) + "a", "local://" + "a" + strings.Repeat("/", 64), "local://" + strings.Repeat("./", 64) + "a",
		"local://" + long(1025), "local://" + strings.Repeat("./", 20) + long(1000),
		"local://a\nb", "local://a\x7fb", "local://a\u0085b", "local://a\u2028b", "local://a\u2029b",
		"local://a\xffb", "s3://b/\xff", "https://h.example/\xff", "s3://b/a\u202eb", "https://h.example/a\u2067b",

		"s3://", "s3://b", "s3://b/", "s3:///k", "s3://" + long(64) + "/k", "s3://b/" + long(1025), "gs://b", "azblob://b/",
		"s3://../k", "s3://./k", "s3://a b/k", "s3://a@b/k", "s3://a%2fb/k", "s3://a?b/k", "s3://bücket/k",

		"http://h.example/a", "https://", "https:///a", "https://?a", "https://#a", "https://./a", "https://h..example/a", "https://.h.example/a",
		"https://h.example../a", "https://u@h.example/a", "https://@h.example/a", "https://h.example@127.0.0.1/a", `https://h.example\@x/a`,
		"https://h%2eexample/a", "https://h.example%00/a", "https://h example/a", "https://h.exam\u212ale/a", "https://m\u00fcller.example/", "https://\u2460.example/",
		"https://h.example:/a", "https://h.example:0/a", "https://h.example:0443/a", "https://h.example:65536/a", "https://h.example:x/a", "https://h.example:+443/a",
		"https://h.example:443:443/a", "https://127.1/a", "https://0x7f.0.0.1/a", "https://0X7F000001/a", "https://2130706433/a", "https://0177.0.0.1/a",
		"https://127.0.0.1.1/a", "https://256.0.0.1/a", "https://h.0x/a", "https://1.2.3.09/a",
		"https://[::1/a", "https://[::1]x/a", "https://[::1%25eth0]/a", "https://[fe80::1%eth0]/a", "https://[127.0.0.1]/a", "https://::1/a", "https://[]/a", "https://[::1]:0/a", "https://[[::1]]/a",
		"https://" + strings.Repeat("a.", 126) + "aa/x", "https://" + long(64) + ".example/",
		"https://h.example/" + long(2048-18+1),
	} {
		got, err := urlapi.ParseCanonical(in)
		var refused *urlapi.SourceError
		if !errors.As(err, &refused) || got != (urlapi.Source{}) {
			t.Errorf("%.100q: got %q and %v, want a SourceError", in, got, err)
		}
	}
	if _, err := urlapi.ParseCanonical("https://h.example/" + long(2048-18)); err != nil {
		t.Errorf("a URL of 2048 bytes: %v", err)
	}
	if _, err := urlapi.ParseCanonical("https://" + strings.Repeat("a.", 126) + "a/x"); err != nil {
		t.Errorf("a host of 253 bytes: %v", err)
	}
}

func TestSourceFormsRefused(t *testing.T) {
	const local = "bG9jYWw6Ly9hYg" // local://ab, with two spare zero bits in its last character
	if s, err := urlapi.ParseSource("enc/" + local); err != nil || s.String() != "local://ab" {
		t.Fatalf("got %q and %v", s, err)
	}
	for _, in := range []string{
		"", "plain", "enc", "enc/", "plain/", "Plain/local://a", "base64/" + local,
		"enc/" + local + "=", "enc/" + local + "===", "enc/=" + local, "enc/" + local + "==" + local, "enc/" + local + "\n", "enc/" + local[:4] + "\r\n" + local[4:],
		"enc/" + local + "%3D%3D", "enc/" + local + "/", "enc/" + local[:13] + "h", "enc/" + local + ".wav",
		"enc/" + base64.StdEncoding.EncodeToString([]byte("local://\u00ff\u00fe?>")),
		"enc/" + base64.RawURLEncoding.EncodeToString([]byte("local://\xff")),
		"enc/" + base64.RawURLEncoding.EncodeToString([]byte("local://a%20b\n")),
		"plain/local://%", "plain/local://%4", "plain/local://%g0", "plain/local://%ff", "plain/local:%2F%2F%2Fetc", "plain/local://%2e%2e/a", "plain/local://a%0a",
	} {
		got, err := urlapi.ParseSource(in)
		var refused *urlapi.SourceError
		if !errors.As(err, &refused) {
			t.Errorf("%q: got %q and %v, want a SourceError", in, got, err)
		}
	}
}

// Field case F3: of the format characters only those that turn the direction of text are refused. Joiners are part of
// Persian, Indic and emoji names.
func TestFormatCharactersOfNamesPass(t *testing.T) {
	for _, name := range []string{"\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.wav", "\u0915\u094d\u200d\u0937.wav", "\U0001f468\u200d\U0001f3a4.wav", "a\u00adb", "a\u200bb", "a\ufeffb", "a\u2060b", "a\U000e0041b", "a\u0600b"} {
		for _, source := range []string{"local://" + name, "s3://b/" + name, "https://h.example/" + name} {
			if s, err := urlapi.ParseCanonical(source); err != nil || s.String() != source {
				t.Errorf("%q: got %q and %v", source, s, err)
			}
		}
	}
	for _, r := range "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\x00\t\n\x1f\x7f\u0080\u009f" {
		for _, source := range []string{"local://a", "s3://b/a", "https://h.example/a"} {
			if s, err := urlapi.ParseCanonical(source + string(r) + "b"); err == nil {
				t.Errorf("%q: accepted", s)
			}
		}
	}
}

// Field case G01: decoded exactly once.
func TestDecodedOnce(t *testing.T) {
	for in, want := range map[string]string{
		"plain/local://100%25.mp3": "100%.mp3", "plain/local://a%2520b.mp3": "a%20b.mp3", "plain/local://a%20b.mp3": "a b.mp3",
		"plain/local://a+b.mp3": "a+b.mp3", "plain/local://a%2Bb.mp3": "a+b.mp3", "plain/local://hash%23tag.mp3": "hash#tag.mp3",
		"plain/local://query%3Fx=1.mp3": "query?x=1.mp3", "plain/local%3A%2F%2Fa%2fb": "a/b",
		"enc/" + base64.RawURLEncoding.EncodeToString([]byte("local://a%20b.mp3")): "a%20b.mp3",
	} {
		if s, err := urlapi.ParseSource(in); err != nil || s.Path != want {
			t.Errorf("%q: path %q and %v, want %q", in, s.Path, err, want)
		}
	}
}

func TestPartsOfASource(t *testing.T) {
	for in, want := range map[string]struct{ scheme, path, authority, bucket, key string }{
		"local://./a b/c.wav":          {"local", "a b/c.wav", "", "", ""},
		"S3://b-1/k/l":                 {"s3", "b-1/k/l", "b-1", "b-1", "k/l"},
		"azblob://b//k":                {"azblob", "b//k", "b", "b", "/k"},
		"https://H.example:8443/a?b#c": {"https", "https://h.example:8443/a?b", "h.example", "", ""},
		"https://[0:0::1]:8443/a":      {"https", "https://[::1]:8443/a", "::1", "", ""},
	} {
		s, err := urlapi.ParseCanonical(in)
		bucket, key := s.BucketKey()
		if err != nil || s.Scheme != want.scheme || s.Path != want.path || s.Authority() != want.authority || bucket != want.bucket || key != want.key {
			t.Errorf("%q: got %+v (bucket %q, key %q) and %v", in, s, bucket, key, err)
		}
	}
}

// The log says what to look for, where something was tried on.
func TestUserInformationIsNamed(t *testing.T) {
	_, err := urlapi.ParseCanonical("https://h.example@127.0.0.1/a")
	var refused *urlapi.SourceError
	if !errors.As(err, &refused) || refused.Reason != "user information in the URL" {
		t.Errorf("got %v", err)
	}
}
