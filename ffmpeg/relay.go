package ffmpeg

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// What a program calls a source that we read for it.
const (
	relayURL       = "pipe:3"
	relayProtocols = "pipe"
)

// relay runs programs whose descriptor 3 is a pipe that we fill with the file, so that an error of reading it is ours
// to see. It is then the run's, as an *Error of class Unavailable. That a program has had enough is no error.
func (t Tools) relay(dir string, file *io.SectionReader) Run {
	return func(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
		out, in, err := os.Pipe()
		if err != nil {
			return nil, startError(err)
		}
		defer out.Close()
		filled := make(chan error, 1)
		guard.Go(func() {
			defer in.Close()
			filled <- guard.Do(func() error { return fill(in, io.NewSectionReader(file, 0, file.Size())) })
		})
		stderr, err := t.run(ctx, program, args, stdout, dir, []*os.File{out})
		out.Close() // now nobody can read, and fill ends
		in.Close()  // nor does it wait for a program that could not be ended, and has the pipe still
		if broken := <-filled; broken != nil {
			return stderr, broken
		}
		return stderr, err
	}
}

// fill copies source into the pipe.
func fill(pipe io.Writer, source io.Reader) error {
	buf := make([]byte, 64<<10) // what a pipe holds
	for {
		n, err := source.Read(buf)
		if _, err := pipe.Write(buf[:n]); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return sourceError(err)
		}
	}
}
