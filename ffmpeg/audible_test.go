package ffmpeg

import (
	"bytes"
	"os"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// ffmpeg exits 0 with a container and nothing in it when a trim leaves nothing.
func TestNoAudioIsSeenAsSuch(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "short.wav", "sine=d=0.5")
	for _, format := range audioFormats {
		t.Run(string(format), func(t *testing.T) {
			o := render(t, source, urlapi.Options{Format: format, Trim: &urlapi.Trim{Start: 9000}}, Facts{})
			for _, path := range []string{o.live, o.final} {
				content, err := os.ReadFile(path)
				if err != nil {
					continue // later versions may not even make the file
				}
				if holds(t, format, content) {
					t.Errorf("%d bytes of %s count as audio", len(content), format)
				}
			}
		})
	}
}

// A listener is let in at the first byte of audio: not before, and not much later.
func TestAudioIsSeenAsSoonAsItIsThere(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "ten-ms.wav", "sine=d=0.01")
	for _, format := range audioFormats {
		t.Run(string(format), func(t *testing.T) {
			o := mustRender(t, source, urlapi.Options{Format: format}, Facts{})
			for _, path := range []string{o.live, o.final} {
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				first := -1
				for n := range len(content) + 1 {
					if holds(t, format, content[:n]) {
						first = n
						break
					}
				}
				if first < 0 {
					t.Fatalf("%d bytes never count as audio", len(content))
				}
				for n := first; n <= len(content); n++ {
					if !holds(t, format, content[:n]) {
						t.Fatalf("audio at %d bytes and none at %d", first, n)
					}
				}
			}
		})
	}
}

func holds(t *testing.T, format urlapi.Format, content []byte) bool {
	t.Helper()
	found, err := HoldsAudio(format, bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func FuzzHoldsAudio(f *testing.F) {
	f.Add("mp3", []byte("ID3\x04\x00\x00\x00\x00\x00\x0a"))
	f.Add("m4a", []byte("\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add("ogg", []byte("OggS"))
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		holds(t, urlapi.Format(format), content)
	})
}
