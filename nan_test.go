package audioproxy

import (
	"bytes"
	endian "encoding/binary"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// nanWAV is a float WAV whose samples turn into NaN and Inf after a second: the natural way to have lame abort
// midway (case B03).
func nanWAV(t *testing.T, path string) {
	t.Helper()
	samples := make([]float32, 3*44100)
	for i := range samples {
		samples[i] = float32(0.3 * math.Sin(float64(i)*0.05))
		if i > 44100 && i%1000 == 0 {
			samples[i] = float32(math.NaN())
		}
		if i > 44100 && i%1000 == 1 {
			samples[i] = float32(math.Inf(1))
		}
	}
	var file bytes.Buffer
	size := uint32(4 * len(samples))
	for _, part := range []any{
		[]byte("RIFF"), size + 36, []byte("WAVEfmt "), uint32(16), uint16(3), uint16(1), uint32(44100), uint32(4 * 44100), uint16(4), uint16(32),
		[]byte("data"), size, samples,
	} {
		if err := endian.Write(&file, endian.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestASourceThatKillsItsEncoderIsNeverACompleteSong(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	nanWAV(t, filepath.Join(s.root, "nan.wav"))
	url := s.url("f:mp3", "nan.wav")
	for i := range 2 {
		a := s.get(url)
		if a.status == http.StatusOK && a.err == nil {
			t.Errorf("request %d got a complete answer of %d bytes", i, len(a.body))
		}
		if a.status != http.StatusOK && (a.status != http.StatusInternalServerError || a.code() != "render_failed") {
			t.Errorf("request %d: %d %s", i, a.status, a.body)
		}
		waitFor(t, "nothing is left", s.isIdle)
	}
	if stored := s.stored(); len(stored) != 0 || len(ffmpeg.pids()) != 2 {
		t.Errorf("stored: %v, after %d encoders", stored, len(ffmpeg.pids()))
	}
}
