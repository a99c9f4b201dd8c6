package audioproxy

import (
	"bytes"
	endian "encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

func TestPeaksAreAVariantLikeAnyOther(t *testing.T) {
	ffprobe := probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("ffprobe "+ffprobe.path, ""))
	url := s.url("f:peaks/pts:50/ch:2", "speech.wav")

	answers := s.all(slices.Repeat([]string{url}, 10))

	if n := count(answers, func(a answer) bool { return a.cache() == "MISS" }); n > 1 {
		t.Errorf("%d renders for ten who asked at once", n)
	}
	stored := s.get(url)
	for i, a := range answers {
		if a.status != http.StatusOK || !bytes.Equal(a.body, stored.body) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("listener %d: %d %v, %d bytes", i, a.status, a.header, len(a.body))
		}
	}
	if stored.cache() != "HIT" || stored.header.Get("Content-Length") != strconv.Itoa(len(stored.body)) {
		t.Errorf("stored: %v", stored.header)
	}
	var peaks struct {
		Version, Channels, Bits, Length int
		SampleRate                      int `json:"sample_rate"`
		SamplesPerPixel                 int `json:"samples_per_pixel"`
		Data                            []int16
	}
	if err := json.Unmarshal(stored.body, &peaks); err != nil {
		t.Fatal(err)
	}
	if peaks.Version != 2 || peaks.Channels != 2 || peaks.Bits != 16 || peaks.Length != 50 || len(peaks.Data) != 200 {
		t.Errorf("peaks: %.200s", stored.body)
	}

	dat := s.get(s.url("f:peaks/pts:50/ch:2/pk_fmt:dat", "speech.wav"))

	if dat.header.Get("Content-Type") != "application/octet-stream" || len(dat.body) != 24+2*len(peaks.Data) {
		t.Fatalf("dat: %v, %d bytes", dat.header, len(dat.body))
	}
	header := make([]uint32, 6)
	values := make([]int16, len(peaks.Data))
	body := bytes.NewReader(dat.body)
	for _, part := range []any{header, values} {
		if err := endian.Read(body, endian.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{2, 0, uint32(peaks.SampleRate), uint32(peaks.SamplesPerPixel), 50, 2}; !slices.Equal(header, want) || !slices.Equal(values, peaks.Data) {
		t.Errorf("dat has header %v, want %v; values equal: %v", header, want, slices.Equal(values, peaks.Data))
	}
	if part := s.get(url, "Range", "bytes=1-9"); part.status != http.StatusPartialContent || !bytes.Equal(part.body, stored.body[1:10]) {
		t.Errorf("range: %d", part.status)
	}
	if head := s.do(t.Context(), http.MethodHead, s.url("f:peaks/pts:51", "speech.wav")); head.status != http.StatusOK || head.cache() != "MISS" {
		t.Errorf("HEAD: %d %s", head.status, head.cache())
	}
	for _, option := range []string{"br:96", "q:2", "bd:16", "sr:8000"} {
		if a := s.get(s.url("f:peaks/"+option, "speech.wav")); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d, want 422", option, a.status)
		}
	}
	if n := len(ffprobe.pids()); n != 1 {
		t.Errorf("%d probes of one source, want 1", n)
	}
}
