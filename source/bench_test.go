package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// What a hit costs that looks at its source (freshness revalidate).
func BenchmarkOpen(b *testing.B) {
	root := b.TempDir()
	if err := os.WriteFile(filepath.Join(root, "song.wav"), []byte("song"), 0o600); err != nil {
		b.Fatal(err)
	}
	local, err := source.OpenLocal(root)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in, err := local.Open(b.Context(), "song.wav")
		if err != nil {
			b.Fatal(err)
		}
		in.Close()
	}
}
