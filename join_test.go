package audioproxy

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// decode is the audio of a body, as 16-bit samples.
func decode(t *testing.T, body []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	pcm, err := exec.Command("ffmpeg", "-v", "error", "-i", file, "-f", "s16le", "-").Output()
	if err != nil {
		t.Errorf("decoding: %v", err)
	}
	return pcm
}

// Whoever joins a render, at whatever moment, hears what the stored file holds.
func TestListenersThatJoinAtAnyMomentHearTheWhole(t *testing.T) {
	s := newSite(t, simple("", ""))
	s.generate("minute.wav", 60)
	random := rand.New(rand.NewPCG(20261130, 2))
	for _, format := range []string{"mp3", "opus", "ogg", "aac", "m4a", "flac", "wav"} {
		url := s.url("f:"+format, "minute.wav")
		bodies := make([][]byte, 6)
		var listeners sync.WaitGroup
		for i := range bodies {
			delay := time.Duration(random.IntN(400)) * time.Millisecond
			listeners.Go(func() {
				time.Sleep(delay) // the moment is the point
				a := s.get(url)
				if a.status != http.StatusOK || a.err != nil {
					t.Errorf("%s: listener %d: %d %s, %v", format, i, a.status, a.cache(), a.err)
				}
				bodies[i] = a.body
			})
		}
		listeners.Wait()
		stored := s.get(url)
		whole := decode(t, stored.body)
		if len(whole) < 59*44100*2 {
			t.Errorf("%s: the stored file decodes to %d bytes", format, len(whole))
		}
		for i, body := range bodies {
			heard := decode(t, body)
			// What the encoder put in front and filled its last frame up with is known only to header fields that
			// are completed at the end (MP3), and to the index that fragments have not (M4A).
			const frames = 2 * 1152 * 2 // two of the longer codec's, of 16-bit mono
			same := bytes.Equal(heard, whole)
			if format == "mp3" || format == "m4a" {
				same = len(heard) <= len(whole)+frames && bytes.Contains(heard, whole)
			}
			if !same {
				t.Errorf("%s: listener %d heard %d bytes of audio, which are not the %d of the stored file", format, i, len(heard), len(whole))
			}
		}
	}
}
