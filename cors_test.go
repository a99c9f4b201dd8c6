package audioproxy

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A player must be able to tell "busy" from "broken" (case A08): no answer may be opaque to its page.
func TestEveryAnswerMayBeReadByTheConfiguredOrigin(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, "cors https://app.example\npreset p f:mp3"))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	base := "http://localhost:" + strconv.Itoa(s.port)
	rendering := s.started(url)
	waitFor(t, "the slot is taken", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	answers := map[string]answer{"429": s.get(s.url("f:mp3/t:0:2", "speech.wav"))}
	open()
	answers["200 stream"] = <-rendering
	stored := s.get(url)
	answers["200 stored"] = stored
	answers["206"] = s.get(url, "Range", "bytes=0-1")
	answers["304"] = s.get(url, "If-None-Match", stored.header.Get("ETag"))
	answers["416"] = s.get(url, "Range", "bytes=99999999-")
	answers["200 info"] = s.get(s.url("info", "speech.wav"))
	answers["200 head"] = s.do(t.Context(), http.MethodHead, url)
	answers["404"] = s.get(s.url("", "missing.wav"))
	answers["404 head"] = s.do(t.Context(), http.MethodHead, s.url("", "missing.wav"))
	answers["404 route"] = s.get(base + "/x")
	answers["404 method"] = s.do(t.Context(), http.MethodPost, url)
	answers["401"] = s.get(base + "/x/plain/local://speech.wav")
	answers["410"] = s.get(s.url("exp:1", "speech.wav"))
	answers["422"] = s.get(s.url("x:1", "speech.wav"))
	answers["200 health"] = s.get(base + "/health")
	answers["200 ready"] = s.get(base + "/ready")
	answers["204 preflight"] = s.do(t.Context(), http.MethodOptions, base+"/unsigned/f:mp3/plain/local://missing.wav",
		"Origin", "https://app.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "range, if-none-match")
	for name, a := range answers {
		if !strings.HasPrefix(name, strconv.Itoa(a.status)) {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "https://app.example" || a.header.Get("Vary") != "Origin" ||
			a.header.Get("Access-Control-Expose-Headers") != "x-audio-proxy, retry-after, accept-ranges, etag, content-range, cache-status, server-timing" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
	preflight := answers["204 preflight"].header
	if preflight.Get("Access-Control-Allow-Methods") != "GET, HEAD" || preflight.Get("Access-Control-Allow-Headers") != "range, if-none-match" ||
		preflight.Get("Access-Control-Max-Age") != "86400" {
		t.Errorf("preflight: %v", preflight)
	}
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
}

func TestAnyOriginNeedsNoVary(t *testing.T) {
	s := newSite(t, simple("", "cors *"))
	a := s.get(s.url("", "missing.wav"))
	if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Vary") != "" {
		t.Errorf("%v", a.header)
	}
}

func TestWithoutCorsNothingIsSaidOfOrigins(t *testing.T) {
	s := newSite(t, simple("", ""))
	a := s.get(s.url("f:mp3/t:0:1", "speech.wav"), "Origin", "https://app.example")
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s", name, a.header.Get(name))
		}
	}
}

func TestCorsTakesOnlyOrigins(t *testing.T) {
	s := newSite(t, simple("", ""))
	for _, origin := range []string{"app.example", "https://app.example/", "https://app.example/x", "https://App.example", "null", "https://a b"} {
		if err := s.tryLoad(simple("", "cors \""+origin+"\"")); err == nil || !strings.Contains(err.Error(), "cors") {
			t.Errorf("cors %s: %v", origin, err)
		}
	}
	for _, origin := range []string{"https://app.example", "http://localhost:3000", "*", "capacitor://localhost"} {
		if err := s.tryLoad(simple("", "cors "+origin)); err != nil {
			t.Errorf("cors %s: %v", origin, err)
		}
	}
}
