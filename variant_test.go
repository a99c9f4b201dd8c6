package audioproxy

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// examine has ffprobe say what a body is, and how many seconds it lasts.
func examine(t *testing.T, body []byte) (codec string, seconds float64) {
	t.Helper()
	cmd := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name:format=duration", "-of", "csv=p=0", "-")
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Args[len(cmd.Args)-1] = file
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ffprobe: %v\n%s", err, out)
	}
	codec, rest, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	seconds, err = strconv.ParseFloat(rest, 64)
	if err != nil {
		t.Fatalf("ffprobe said %q", out)
	}
	return codec, seconds
}

func TestFirstRequestIsRenderedAndTheSecondIsStored(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:opus/br:96/t:0:2/fade:0.2:0.5", "music.wav")

	first := s.get(url)

	if first.status != http.StatusOK || first.cache() != "MISS" || first.err != nil {
		t.Fatalf("first answer: %d %s, %v: %s", first.status, first.cache(), first.err, first.body)
	}
	if first.header.Get("Content-Length") != "" || first.header.Get("Accept-Ranges") != "" {
		t.Errorf("a stream claims a length or ranges: %v", first.header)
	}
	if first.header.Get("Content-Type") != "audio/ogg" || first.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a browser may take it for something else: %v", first.header)
	}
	codec, seconds := examine(t, first.body)
	if codec != "opus" || seconds < 1.98 || seconds > 2.02 {
		t.Errorf("got %s of %.3f s, want opus of 2.0 s", codec, seconds)
	}

	second := s.get(url)

	if second.cache() != "HIT" || len(second.body) != len(first.body) {
		t.Errorf("second answer is %s with %d bytes, want HIT with the same %d", second.cache(), len(second.body), len(first.body))
	}
	if got, want := second.header.Get("Content-Length"), strconv.Itoa(len(first.body)); got != want {
		t.Errorf("Content-Length %s, want %s", got, want)
	}
	key := strings.Trim(second.header.Get("ETag"), `"`)
	if first.header.Get("ETag") != `W/"`+key+`"` || len(key) != 64 {
		t.Errorf("ETags are %s and %s", first.header.Get("ETag"), second.header.Get("ETag"))
	}
	part := s.get(url, "Range", "bytes=0-99")
	if part.status != http.StatusPartialContent || !bytes.Equal(part.body, second.body[:100]) ||
		part.header.Get("Content-Range") != "bytes 0-99/"+strconv.Itoa(len(first.body)) {
		t.Errorf("range: %d %v", part.status, part.header)
	}
}

func TestEveryFormatPlays(t *testing.T) {
	s := newSite(t, simple("", ""))
	for format, codec := range map[string]string{
		"mp3": "mp3", "opus": "opus", "ogg": "vorbis", "aac": "aac", "m4a": "aac", "flac": "flac", "wav": "pcm_s16le",
	} {
		for _, source := range []string{"music.wav", "speech.mp3"} {
			url := s.url("f:"+format+"/t:1:3", source)
			if a := s.get(url); a.status != http.StatusOK || a.cache() != "MISS" {
				t.Errorf("%s of %s: %d %s %s", format, source, a.status, a.cache(), a.body)
				continue
			}
			stored := s.get(url)
			got, seconds := examine(t, stored.body)
			// ADTS has no header that could say its length: ffprobe guesses. Of an MP3 it says how long all
			// frames are, with the 25 ms in front that a player skips.
			if got != codec || format != "aac" && (seconds < 2.97 || seconds > 3.04) || stored.cache() != "HIT" {
				t.Errorf("%s of %s: %s of %.3f s (%s)", format, source, got, seconds, stored.cache())
			}
		}
	}
}

func TestConditionsAndRangesOfAStoredVariant(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:wav/t:0:1", "speech.wav")
	s.get(url)
	stored := s.get(url) // in which header fields may be complete that were not yet when the stream passed
	whole, size := stored.body, len(stored.body)
	etag, modified := stored.header.Get("ETag"), stored.header.Get("Last-Modified")
	last := strconv.Itoa(size - 1)
	for _, tc := range []struct {
		name    string
		header  []string
		status  int
		content string // Content-Range
		body    []byte
	}{
		{"first bytes", []string{"Range", "bytes=0-1"}, 206, "bytes 0-1/" + strconv.Itoa(size), whole[:2]},
		{"beyond the end", []string{"Range", "bytes=" + strconv.Itoa(size-10) + "-9999999"}, 206, "bytes " + strconv.Itoa(size-10) + "-" + last + "/" + strconv.Itoa(size), whole[size-10:]},
		{"the last five", []string{"Range", "bytes=-5"}, 206, "bytes " + strconv.Itoa(size-5) + "-" + last + "/" + strconv.Itoa(size), whole[size-5:]},
		{"more than there is from the end", []string{"Range", "bytes=-99999999"}, 206, "bytes 0-" + last + "/" + strconv.Itoa(size), whole},
		{"to the end", []string{"Range", "bytes=7-"}, 206, "bytes 7-" + last + "/" + strconv.Itoa(size), whole[7:]},
		{"behind the end", []string{"Range", "bytes=" + strconv.Itoa(size) + "-"}, 416, "bytes */" + strconv.Itoa(size), nil},
		{"a number no integer holds", []string{"Range", "bytes=99999999999999999999-"}, 416, "bytes */" + strconv.Itoa(size), nil},
		{"the last none", []string{"Range", "bytes=-0"}, 416, "bytes */" + strconv.Itoa(size), nil},
		{"several", []string{"Range", "bytes=0-1,5-6"}, 200, "", whole},
		{"malformed", []string{"Range", "bytes=a-b"}, 200, "", whole},
		{"backwards", []string{"Range", "bytes=5-2"}, 200, "", whole},
		{"another unit", []string{"Range", "seconds=0-1"}, 200, "", whole},
		{"same for If-Range", []string{"Range", "bytes=0-1", "If-Range", etag}, 206, "bytes 0-1/" + strconv.Itoa(size), whole[:2]},
		{"weak for If-Range", []string{"Range", "bytes=0-1", "If-Range", "W/" + etag}, 200, "", whole},
		{"other for If-Range", []string{"Range", "bytes=0-1", "If-Range", `"other"`}, 200, "", whole},
		{"other for If-Range, unsatisfiable", []string{"Range", "bytes=" + strconv.Itoa(size) + "-", "If-Range", `"other"`}, 200, "", whole},
		{"date for If-Range", []string{"Range", "bytes=0-1", "If-Range", modified}, 206, "bytes 0-1/" + strconv.Itoa(size), whole[:2]},
		{"same", []string{"If-None-Match", etag}, 304, "", nil},
		{"same, weakly", []string{"If-None-Match", `"a", W/` + etag}, 304, "", nil},
		{"other", []string{"If-None-Match", `"other"`}, 200, "", whole},
		{"not modified since", []string{"If-Modified-Since", modified}, 304, "", nil},
		{"modified since", []string{"If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200, "", whole},
	} {
		got := s.get(url, tc.header...)
		if got.status != tc.status || got.header.Get("Content-Range") != tc.content {
			t.Errorf("%s: %d, Content-Range %q; want %d, %q", tc.name, got.status, got.header.Get("Content-Range"), tc.status, tc.content)
		}
		if tc.status < 300 && !bytes.Equal(got.body, tc.body) {
			t.Errorf("%s: %d bytes, want %d", tc.name, len(got.body), len(tc.body))
		}
		if tc.status == 416 && (got.code() != "range_not_satisfiable" || got.header.Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v %s", tc.name, got.header, got.body)
		}
	}
}

func TestNotModifiedNeedsNeitherSourceNorStore(t *testing.T) {
	s := newSite(t, simple("", ""))
	key := strings.Trim(s.get(s.url("f:mp3/t:0:1", "speech.wav")).header.Get("ETag"), `W/"`)

	gone := s.get(s.url("f:mp3/t:0:1", "nothing-here.wav"), "If-None-Match", `"`+key+`"`)
	if gone.status != http.StatusNotFound {
		t.Errorf("another source's key: %d, want 404", gone.status)
	}
	if err := os.Remove(filepath.Join(s.root, "speech.wav")); err != nil {
		t.Fatal(err)
	}
	for _, path := range s.stored() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	got := s.get(s.url("f:mp3/t:0:1", "speech.wav"), "If-None-Match", `W/"`+key+`"`)

	if got.status != http.StatusNotModified || got.header.Get("ETag") == "" || got.header.Get("Cache-Control") == "" {
		t.Errorf("got %d %v, want 304 with ETag and Cache-Control", got.status, got.header)
	}
}

func TestAStoredVariantOutlivesItsSource(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	s.get(url)
	if err := os.Remove(filepath.Join(s.root, "speech.wav")); err != nil {
		t.Fatal(err)
	}
	if got := s.get(url); got.status != http.StatusOK || got.cache() != "HIT" {
		t.Errorf("got %d %s, want a HIT", got.status, got.cache())
	}
}

func TestHeadRendersNothing(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")

	cold := s.do(t.Context(), http.MethodHead, url)

	if cold.status != http.StatusOK || cold.cache() != "MISS" || cold.header.Get("Content-Type") != "audio/mpeg" ||
		!strings.HasPrefix(cold.header.Get("ETag"), `W/"`) || cold.header.Get("Content-Length") != "" {
		t.Errorf("cold: %d %v", cold.status, cold.header)
	}
	if n := len(ffmpeg.pids()); n != 0 {
		t.Errorf("HEAD started %d encoders", n)
	}
	if missing := s.do(t.Context(), http.MethodHead, s.url("", "nothing-here.wav")); missing.status != http.StatusNotFound {
		t.Errorf("HEAD of a missing source: %d", missing.status)
	}
	size := len(s.get(url).body)
	stored := s.do(t.Context(), http.MethodHead, url)
	if stored.cache() != "HIT" || stored.header.Get("Content-Length") != strconv.Itoa(size) || len(stored.body) != 0 {
		t.Errorf("stored: %v", stored.header)
	}
}

func TestSpellingsOfOneVariantShareIt(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	s.get(s.url("f:opus/br:96/t:0:1", "speech.wav"))
	for _, url := range []string{
		s.url("br:96/t:0.0:1.000/f:opus", "speech.wav"),
		s.url("f:opus/br:96/t:0:1", "./speech.wav"),
		s.url("f:opus/br:96/t:0:1", "%73peech.wav"),
		strings.Replace(s.url("f:opus/br:96/t:0:1", ""), "plain/local://", "enc/bG9jYWw6Ly9zcGVlY2gud2F2", 1),
	} {
		if got := s.get(url); got.cache() != "HIT" {
			t.Errorf("%s: %d %s", url, got.status, got.cache())
		}
	}
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
}
