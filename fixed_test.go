package audioproxy

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// oddNames are names of files that broke software like this one (cases G01, G02, G04).
var oddNames = []string{
	"with space.wav", "100%.wav", "a%20b.wav", "a+b.wav", "hash#tag.wav", "what?.wav", "query?x=1.wav", "-leading-dash.wav",
	"-i", "-y.wav", "colon:name.wav", "star*.wav", "$(touch pwned).wav", "seq-%03d.wav", "caf\u00e9.wav", "cafe\u0301.wav",
	"日本語.wav", `back\slash.wav`, `quo"te'.wav`, "[brackets].wav", "semi;colon,comma&.wav", "health", "ready", ".hidden.wav", "plain",
}

// fixed is a site that serves its folder as one variant.
func fixed(global, options, more string) string {
	return around(global, "audio_proxy {\nsource local {root}\nvariant "+options+"\n"+more+"\n}")
}

// path is the URL of a file in such a site, plainly escaped.
func (s *site) path(name string) string {
	return "http://localhost:" + strconv.Itoa(s.port) + (&url.URL{Path: "/" + name}).EscapedPath()
}

func TestAFixedSiteServesOddNamesByTheirPlainlyEscapedPath(t *testing.T) {
	s := newSite(t, fixed("", "f:mp3/t:0:0.2", ""))
	for _, name := range oddNames {
		s.master(name, "testdata/audio/speech.wav")
	}
	tags := map[string]string{}
	for _, name := range oddNames {
		a := s.get(s.path(name))
		if a.status != http.StatusOK || a.cache() != "MISS" || a.err != nil {
			t.Errorf("%q: %d %s %s", name, a.status, a.cache(), a.body)
			continue
		}
		if other, taken := tags[a.header.Get("ETag")]; taken {
			t.Errorf("%q and %q are one variant", name, other)
		}
		tags[a.header.Get("ETag")] = name
	}
	if _, err := os.Stat("pwned"); err == nil {
		t.Error("a name was run as a command")
	}
	if a := s.get(s.path("with space.wav") + "?x=1&f=wav"); a.cache() != "HIT" {
		t.Errorf("with a query: %d %s", a.status, a.cache())
	}
	s.remove("a%20b.wav")
	if a := s.get(s.path("a%20b.wav")); a.status != http.StatusNotFound {
		t.Errorf("a%%20b.wav is gone, and another file came for it: %d", a.status)
	}
}

// G01, G02 and G04 for signed URLs: each spelling leads to the one file, and to one variant.
func TestOddNamesInBothFormsOfASource(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	for _, name := range oddNames[:17] {
		s.master(name, "testdata/audio/speech.wav")
	}
	for _, name := range oddNames[:17] {
		escaped := strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
		plain := s.do(t.Context(), http.MethodHead, s.url("f:mp3", escaped))
		enc := s.do(t.Context(), http.MethodHead, strings.Replace(s.url("f:mp3", ""), "plain/local://", "enc/"+base64url("local://"+name), 1))
		padded := s.do(t.Context(), http.MethodHead, strings.Replace(s.url("f:mp3", ""), "plain/local://", "enc/"+paddedBase64url("local://"+name), 1))
		if plain.status != http.StatusOK || enc.header.Get("ETag") != plain.header.Get("ETag") || padded.header.Get("ETag") != plain.header.Get("ETag") {
			t.Errorf("%q: %d %d %d, ETags %s %s %s", name, plain.status, enc.status, padded.status, plain.header.Get("ETag"), enc.header.Get("ETag"), padded.header.Get("ETag"))
		}
	}
	for _, name := range []string{"caf%C3%A9%CC%81.wav", "hash", "what"} { // decoded once, never normalized, never cut
		if a := s.get(s.url("", name)); a.status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", name, a.status)
		}
	}
	for _, name := range []string{"a%20b.wav", "%zz.wav", "x%", "x%4"} {
		if a := s.raw("/insecure/plain/local://" + name); a.status != http.StatusNotFound && a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}

func TestAFixedSiteTakesTheVariantsExtension(t *testing.T) {
	s := newSite(t, fixed("", "f:opus/t:0:0.2", ""))
	for name, from := range map[string]string{
		"song.wav": "music.wav", "both.wav": "music.wav", "both.opus": "speech.wav", "bare": "speech.wav", "LOUD.WAV": "speech.wav",
		"dots.in.name.mp3": "speech.mp3",
	} {
		s.master(name, "testdata/audio/"+from)
	}
	if err := os.MkdirAll(filepath.Join(s.root, "album", "folder.opus"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.master("album/x.wav", "testdata/audio/speech.wav")
	tag := func(name string) string {
		a := s.do(t.Context(), http.MethodHead, s.path(name))
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "audio/ogg" {
			t.Errorf("%s: %d %s", name, a.status, a.header.Get("Content-Type"))
		}
		return a.header.Get("ETag")
	}
	for name, others := range map[string][]string{
		"song.wav": {"song.opus", "song.wav.opus"}, "both.wav": {"both.wav.opus"}, "bare": {"bare.opus"}, "LOUD.WAV": {"LOUD.opus"},
		"dots.in.name.mp3": {"dots.in.name.opus", "dots.in.name.mp3.opus"}, "album/x.wav": {"album/x.opus"},
	} {
		for _, other := range others {
			if tag(other) != tag(name) {
				t.Errorf("%s is not the variant of %s", other, name)
			}
		}
	}
	if tag("both.opus") == tag("both.wav") {
		t.Error("a file that is there by its name was passed over")
	}
	for _, name := range []string{"", "album", "album/", "album/folder.opus", "song.mp3", "nothing.opus", ".opus", "song", "../song.wav"} {
		if a := s.raw("/" + name); a.status != http.StatusNotFound {
			t.Errorf("%q: %d, want 404", name, a.status)
		}
	}
	for _, name := range []string{"health", "ready"} {
		if a := s.get(s.path(name)); a.status != http.StatusNotFound {
			t.Errorf("/%s: %d, but there is no such file", name, a.status)
		}
	}
}

func TestAFixedSiteAnswersLikeAnyOther(t *testing.T) {
	s := newSite(t, fixed("", "f:mp3/t:0:1", "cors *"))
	name := s.path("speech.wav")
	first, second := s.get(name), s.get(name)
	if first.cache() != "MISS" || second.cache() != "HIT" || second.header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("%s, then %s %v", first.cache(), second.cache(), second.header)
	}
	if a := s.get(name, "Range", "bytes=0-1"); a.status != http.StatusPartialContent || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("range: %d %v", a.status, a.header)
	}
	if a := s.get(name, "If-None-Match", second.header.Get("ETag")); a.status != http.StatusNotModified {
		t.Errorf("not modified: %d", a.status)
	}
	s.overwrite("speech.wav", "testdata/audio/music.wav")
	if a := s.get(name, "If-None-Match", second.header.Get("ETag")); a.cache() != "MISS" {
		t.Errorf("edited: %d %s", a.status, a.cache())
	}
	s.remove("speech.wav")
	if a := s.get(name); a.status != http.StatusNotFound || a.code() != "not_found" {
		t.Errorf("removed: %d %s", a.status, a.body)
	}
}

func TestAFixedSiteMayKeepWhatItOnceRendered(t *testing.T) {
	s := newSite(t, fixed("", "f:mp3/t:0:1", "freshness immutable"))
	s.get(s.path("speech.wav"))
	s.overwrite("speech.wav", "testdata/audio/music.wav")
	if a := s.get(s.path("speech.wav")); a.cache() != "HIT" {
		t.Errorf("edited: %s", a.cache())
	}
	s.remove("speech.wav")
	s.remove("speech.mp3")
	for _, name := range []string{"speech.wav", "speech.mp3", "speech.wav.mp3"} {
		if a := s.get(s.path(name)); a.cache() != "HIT" {
			t.Errorf("removed, %s: %d %s", name, a.status, a.cache())
		}
	}
	if a := s.get(s.path("nothing.wav")); a.status != http.StatusNotFound {
		t.Errorf("what never was: %d", a.status)
	}
}
