package ffmpeg

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Tools are the programs to run.
type Tools struct {
	FFmpeg, FFprobe string // paths

	descriptor string // how a subprocess names its descriptor 3, where that is not as the system does; for tests
}

// Input is an opened source.
type Input struct {
	File *os.File
	Ext  string // ".wav", or "" where there is none fit to be part of a file name

	// Content is how this process reads the file; nil: through File. Reading may not block for ever.
	Content *io.SectionReader
}

func (in Input) content() (*io.SectionReader, error) {
	if in.Content != nil {
		return in.Content, nil
	}
	info, err := in.File.Stat()
	if err != nil {
		return nil, sourceError(err)
	}
	return io.NewSectionReader(in.File, 0, info.Size()), nil
}

// On makes the input readable for the programs under a name in dir, a folder private to the caller, and returns
// how to run them there and what to call the source.
func (t Tools) On(in Input, dir string) (Run, Source, error) {
	content, err := in.content()
	if err != nil {
		return nil, Source{}, err
	}
	ext := in.Ext
	if strings.EqualFold(ext, ".gsm") && !isGSM(content) {
		ext = "" // ffmpeg knows GSM by its name alone, and makes noise of anything
	}
	target := t.descriptor
	if target == "" {
		target = descriptor()
	}
	name, err := linkInput(dir, ext, target)
	if err != nil {
		return nil, Source{}, err
	}
	source := Source{URL: "file:" + name, Protocols: "file", file: content}
	source.relay = t.relay(dir, content)
	source.copyDecodes = func(ctx context.Context) (bool, error) { return t.copyDecodes(ctx, dir, ext, content) }
	source.verdict = func(ctx context.Context) Verdict {
		if rewind(in.File) != nil {
			return Unreadable
		}
		said, _ := t.transcribe(ctx, FFmpeg, evidenceArgs(source), io.Discard, dir, []*os.File{in.File})
		return said.report.Verdict() // which is Unreadable where the run failed
	}
	return t.onFile(dir, in.File), source, nil
}

// copyLimit is the size of the largest source that is copied to be tried, in bytes: some 50 ms.
const copyLimit = 64 << 20

// copyDecodes copies the source into dir and decodes a second of that.
func (t Tools) copyDecodes(ctx context.Context, dir, ext string, content *io.SectionReader) (bool, error) {
	if content.Size() > copyLimit {
		return false, nil
	}
	name := "copy" + ext
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return false, nil // no room to try it in
	}
	defer os.Remove(file.Name())
	defer file.Close()
	buffer := make([]byte, 64<<10)
	for at := int64(0); at < content.Size() && ctx.Err() == nil; {
		n, err := content.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if _, err := file.Write(buffer[:n]); err != nil || n == 0 {
			return false, nil // no room, or less of it than there was
		}
		at += int64(n)
	}
	nothing, err := os.Open(os.DevNull) // in the place of the source
	if err != nil {
		return false, nil
	}
	defer nothing.Close()
	var frames counter
	_, err = t.run(ctx, FFmpeg, evidenceArgs(Source{URL: "file:" + name, Protocols: "file"}), &frames, dir, []*os.File{nothing})
	return err == nil && frames > 0, nil
}

// Run runs one of the programs without a source.
func (t Tools) Run(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
	return t.run(ctx, program, args, stdout, "", nil)
}

// rewind is for systems where the name of a descriptor shares its offset with whoever read it before (there is no
// /proc). Two programs at a time cannot read a file there.
func rewind(file *os.File) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return sourceError(err)
	}
	return nil
}

// onFile runs programs with a file as descriptor 3.
func (t Tools) onFile(dir string, file *os.File) Run {
	return func(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
		if err := rewind(file); err != nil {
			return nil, err
		}
		return t.run(ctx, program, args, stdout, dir, []*os.File{file})
	}
}

// run runs one of the programs, and returns what tells how that ended.
func (t Tools) run(ctx context.Context, program Program, args []string, stdout io.Writer, dir string, files []*os.File) ([]byte, error) {
	said, err := t.transcribe(ctx, program, args, stdout, dir, files)
	return said.words(), err
}

// transcribe runs one of the programs. It stops one whose source has too much to say of itself.
func (t Tools) transcribe(ctx context.Context, program Program, args []string, stdout io.Writer, dir string, files []*os.File) (*transcript, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opened := make(chan struct{})
	stderr := &transcript{flooded: func() { cancel(errFlood) }, opened: opened}
	process := Process{
		Path:   t.path(program),
		Args:   args,
		Dir:    dir,
		Files:  files,
		Stdout: stdout,
		Stderr: stderr,
		Opened: opened,
	}
	err := process.Run(ctx)
	stderr.report.End()
	return stderr, err
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
