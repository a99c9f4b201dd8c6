package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// archive is a source of a kind of its own: what it opens has to be fetched into a file first.
type archive map[string]string

func (a archive) Open(ctx context.Context, path string) (*source.Input, error) {
	content, ok := a[path]
	if !ok {
		return nil, fmt.Errorf("%w: the archive has no %s", source.ErrNotFound, path)
	}
	file, err := os.CreateTemp("", "fetched-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrUnavailable, err)
	}
	os.Remove(file.Name()) // it is gone when it is closed
	if _, err := file.WriteString(content); err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %w", source.ErrUnavailable, err)
	}
	return source.NewInput(file, path, fmt.Sprintf("%d-%s", len(content), content[:4]))
}

func ExampleNewInput() {
	var opener source.Opener = archive{"tapes/1972.WAV": "RIFF and so on"}
	in, err := opener.Open(context.Background(), "tapes/1972.WAV")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	content, _ := io.ReadAll(in.Reader())
	fmt.Printf("%d bytes, %s, %q, %q\n", in.Size, in.Ext, in.Validator, content)
	fmt.Println(in.Unchanged(context.Background()))

	_, err = opener.Open(context.Background(), "tapes/1973.wav")
	fmt.Println(errors.Is(err, source.ErrNotFound))
	// Output:
	// 14 bytes, .wav, "14-RIFF", "RIFF and so on"
	// <nil>
	// true
}
