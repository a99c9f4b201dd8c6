package audioproxy

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lifetimes are the Cache-Control fields of answers of every kind, to requests with these header fields.
func (s *site) lifetimes(cb string, header ...string) map[string]string {
	s.t.Helper()
	url := s.url("f:mp3/t:0:1/cb:"+cb, "speech.wav")
	info := s.url("info", "speech.wav")
	if err := os.WriteFile(filepath.Join(s.root, "text.wav"), []byte(strings.Repeat("no audio\n", 100)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	get := func(url string, more ...string) answer { return s.get(url, append(more, header...)...) }
	answers := map[string]answer{
		"head cold": s.do(s.t.Context(), http.MethodHead, url, header...),
		"stream":    get(url),
	}
	stored := get(url)
	for name, a := range map[string]answer{
		"stored":             stored,
		"head stored":        s.do(s.t.Context(), http.MethodHead, url, header...),
		"range":              get(url, "Range", "bytes=0-1"),
		"cold range":         get(s.url("f:mp3/t:0:0.5/cb:"+cb, "speech.wav"), "Range", "bytes=0-1"),
		"not modified":       get(url, "If-None-Match", stored.header.Get("ETag")),
		"not modified since": get(url, "If-Modified-Since", stored.header.Get("Last-Modified")),
		"beyond the end":     get(url, "Range", "bytes=999999999-"),
		"other":              get(url, "If-Match", `"other"`),
		"info":               get(info),
		"info not modified":  get(info, "If-None-Match", get(info).header.Get("ETag")),
		"peaks":              get(s.url("f:peaks/cb:"+cb, "speech.wav")),
		"peaks stored":       get(s.url("f:peaks/cb:"+cb, "speech.wav")),
		"not found":          get(s.url("", "missing.wav")),
		"expired":            get(s.url("exp:1", "speech.wav")),
		"options":            get(s.url("x:1", "speech.wav")),
		"unsigned":           get(strings.Replace(url, "insecure", "x", 1)),
		"health":             get("http://localhost:" + strconv.Itoa(s.port) + "/health"),
		"undecodable":        get(s.url("f:mp3", "text.wav")),
	} {
		answers[name] = a
	}
	fields := map[string]string{}
	for name, a := range answers {
		fields[name] = a.header.Get("Cache-Control")
	}
	return fields
}

// N14: nginx served a stranger from its cache what basic_auth had let another listener have.
func TestCacheControlSaysWhoMayKeepAnAnswer(t *testing.T) {
	const year = "max-age=31536000, immutable"
	forAll := map[string]string{
		"head cold": "public, " + year + ", no-transform", "stream": "public, " + year + ", no-transform",
		"stored": "public, " + year + ", no-transform", "head stored": "public, " + year + ", no-transform",
		"range": "public, " + year + ", no-transform", "cold range": "public, " + year + ", no-transform",
		"not modified": "public, " + year + ", no-transform", "not modified since": "public, " + year + ", no-transform",
		"beyond the end": "no-store", "other": "no-store",
		"info": "public, max-age=3600", "info not modified": "public, max-age=3600",
		"peaks": "public, " + year, "peaks stored": "public, " + year,
		"not found": "max-age=10", "expired": "public, " + year, "options": "max-age=60", "unsigned": "max-age=60",
		"health": "no-store", "undecodable": "max-age=10",
	}
	for _, tc := range []struct {
		name, directive string
		header          []string
		want            func(string) string
	}{
		{"anybody", "", nil, func(field string) string { return field }},
		{"anybody, said so", "cache public", nil, func(field string) string { return field }},
		{"a user", "", []string{"Authorization", "Basic dTpw"}, func(field string) string { return strings.TrimPrefix(field, "public, ") }},
		{"a bearer", "errors caddy", []string{"Authorization", "Bearer x"}, func(field string) string { return strings.TrimPrefix(field, "public, ") }},
		{"a private site", "cache private", nil, private},
		{"a user of a private site", "cache private", []string{"Authorization", "Basic dTpw"}, private},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, simple("", tc.directive))
			for name, field := range s.lifetimes("1", tc.header...) {
				if want := tc.want(forAll[name]); field != want {
					t.Errorf("%s: Cache-Control %q, want %q", name, field, want)
				}
			}
		})
	}
}

func private(field string) string {
	if field == "no-store" {
		return field
	}
	return "private, " + strings.TrimPrefix(field, "public, ")
}

// An answer that may not be kept by all is another for each listener only in who may keep it.
func TestPrivateAnswersShareTheStore(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, "freshness revalidate\ncache private"))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	first, second := s.get(url), s.get(url, "Authorization", "Basic dTpw")
	if second.cache() != "HIT" || len(ffmpeg.pids()) != 1 {
		t.Errorf("%s, then %s", first.cache(), second.cache())
	}
	for _, a := range []answer{first, second} {
		if got := a.header.Get("Cache-Control"); got != "private, max-age=3600" {
			t.Errorf("Cache-Control %q", got)
		}
	}
}
