package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// Output is where a render goes: a folder, and a file in it that is followed while it grows.
type Output interface {
	// Dir is the folder, private to this render.
	Dir() string
	// Live is the file that ffmpeg writes as LiveName, open for reading.
	Live() io.ReaderAt
	// AwaitGrowth blocks until the live file is longer than n bytes, and returns its length.
	AwaitGrowth(ctx context.Context, n int64) (int64, error)
	// Release lets those who follow see what is in the live file.
	Release()
}

// Names of the files in an Output's folder. Most formats are one file; m4a is streamed as fragments and kept as
// a plain MP4.
const (
	LiveName  = "live"
	FinalName = "final"
)

// Render runs the plan and returns once ffmpeg is gone. It releases the output as soon as ffmpeg has reported a
// source with audio and without video, and audio has been written. It returns nil when ffmpeg ended well and
// there is audio in the file; otherwise the cause of ctx, where that ended, or an *Error.
func (t Tools) Render(ctx context.Context, plan Plan, in Input, out Output, nice int) error {
	run, source, err := t.On(in, out.Dir())
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) error {
		_, err := Probe(ctx, run, source)
		return err
	}
	tagsOut, tagsIn, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe for tags: %w", err)
	}
	defer tagsOut.Close()
	w := newWatch(tagsIn)
	defer w.close()

	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gate := make(chan error, 1)
	guard.Go(func() {
		err := guard.Do(func() error { return openGate(runCtx, plan, w, out, ask) })
		if err != nil {
			cancel(err)
		}
		gate <- err
	})
	process := Process{
		Path:   t.FFmpeg,
		Args:   plan.ArgsWithTags(source.URL, "pipe:4", "file:"+LiveName, "file:"+FinalName),
		Dir:    out.Dir(),
		Files:  []*os.File{in.File, tagsOut},
		Stderr: w,
		Nice:   nice,
	}
	err = process.Run(runCtx)
	cancel(nil) // the gate has had its time; what it did not see, prove does
	gateErr := <-gate
	w.end()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	if refused, ok := refusal(gateErr); ok {
		return refused
	}
	if bug, ok := errors.AsType[*guard.Panic](gateErr); ok {
		return bug
	}
	if err != nil {
		return w.classify(err)
	}
	if gateErr == nil {
		ask = nil // it has been asked, if need was
	}
	return prove(ctx, plan, w, out, ask)
}

// openGate releases the output once it may be seen. It returns an *Error when the source turns out not to be
// one that may be rendered, and the cause of ctx when ffmpeg ended before there was anything to release. ask has
// ffprobe look at the source.
func openGate(ctx context.Context, plan Plan, w *watch, out Output, ask func(context.Context) error) error {
	verdict, err := w.verdict(ctx, func(ctx context.Context) error {
		_, err := out.AwaitGrowth(ctx, 0)
		return err
	})
	switch {
	case err != nil:
		return err
	case verdict == Pending || verdict == Unreadable:
		// Something is being written by an ffmpeg whose words we cannot read: hear another witness.
		if err := ask(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause // it was interrupted, and says nothing of the source
			}
			return err
		}
	default:
		if err := acceptable(verdict); err != nil {
			return err
		}
		if err := awaitAudio(ctx, plan, out); err != nil {
			return err
		}
	}
	out.Release()
	return nil
}

// acceptable says why a source with this verdict is not rendered.
func acceptable(verdict Verdict) error {
	switch verdict {
	case Audio:
		return nil
	case Video:
		return &Error{Class: VideoSource, Err: errors.New("the source has a video stream")}
	default:
		return &Error{Class: NoSound, Err: errors.New("the source has no audio stream")}
	}
}

// awaitAudio blocks until there is more in the live file than headers.
func awaitAudio(ctx context.Context, plan Plan, out Output) error {
	size := int64(0)
	for {
		var err error
		if size, err = out.AwaitGrowth(ctx, size); err != nil {
			return err
		}
		held, err := HoldsAudio(plan.Format, out.Live(), size)
		if held || err != nil {
			return err
		}
	}
}

// prove looks at what a render that ended well has left: a source that is none, or a file without audio, is no
// success, whatever the exit status. ask has ffprobe look at the source; nil where it has.
func prove(ctx context.Context, plan Plan, w *watch, out Output, ask func(context.Context) error) error {
	verdict := w.report.Verdict()
	if verdict != Unreadable {
		if err := acceptable(verdict); err != nil {
			return err
		}
		return proveFiles(plan, w, out)
	}
	// All we can say of a file whose maker we don't understand is that there is one.
	size, err := fileSize(filepath.Join(out.Dir(), LiveName))
	if err != nil || size == 0 {
		return w.classify(err)
	}
	if ask != nil {
		return ask(ctx)
	}
	return nil
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func proveFiles(plan Plan, w *watch, out Output) error {
	names := []string{LiveName}
	if plan.Shape.Tee {
		names = append(names, FinalName)
	}
	for _, name := range names {
		if held, err := fileHoldsAudio(plan, filepath.Join(out.Dir(), name)); err != nil || !held {
			return w.classify(err)
		}
	}
	return nil
}

func fileHoldsAudio(plan Plan, path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	return HoldsAudio(plan.Format, f, info.Size())
}
