package ffmpeg

import (
	"context"
	"io"
	"os"
)

// Tools are the programs to run.
type Tools struct {
	FFmpeg, FFprobe string // paths
}

// Input is an opened source.
type Input struct {
	File *os.File
	Ext  string // ".wav", or "" where there is none fit to be part of a file name
}

// On makes the input readable for the programs under a name in dir, a folder private to the caller, and returns
// how to run them there and what to call the source.
func (t Tools) On(in Input, dir string) (Run, Source, error) {
	name, err := linkInput(dir, in.Ext)
	if err != nil {
		return nil, Source{}, err
	}
	return t.runIn(dir, []*os.File{in.File}), Source{URL: "file:" + name, Protocols: "file"}, nil
}

// Run runs one of the programs without a source.
func (t Tools) Run(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
	return t.runIn("", nil)(ctx, program, args, stdout)
}

func (t Tools) runIn(dir string, files []*os.File) Run {
	return func(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
		var stderr tail
		process := Process{
			Path:   t.path(program),
			Args:   args,
			Dir:    dir,
			Files:  files,
			Stdout: stdout,
			Stderr: &stderr,
		}
		err := process.Run(ctx)
		return stderr.bytes(), err
	}
}

func (t Tools) path(program Program) string {
	if program == FFprobe {
		return t.FFprobe
	}
	return t.FFmpeg
}

// tail keeps the end of a stream.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailLimit):]...)
	if len(t.kept) > 4*tailLimit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailLimit:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.kept[max(0, len(t.kept)-tailLimit):] }
