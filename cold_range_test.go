package audioproxy

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Safari plays nothing whose first two bytes do not come as 206 with the true total (case A02).
func TestSafarisOpeningMoveOnAColdPreviewGetsTheTrueTotal(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	s.generate("song.wav", 60)
	url := s.url("f:m4a/t:0:30", "song.wav")

	first := s.get(url, "Range", "bytes=0-1")

	whole := s.get(url)
	total := strconv.Itoa(len(whole.body))
	if first.status != http.StatusPartialContent || first.header.Get("Content-Range") != "bytes 0-1/"+total ||
		first.header.Get("Content-Length") != "2" || !bytes.Equal(first.body, whole.body[:2]) {
		t.Errorf("got %d %v with %d bytes, want the first 2 of %s", first.status, first.header, len(first.body), total)
	}
	if first.cache() != "MISS" || first.header.Get("Content-Type") != "audio/mp4" || first.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("header of the range: %v", first.header)
	}
	if first.header.Get("ETag") != whole.header.Get("ETag") || strings.HasPrefix(first.header.Get("ETag"), "W/") {
		t.Errorf("the range has ETag %s, the stored variant %s", first.header.Get("ETag"), whole.header.Get("ETag"))
	}
	if whole.cache() != "HIT" || len(ffmpeg.pids()) != 1 {
		t.Errorf("then %s, after %d encoders", whole.cache(), len(ffmpeg.pids()))
	}
	if _, seconds := examine(t, whole.body); seconds < 29.95 || seconds > 30.05 {
		t.Errorf("the preview lasts %.3f s", seconds)
	}
}

// Players that probe and then play, or seek at once, ask for parts and the whole of one cold variant together
// (case C01).
func TestRangesAndWholesOfOneColdVariantShareAnEncoder(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:wav/bd:16", "speech.wav")
	asked := map[string]<-chan answer{"": s.started(url)}
	for _, field := range []string{"bytes=0-", "bytes=0-1", "bytes=100-199", "bytes=-5", "bytes=5000-", "bytes=99999999-"} {
		asked[field] = s.started(url, "Range", field)
	}
	waitFor(t, "all have joined", func() bool {
		flights := theEngine(t).flights.Flights()
		return len(flights) == 1 && flights[0].Listeners == len(asked)
	})

	open()

	got := map[string]answer{}
	for field, c := range asked {
		got[field] = <-c
	}
	stored := s.get(url).body
	size := len(stored)
	for field, want := range map[string][]byte{
		"bytes=0-1": stored[:2], "bytes=100-199": stored[100:200], "bytes=-5": stored[size-5:], "bytes=5000-": stored[5000:],
	} {
		if a := got[field]; a.status != http.StatusPartialContent || !bytes.Equal(a.body, want) ||
			!strings.HasSuffix(a.header.Get("Content-Range"), "/"+strconv.Itoa(size)) {
			t.Errorf("%s: %d %q, %d bytes, want %d of %d", field, a.status, a.header.Get("Content-Range"), len(a.body), len(want), size)
		}
	}
	for _, field := range []string{"", "bytes=0-"} {
		a := got[field]
		if a.status != http.StatusOK || len(a.body) != size || a.header.Get("Content-Length") != "" || a.header.Get("Accept-Ranges") != "" {
			t.Errorf("%q: %d %v, %d bytes, want a stream of %d", field, a.status, a.header, len(a.body), size)
		}
	}
	if a := got["bytes=99999999-"]; a.status != http.StatusRequestedRangeNotSatisfiable || a.code() != "range_not_satisfiable" ||
		a.header.Get("Content-Range") != "bytes */"+strconv.Itoa(size) || a.header.Get("Cache-Control") != "no-store" || a.header.Get("ETag") != "" {
		t.Errorf("behind the end: %d %v %s", a.status, a.header, a.body)
	}
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
}

func TestARangeFromTheFirstByteOnStreamsAtOnce(t *testing.T) {
	ffmpeg, open := slowly(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	for _, field := range []string{"bytes=0-", "bytes=0-1,4-5", "seconds=1-2"} {
		resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3", "speech.wav"), "Range", field)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 8192)); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s while the encoder stands still: %d, %v", field, resp.StatusCode, err)
		}
	}
	open()
}

// Whoever waits for a range in vain is better served by the whole than by an error.
func TestARangeThatTakesTooLongGetsTheWholeStream(t *testing.T) {
	ffmpeg, open := slowly(t)
	s := newSite(t, simple("range_wait 100ms\nffmpeg "+ffmpeg.path, ""))

	resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3", "speech.wav"), "Range", "bytes=100-199")

	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Range") != "" || !strings.HasPrefix(resp.Header.Get("ETag"), "W/") {
		t.Errorf("got %d %v, want the stream", resp.StatusCode, resp.Header)
	}
	open()
	body, err := io.ReadAll(resp.Body)
	if err != nil || len(body) != 2*8192 || len(ffmpeg.pids()) != 1 {
		t.Errorf("%d bytes (%v) of %d encoders, want all of one's", len(body), err, len(ffmpeg.pids()))
	}
}

func TestARangeOfWhatCannotBeRenderedGetsItsError(t *testing.T) {
	ffmpeg := script(t, toOutput+`printf '%04096d' 1; exit 1`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	for range 2 {
		a := s.get(s.url("f:mp3", "speech.wav"), "Range", "bytes=0-1")
		if a.status != http.StatusInternalServerError || a.code() != "render_failed" {
			t.Errorf("got %d %s, want 500: nothing has been sent", a.status, a.body)
		}
	}
	if n := len(ffmpeg.pids()); n != 4 {
		t.Errorf("%d encoders ran, want two for each request: one to render, and one for evidence of whose fault it is", n)
	}
}

func TestIfRangeOnAColdVariant(t *testing.T) {
	s := newSite(t, simple("", ""))
	ask := func(trim, condition string) answer {
		return s.get(s.url("f:mp3/t:0:"+trim, "speech.wav"), "Range", "bytes=0-1", "If-Range", condition)
	}
	etag := func(trim string) string {
		return strings.TrimPrefix(s.do(t.Context(), http.MethodHead, s.url("f:mp3/t:0:"+trim, "speech.wav")).header.Get("ETag"), "W/")
	}
	if a := ask("1", etag("1")); a.status != http.StatusPartialContent {
		t.Errorf("the same: %d, want 206", a.status)
	}
	if a := ask("2", `"other"`); a.status != http.StatusOK || a.cache() != "MISS" || a.header.Get("Content-Length") != "" {
		t.Errorf("another: %d %v, want the stream", a.status, a.header)
	}
	if a := ask("3", "W/"+etag("3")); a.status != http.StatusOK {
		t.Errorf("weak: %d, want 200", a.status)
	}
}

// A server that sends more than it announced spoils the connection for the next answer (case A03).
func TestBoundedRangesShareAConnection(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:wav/t:0:1", "speech.wav")
	s.get(url)
	whole := s.get(url).body // of the finished file: a stream's header fields are not complete
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for field, want := range map[string][]byte{"bytes=100-199": whole[100:200], "bytes=0-9": whole[:10]} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", field)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(body, want) {
			t.Errorf("%s: %d bytes, %v", field, len(body), err)
		}
	}
}

func TestConditionsThatFailGetAnErrorAndNotTheVariantsHeader(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	s.get(url)
	stored := s.get(url)
	for _, tc := range []struct {
		name, value string
		status      int
	}{
		{"If-Match", stored.header.Get("ETag"), 200},
		{"If-Match", "*", 200},
		{"If-Match", `"other", ` + stored.header.Get("ETag"), 200},
		{"If-Match", `"other"`, 412},
		{"If-Match", "W/" + stored.header.Get("ETag"), 412},
		{"If-Unmodified-Since", stored.header.Get("Last-Modified"), 200},
		{"If-Unmodified-Since", "Mon, 02 Jan 2006 15:04:05 GMT", 412},
		{"If-Unmodified-Since", "yesterday", 200},
	} {
		a := s.get(url, tc.name, tc.value)
		if a.status != tc.status {
			t.Errorf("%s: %s: %d, want %d", tc.name, tc.value, a.status, tc.status)
		}
		if a.status == 412 && (a.code() != "precondition_failed" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("ETag") != "") {
			t.Errorf("%s: %s: %v %s", tc.name, tc.value, a.header, a.body)
		}
	}
}

func TestCompleteDeliveryHasALengthOrARealError(t *testing.T) {
	ffmpeg := script(t, `case "$*" in *"-c:a pcm_s16le"*) `+toOutput+`printf '%04096d' 1; exit 1;; esac; exec ffmpeg "$@"`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, "delivery complete"))
	url := s.url("f:mp3/t:0:1", "speech.mp3")
	head := s.do(t.Context(), http.MethodHead, url)

	first := s.get(url)

	if first.status != http.StatusOK || first.cache() != "MISS" || first.header.Get("Content-Length") != strconv.Itoa(len(first.body)) {
		t.Errorf("first answer: %d %v", first.status, first.header)
	}
	for _, name := range []string{"ETag", "Accept-Ranges", "Content-Type", "Cache-Control"} {
		if head.header.Get(name) != first.header.Get(name) || head.header.Get(name) == "" {
			t.Errorf("HEAD says %s: %q, GET %q", name, head.header.Get(name), first.header.Get(name))
		}
	}
	if second := s.get(url); second.cache() != "HIT" || !bytes.Equal(second.body, first.body) || second.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("second answer: %v", second.header)
	}
	if part := s.get(s.url("f:mp3/t:0:2", "speech.mp3"), "Range", "bytes=-3"); part.status != http.StatusPartialContent || len(part.body) != 3 {
		t.Errorf("range of a cold variant: %d, %d bytes", part.status, len(part.body))
	}
	// Where a stream would have been broken off, there is an error.
	if failed := s.get(s.url("f:wav/bd:16", "speech.mp3")); failed.status != http.StatusInternalServerError || failed.code() != "render_failed" || failed.err != nil {
		t.Errorf("a render that fails midway: %d %s %v", failed.status, failed.body, failed.err)
	}
}

func TestWithoutAStoreAllButHitsStillWorks(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, strings.Replace(simple("ffmpeg "+ffmpeg.path, ""), "store file_system {store}", "store off", 1))
	url := s.url("f:mp3/t:0:1", "speech.wav")

	first := s.get(url)
	late := s.get(url) // within the moment that the finished spool stays
	part := s.get(url, "Range", "bytes=10-19")

	if first.cache() != "MISS" || late.cache() != "COALESCED" || late.err != nil || len(late.body) != len(first.body) || len(first.body) == 0 {
		t.Errorf("%s with %d bytes, then %s with %d (%v)", first.cache(), len(first.body), late.cache(), len(late.body), late.err)
	}
	if part.status != http.StatusPartialContent || !bytes.Equal(part.body, late.body[10:20]) {
		t.Errorf("range: %d, %d bytes", part.status, len(part.body))
	}
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran for those who came at once, want 1", n)
	}
	if cold := s.get(s.url("f:m4a/t:0:1", "speech.wav"), "Range", "bytes=0-1"); cold.status != http.StatusPartialContent || cold.cache() != "MISS" {
		t.Errorf("range of a cold variant: %d %s", cold.status, cold.cache())
	}
	waitFor(t, "the spool is gone", func() bool { return s.get(url).cache() == "MISS" })
}
