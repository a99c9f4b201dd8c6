package ffmpeg

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Every format's finished files pass, and what is cut off or torn out of them does not (field case R3).
func TestR3FinishedFilesAreProven(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "sine.wav", "sine=r=44100:d=3", "-ac", "2")
	for _, format := range audioFormats {
		o := mustRender(t, source, urlapi.Options{Format: format}, Facts{})
		for _, path := range []string{o.live, o.final} {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, content []byte, want bool) {
				t.Helper()
				if err := wholeFile(format, bytes.NewReader(content), int64(len(content))); (err == nil) != want {
					t.Errorf("%s %s %s: %v", format, filepath.Base(path), what, err)
				}
			}
			check("whole", content, true)
			if format == urlapi.M4A {
				check("without its index", bytes.Replace(content, []byte("moov"), []byte("free"), 1), false)
				check("with two bytes less", content[:len(content)-2], false)
				check("with half of it", content[:len(content)/2], false)
			}
			if format == urlapi.WAV || format == urlapi.Opus || format == urlapi.Ogg {
				check("with half of it", content[:len(content)/2], false)
			}
		}
	}
}
