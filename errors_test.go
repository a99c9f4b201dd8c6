package audioproxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestFailuresOfTheServersOwnAreTold(t *testing.T) {
	ffmpeg, ffprobe := counting(t), probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path+"\nffprobe "+ffprobe.path, ""))
	for _, path := range []string{ffmpeg.path, ffprobe.path} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, options := range []string{"f:mp3", "f:peaks", "info"} {
		if a := s.get(s.url(options, "speech.wav")); a.status != http.StatusInternalServerError || a.code() != "not_configured" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s without ffmpeg: %d %s", options, a.status, a.body)
		}
	}
	slow := script(t, "sleep 20")
	s.load(simple("render_timeout 200ms\nffmpeg "+slow.path, ""))
	for _, header := range [][]string{nil, {"Range", "bytes=0-1"}} {
		if a := s.get(s.url("f:mp3", "speech.wav"), header...); a.status != http.StatusGatewayTimeout || a.code() != "render_timeout" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a render that takes too long: %d %s", a.status, a.body)
		}
	}
	waitFor(t, "nothing is left", s.isIdle)
}

// A render that takes too long after its first byte is broken off like any other that fails.
func TestARenderThatTakesTooLongMidwayIsBrokenOff(t *testing.T) {
	ffmpeg, _ := slowly(t)
	s := newSite(t, simple("render_timeout 2s\nffmpeg "+ffmpeg.path, ""))
	resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3", "speech.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(body) != 8192 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	waitFor(t, "nothing is left", s.isIdle)
}

func TestAVariantThatOutgrowsItsBoundIsNotKept(t *testing.T) {
	s := newSite(t, simple("max_variant_size 100kB", "delivery complete"))
	s.generate("long.wav", 60)
	if a := s.get(s.url("f:wav/bd:16", "long.wav")); a.status != http.StatusInternalServerError || a.code() != "render_failed" ||
		!strings.Contains(string(a.body), "max_variant_size") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "long.wav")); a.status != http.StatusOK {
		t.Errorf("one within it: %d", a.status)
	}
	waitFor(t, "nothing is left", s.isIdle)
	if n := len(s.stored()); n != 1 {
		t.Errorf("%d variants are stored, want 1", n)
	}
}
