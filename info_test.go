package audioproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

func (s *site) info(name string, header ...string) answer {
	s.t.Helper()
	return s.get(s.url("info", name), header...)
}

func TestInfoTellsTheContractsFields(t *testing.T) {
	s := newSite(t, simple("", ""))
	for name, args := range map[string][]string{
		"a.flac": {"-c:a", "flac", "-sample_fmt", "s32", "-bits_per_raw_sample", "24"}, "a.mp3": {"-b:a", "96k"}, "a.m4a": {"-c:a", "aac"},
		"alac.m4a": {"-c:a", "alac", "-sample_fmt", "s16p"}, "a.opus": {"-c:a", "libopus"}, "a.ogg": {"-c:a", "libvorbis"}, "a.wav": {"-c:a", "pcm_s24le"},
		"a.aiff": {}, "mulaw.wav": {"-c:a", "pcm_mulaw"},
	} {
		run(t, "ffmpeg", append(append([]string{"-v", "error", "-t", "2", "-i", "testdata/audio/music.wav", "-metadata", "TITLE=A title",
			"-metadata", "artist=" + strings.Repeat("x", 600)}, args...), filepath.Join(s.root, name))...)
	}
	always := []string{"bitrate", "channels", "duration", "format", "sample_rate", "size"}
	for name, want := range map[string]struct {
		format string
		bits   float64
		tags   bool
	}{
		"a.flac": {"flac", 24, true}, "a.mp3": {"mp3", 0, true}, "a.m4a": {"m4a", 0, true}, "alac.m4a": {"m4a", 16, true},
		"a.opus": {"opus", 0, true}, "a.ogg": {"ogg", 0, true}, "a.wav": {"wav", 24, true}, "a.aiff": {"aiff", 16, true}, "mulaw.wav": {"wav", 8, true},
	} {
		a := s.info(name)
		var facts map[string]any
		if err := json.Unmarshal(a.body, &facts); err != nil || a.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		fields := always
		if want.bits != 0 {
			fields = append(slices.Clone(fields), "bit_depth")
		}
		if want.tags {
			fields = append(slices.Clone(fields), "tags")
		}
		sort.Strings(fields)
		var got []string
		for field := range facts {
			got = append(got, field)
		}
		sort.Strings(got)
		if !slices.Equal(got, fields) {
			t.Errorf("%s: fields %v, want %v", name, got, fields)
		}
		size, err := os.Stat(filepath.Join(s.root, name))
		if err != nil {
			t.Fatal(err)
		}
		duration, _ := facts["duration"].(float64)
		if facts["format"] != want.format || want.bits != 0 && facts["bit_depth"] != want.bits || facts["size"] != float64(size.Size()) ||
			duration < 1.98 || duration > 2.08 || facts["sample_rate"].(float64) < 8000 || facts["channels"].(float64) < 1 {
			t.Errorf("%s: %s", name, a.body)
		}
		tags, _ := facts["tags"].(map[string]any)
		if artist, _ := tags["artist"].(string); want.tags && (tags["title"] != "A title" || len(artist) != 512 && name != "a.aiff") { // AIFF as ffmpeg writes it has no artist
			t.Errorf("%s: tags %v", name, tags)
		}
		if a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "public, max-age=3600" ||
			a.header.Get("Content-Length") != strconv.Itoa(len(a.body)) || a.cache() != "" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
}

func TestInfoIsAnsweredWithoutAProbeWhereOneIsNotNeeded(t *testing.T) {
	ffprobe := probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("ffprobe "+ffprobe.path, ""))
	etag := s.do(t.Context(), http.MethodHead, s.url("info", "speech.wav")).header.Get("ETag")
	if a := s.info("speech.wav", "If-None-Match", etag); a.status != http.StatusNotModified || a.header.Get("ETag") != etag || a.header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("with the tag from HEAD: %d %v", a.status, a.header)
	}
	for name, want := range map[string]int{"x:1/info": 422, "info/f:mp3": 422, "info/exp:4102444800": 422} {
		if a := s.get(s.url(name, "speech.wav")); a.status != want {
			t.Errorf("%s: %d, want %d", name, a.status, want)
		}
	}
	if a := s.info("missing.wav"); a.status != http.StatusNotFound {
		t.Errorf("missing: %d", a.status)
	}
	if n := len(ffprobe.pids()); n != 0 {
		t.Errorf("%d probes so far, want none", n)
	}

	first := s.info("speech.wav")

	if first.header.Get("ETag") != etag {
		t.Errorf("GET says %s, HEAD %s", first.header.Get("ETag"), etag)
	}
	s.overwrite("speech.wav", "testdata/audio/music.wav")
	second := s.info("speech.wav", "If-None-Match", etag)
	if second.status != http.StatusOK || second.header.Get("ETag") == etag || string(second.body) == string(first.body) {
		t.Errorf("after a change: %d %s", second.status, second.body)
	}
	if n := len(ffprobe.pids()); n != 2 {
		t.Errorf("%d probes in all, want 2", n)
	}
}

func TestAllWhoAskAboutOneSourceShareAProbe(t *testing.T) {
	ffprobe := probing(t, `sleep 0.3; exec ffprobe "$@"`)
	s := newSite(t, simple("probes 1\nffprobe "+ffprobe.path, ""))
	urls := slices.Repeat([]string{s.url("info", "speech.wav")}, 20)

	answers := s.all(urls)

	if n := count(answers, func(a answer) bool { return a.status == http.StatusOK && string(a.body) == string(answers[0].body) }); n != 20 {
		t.Errorf("%d of 20 got the facts: %s", n, answers[0].body)
	}
	// What is known of a source serves its renders too.
	for i := range 3 {
		if a := s.get(s.url(fmt.Sprintf("f:flac/t:0:0.%d", i+1), "speech.wav")); a.status != http.StatusOK {
			t.Errorf("render %d: %d %s", i, a.status, a.body)
		}
	}
	if n := len(ffprobe.pids()); n != 1 {
		t.Errorf("%d probes, want 1", n)
	}
}

func TestRendersThatNeedNoFactsRunNoProbe(t *testing.T) {
	ffprobe := probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("ffprobe "+ffprobe.path, ""))
	for _, options := range []string{"f:mp3/t:0:0.1", "f:opus/br:96/t:0:0.1/fade:0.01", "f:ogg/t:0:0.1/gain:-3", "f:aac/ch:1/t:0:0.1", "f:m4a/t:0:0.1",
		"f:flac/bd:16/t:0:0.1", "f:wav/bd:24/sr:8000/t:0:0.1", "f:mp3/norm:ebu/sr:44100/t:0:0.1", "f:mp3/enhance:voice/t:0:0.1"} {
		if a := s.get(s.url(options, "music.wav")); a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: %d %s", options, a.status, a.body)
		}
	}
	if n := len(ffprobe.pids()); n != 0 {
		t.Errorf("%d probes, want none", n)
	}
}

func TestAFullInfoQueueIs429AndASlowProbe504(t *testing.T) {
	ffprobe := probing(t, `echo $$ > "$0.running"; while [ ! -e "$0.open" ]; do sleep 0.02; done; exec ffprobe "$@"`)
	s := newSite(t, simple("probes 1\nqueue 0\nffprobe "+ffprobe.path, ""))
	going := s.started(s.url("info", "speech.wav"))
	waitFor(t, "the probe runs", func() bool { return len(ffprobe.pids()) == 1 })
	full := s.get(s.url("info", "music.wav"))
	if after, err := strconv.Atoi(full.header.Get("Retry-After")); full.status != http.StatusTooManyRequests || full.code() != "queue_full" || err != nil || after < 1 {
		t.Errorf("info with every probe taken: %d %v %s", full.status, full.header, full.body)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "music.wav")); a.status != http.StatusOK {
		t.Errorf("a render with every probe taken: %d %s", a.status, a.body)
	}
	if a := s.do(t.Context(), http.MethodHead, s.url("info", "music.wav")); a.status != http.StatusOK {
		t.Errorf("HEAD with every probe taken: %d", a.status)
	}
	if err := os.WriteFile(ffprobe.path+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := <-going; a.status != http.StatusOK {
		t.Errorf("the probe that ran: %d %s", a.status, a.body)
	}

	slow := probing(t, `sleep 20`)
	s.load(simple("probe_timeout 100ms\nffprobe "+slow.path, ""))
	for _, options := range []string{"info", "f:peaks/pts:3"} {
		a := s.get(s.url(options, "speech.mp3"))
		if a.status != http.StatusGatewayTimeout || a.code() != "probe_timeout" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s with a probe that takes too long: %d %s", options, a.status, a.body)
		}
	}
	broken := probing(t, `exit 7`)
	s.load(simple("ffprobe "+broken.path, ""))
	if a := s.info("speech.mp3"); a.status != http.StatusInternalServerError || a.code() != "probe_failed" {
		t.Errorf("with a probe that fails: %d %s", a.status, a.body)
	}
	waitFor(t, "no probe is left", s.isIdle)
}

func TestAVideoIsRefusedBeforeAnyByte(t *testing.T) {
	s := newSite(t, simple("", ""))
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=32x32:rate=5:duration=1", "-f", "lavfi", "-i", "sine=d=1",
		"-c:v", "mpeg4", "-c:a", "aac", "-shortest", filepath.Join(s.root, "film.m4a"))
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=32x32:rate=1:duration=1", "-i", "testdata/audio/speech.mp3",
		"-map", "1:a", "-map", "0:v", "-frames:v", "1", "-c:a", "copy", "-c:v", "png", "-disposition:v", "attached_pic", filepath.Join(s.root, "cover.mp3"))
	for _, options := range []string{"info", "f:mp3", "f:opus", "f:m4a", "f:flac", "f:wav", "f:peaks", "f:mp3/t:0:0.5"} {
		if a := s.get(s.url(options, "film.m4a")); a.status != http.StatusUnsupportedMediaType || a.code() != "video_source" || a.header.Get("Cache-Control") != "max-age=10" {
			t.Errorf("%s of a video: %d %s", options, a.status, a.body)
		}
		if a := s.get(s.url(options, "cover.mp3")); a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s of audio with a cover: %d %s", options, a.status, a.body)
		}
	}
	waitFor(t, "nothing is left", s.isIdle)
}
