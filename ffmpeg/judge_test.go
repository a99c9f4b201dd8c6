package ffmpeg

import (
	"archive/zip"
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// garbage is what is found under the names of audio files, and is none.
func garbage(t *testing.T) map[string][]byte {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	random := make([]byte, 50_000)
	source := rand.NewChaCha8([32]byte{9})
	source.Read(random)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "song.wav", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(random)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"zip":    archive.Bytes(),
		"html":   []byte("<!DOCTYPE html><html><body>" + strings.Repeat("<p>log in</p>\n", 500)),
		"zeros":  make([]byte, 50_000),
		"random": random,
		"text":   []byte(strings.Repeat("Lorem ipsum dolor sit amet. ", 2000)),
	}
}

// ffmpeg believes a name where the content tells nothing. Whatever the name is, garbage is the source's fault, for
// renders and for facts (field case F2).
func TestF2GarbageIsUndecodableWhateverItsName(t *testing.T) {
	t.Parallel()
	tools := realTools(t)
	for kind, content := range garbage(t) {
		for _, ext := range []string{".flac", ".ac3", ".eac3", ".dts", ".shn", ".thd", ".gsm", ".mp3", ".aac", ".mlp", ".amr", ".wav", ".ogg", ".m4a", ".mka", ".rm", ".oma", ".flv"} {
			t.Run(kind+ext, func(t *testing.T) {
				path := writeFile(t, "garbage"+ext, content)
				_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
				wantClass(t, "render", err, Undecodable)
				facts, err := probeFile(t, tools, path)
				wantClass(t, "probe", err, Undecodable)
				if err == nil {
					t.Errorf("facts %+v", facts)
				}
			})
		}
	}
}
