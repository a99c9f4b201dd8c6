package audioproxy

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// overwrite puts another file in a master's place, atomically.
func (s *site) overwrite(name, from string) {
	s.t.Helper()
	s.master(name+".new", from)
	if err := os.Rename(filepath.Join(s.root, name+".new"), filepath.Join(s.root, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.root, name)); err != nil {
		s.t.Fatal(err)
	}
}

func TestRevalidateFollowsTheSource(t *testing.T) {
	s := newSite(t, simple("", "freshness revalidate"))
	url := s.url("f:wav/bd:16/t:0:1", "speech.wav")

	first := s.get(url)
	second := s.get(url)

	if first.cache() != "MISS" || second.cache() != "HIT" {
		t.Errorf("%s, then %s", first.cache(), second.cache())
	}
	etag := second.header.Get("ETag")
	for name, a := range map[string]answer{
		"stream": first, "stored": second,
		"range":        s.get(url, "Range", "bytes=0-1"),
		"head":         s.do(t.Context(), http.MethodHead, url),
		"not modified": s.get(url, "If-None-Match", etag),
	} {
		if got := a.header.Get("Cache-Control"); got != "public, max-age=3600" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
	}
	if a := s.get(url, "If-None-Match", etag); a.status != http.StatusNotModified {
		t.Errorf("with the tag of what is there: %d, want 304", a.status)
	}

	s.overwrite("speech.wav", "testdata/audio/music.wav")

	changed := s.get(url, "If-None-Match", etag)
	if changed.status != http.StatusOK || changed.cache() != "MISS" || strings.TrimPrefix(changed.header.Get("ETag"), "W/") == etag || bytes.Equal(changed.body, first.body) {
		t.Errorf("after the change: %d %s, ETag %s", changed.status, changed.cache(), changed.header.Get("ETag"))
	}
	// A stream's header fields may be completed only when it has passed: bytes are compared behind them.
	if again := s.get(url); again.cache() != "HIT" || !bytes.Equal(again.body[200:], changed.body[200:]) {
		t.Errorf("and then: %s", again.cache())
	}

	s.remove("speech.wav")

	for name, a := range map[string]answer{
		"GET": s.get(url), "HEAD": s.do(t.Context(), http.MethodHead, url), "with the tag of what was there": s.get(url, "If-None-Match", changed.header.Get("ETag")),
	} {
		if a.status != http.StatusNotFound {
			t.Errorf("gone, %s: %d, want 404", name, a.status)
		}
	}
}

func TestImmutableStaysWhatItWasAndCbMakesANewOne(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:wav/bd:16/t:0:1", "speech.wav")
	s.get(url)
	was := s.get(url).body

	s.overwrite("speech.wav", "testdata/audio/music.wav")

	if a := s.get(url); a.cache() != "HIT" || !bytes.Equal(a.body, was) {
		t.Errorf("after the change: %s", a.cache())
	}
	if a := s.get(s.url("f:wav/bd:16/t:0:1/cb:2", "speech.wav")); a.cache() != "MISS" || bytes.Equal(a.body, was) {
		t.Errorf("with another cb: %s", a.cache())
	}
	if got := s.get(url).header.Get("Cache-Control"); got != "public, max-age=31536000, immutable, no-transform" {
		t.Errorf("Cache-Control %q", got)
	}
}

// A file that is still being uploaded must not become the song (cases B09, B10).
func TestASourceThatChangesDuringItsRenderIsNotKept(t *testing.T) {
	for _, freshness := range []string{"immutable", "revalidate"} {
		t.Run(freshness, func(t *testing.T) {
			ffmpeg, open := slowly(t)
			s := newSite(t, simple("ffmpeg "+ffmpeg.path, "freshness "+freshness))
			url := s.url("f:mp3", "speech.wav")
			rendering := s.started(url)
			waitFor(t, "bytes have gone out", func() bool {
				flights := theEngine(t).flights.Flights()
				return len(flights) == 1 && flights[0].Bytes > 0
			})
			f, err := os.OpenFile(filepath.Join(s.root, "speech.wav"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}

			open()

			if a := <-rendering; a.err == nil {
				t.Errorf("the stream ended as if it were complete: %d, %d bytes", a.status, len(a.body))
			}
			s.awaitIdle()
			if stored := s.stored(); len(stored) != 0 {
				t.Errorf("stored: %v", stored)
			}
			if a := s.get(url); a.cache() != "MISS" || a.err != nil || len(ffmpeg.pids()) != 2 {
				t.Errorf("the next request: %s, %v, %d encoders in all", a.cache(), a.err, len(ffmpeg.pids()))
			}
		})
	}
}

// The limit guards renders. What is stored costs nothing, however large its source is by now.
func TestTheSizeLimitDoesNotTouchWhatIsStored(t *testing.T) {
	for _, freshness := range []string{"immutable", "revalidate"} {
		s := newSite(t, simple("", "freshness "+freshness))
		url := s.url("f:mp3/t:0:1", "speech.wav")
		s.get(url)
		s.load(simple("max_source_size 1kB", "freshness "+freshness))
		if a := s.get(url); a.cache() != "HIT" {
			t.Errorf("%s: stored: %d %s", freshness, a.status, a.cache())
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if a := s.do(t.Context(), method, s.url("f:mp3/t:0:2", "speech.wav")); a.status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %s of another: %d, want 413", freshness, method, a.status)
			}
		}
		if a := s.get(s.url("info", "speech.wav")); a.status != http.StatusOK {
			t.Errorf("%s: info: %d", freshness, a.status)
		}
	}
}

// No lifetime in an answer outlasts its URL.
func TestExpiryCutsEveryLifetime(t *testing.T) {
	s := newSite(t, simple("", "preset p1 f:mp3/t:0:1"))
	if err := os.WriteFile(filepath.Join(s.root, "text.wav"), []byte("no audio"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, options, source string
		left                  int64
		status                int
		suffix                string
		header                []string
	}{
		{"stream", "f:mp3/t:0:1", "speech.wav", 100, 200, ", immutable, no-transform", nil},
		{"stored", "f:mp3/t:0:1", "speech.wav", 100, 200, ", immutable, no-transform", nil},
		{"range", "f:mp3/t:0:1", "speech.wav", 100, 206, ", immutable, no-transform", []string{"Range", "bytes=0-1"}},
		{"preset", "p:p1", "speech.wav", 100, 200, ", immutable, no-transform", nil},
		{"not found", "f:mp3", "nothing-here.wav", 5, 404, "", nil},
		{"bad options", "f:mp3/br:0", "speech.wav", 5, 422, "", nil},
		{"undecodable", "f:mp3", "text.wav", 5, 415, "", nil},
	} {
		exp := time.Now().Unix() + tc.left
		a := s.get(s.url(tc.options+"/exp:"+strconv.FormatInt(exp, 10), tc.source), tc.header...)
		control := a.header.Get("Cache-Control")
		seconds, rest, _ := strings.Cut(control[strings.Index(control, "max-age=")+len("max-age="):], ",")
		age, err := strconv.ParseInt(seconds, 10, 64)
		if rest != "" {
			rest = "," + rest
		}
		if a.status != tc.status || err != nil || age > tc.left || age < tc.left-4 || rest != tc.suffix {
			t.Errorf("%s: %d, Cache-Control %q, want at most %d s", tc.name, a.status, control, tc.left)
		}
		if tc.status == http.StatusOK {
			same := s.get(s.url(tc.options+"/exp:"+strconv.FormatInt(exp, 10), tc.source), "If-None-Match", a.header.Get("ETag"))
			if same.status != http.StatusNotModified || strings.Contains(same.header.Get("Cache-Control"), "31536000") {
				t.Errorf("%s, not modified: %d %v", tc.name, same.status, same.header)
			}
		}
	}
	if a := s.get(s.url("exp:1/f:mp3/bogus:1", "nothing-here.wav")); a.status != http.StatusGone {
		t.Errorf("expired, with bad options and no source: %d, want 410 before anything else", a.status)
	}
	s.load(simple("", "freshness revalidate"))
	far := strconv.FormatInt(time.Now().Unix()+100000, 10)
	if a := s.get(s.url("f:mp3/t:0:1/exp:"+far, "speech.wav")); a.header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("expires after the lifetime: %v", a.header)
	}
}
