package audioproxy

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var serverTiming = regexp.MustCompile(`^queue;dur=\d+\.\d, probe;dur=\d+\.\d, first-byte;dur=(\d+\.\d)$`)

func TestHowAVariantWasComeByIsTold(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	miss := s.started(url)
	waitFor(t, "it renders", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	coalesced := s.started(url)
	waitFor(t, "another has joined", func() bool { return theEngine(t).flights.Flights()[0].Listeners == 2 })
	open()
	for want, a := range map[string]answer{
		"MISS audio_proxy; fwd=miss":                 <-miss,
		"COALESCED audio_proxy; fwd=miss; collapsed": <-coalesced,
		"HIT audio_proxy; hit":                       s.get(url),
	} {
		if got := a.cache() + " " + a.header.Get("Cache-Status"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		timing := serverTiming.FindStringSubmatch(a.header.Get("Server-Timing"))
		if timing == nil || (timing[1] == "0.0") != (a.cache() == "HIT") {
			t.Errorf("%s: Server-Timing %q", want, a.header.Get("Server-Timing"))
		}
	}
}

func TestContentTypesAreTheContracts(t *testing.T) {
	s := newSite(t, simple("", ""))
	for options, want := range map[string]string{
		"": "audio/mpeg", "f:mp3": "audio/mpeg", "f:opus": "audio/ogg", "f:ogg": "audio/ogg", "f:aac": "audio/aac",
		"f:m4a": "audio/mp4", "f:flac": "audio/flac", "f:wav": "audio/wav",
		"f:peaks": "application/json", "f:peaks/pk_fmt:dat": "application/octet-stream",
	} {
		if got := s.do(t.Context(), http.MethodHead, s.url(options, "speech.wav")).header.Get("Content-Type"); got != want {
			t.Errorf("%s: %s, want %s", options, got, want)
		}
	}
}

func TestDownloadsAreNamedTwice(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:mp3/t:0:1/dl:Caf%C3%A9%20%22x%22%2Fy.mp3", "speech.wav")
	want := `attachment; filename="Caf_ _x__y.mp3"; filename*=UTF-8''Caf%C3%A9%20%22x%22%2Fy.mp3`
	for i, a := range []answer{s.get(url), s.get(url), s.do(t.Context(), http.MethodHead, url), s.get(url, "Range", "bytes=0-1")} {
		if got := a.header.Get("Content-Disposition"); got != want {
			t.Errorf("answer %d: %d, Content-Disposition %s", i, a.status, got)
		}
	}
	plain := s.get(s.url("f:mp3/t:0:1", "speech.wav"))
	if plain.header.Get("Content-Disposition") != "" || plain.header.Get("ETag") == s.get(url).header.Get("ETag") {
		t.Errorf("without dl: %v", plain.header)
	}
}

// A CORS-less answer has no field that is not its own, and an error none of the variant's.
func TestErrorsHaveNoneOfTheVariantsFields(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:mp3/t:0:1/dl:a.mp3", "speech.wav")
	s.get(url)
	for name, a := range map[string]answer{
		"416":        s.get(url, "Range", "bytes=99999999-"),
		"412":        s.get(url, "If-Match", `"x"`),
		"404":        s.get(s.url("", "nothing-here.wav")),
		"422":        s.get(s.url("x:1", "speech.wav")),
		"422 of dl":  s.get(s.url("dl:a%00b", "speech.wav")),
		"404 (HEAD)": s.do(t.Context(), http.MethodHead, s.url("", "nothing-here.wav")),
	} {
		if !strings.HasPrefix(name, fmt.Sprint(a.status)) {
			t.Errorf("%s: got %d", name, a.status)
		}
		for _, field := range []string{"ETag", "X-Audio-Proxy", "Cache-Status", "Server-Timing", "Accept-Ranges", "Last-Modified", "Content-Disposition"} {
			if got := a.header.Get(field); got != "" {
				t.Errorf("%s has %s: %s", name, field, got)
			}
		}
		if a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") == "" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
}
