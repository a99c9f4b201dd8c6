package ffmpeg

import (
	"context"
	"errors"
	"io"
	"os"

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

// Limits are what a render may take.
type Limits struct {
	Nice     int   // how far its ffmpeg stands back behind other processes; 0: not at all
	MaxBytes int64 // how long a file it may write; 0: any. Where the system can, ffmpeg is stopped at that byte
}

// Render runs the plan and returns once ffmpeg is gone. It releases the output as soon as ffmpeg has reported a
// source with audio and without video, and audio has been written. It returns nil when the output is complete (see
// prove); otherwise the cause of ctx, where that ended, or an *Error.
//
// A failure before the release that ffmpeg's words don't explain is judged by evidence (see judge), which costs the
// time to decode a second.
func (t Tools) Render(ctx context.Context, plan Plan, in Input, out Output, limits Limits) error {
	run, source, err := t.On(in, out.Dir())
	if err != nil {
		return err
	}
	plan.Protocols = source.Protocols
	tagsOut, tagsIn, err := os.Pipe()
	if err != nil {
		return startError(err)
	}
	defer tagsOut.Close()
	if err := rewind(in.File); err != nil {
		tagsIn.Close()
		return err
	}
	r := &rendering{plan: plan, out: out, ask: func(ctx context.Context) error {
		_, err := Probe(ctx, run, source)
		return err
	}}
	process := Process{
		Path:    t.FFmpeg,
		Args:    plan.ArgsWithTags(source.URL, "pipe:4", "file:"+LiveName, "file:"+FinalName),
		Dir:     out.Dir(),
		Files:   []*os.File{in.File, tagsOut},
		Nice:    limits.Nice,
		MaxFile: limits.MaxBytes,
	}
	err = r.run(ctx, &process, tagsIn)
	failure, ok := errors.AsType[*Error](err)
	switch {
	case ok && !r.released:
		return judge(ctx, run, source, failure)
	case ok && failure.doubtful: // what was released had been decoded
		return &Error{Class: Failed, Tail: failure.Tail, Err: failure.Err}
	}
	return err
}

// rendering is one run of a plan.
type rendering struct {
	plan     Plan
	out      Output
	ask      func(context.Context) error // has ffprobe look at the source
	watch    *watch
	released bool
}

func (r *rendering) run(ctx context.Context, process *Process, tags *os.File) error {
	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.watch = newWatch(tags, func() { cancel(errFlood) })
	defer r.watch.close()
	process.Stderr, process.Opened = r.watch, r.watch.opened
	gate := make(chan error, 1)
	guard.Go(func() {
		err := guard.Do(func() error { return r.openGate(runCtx) })
		if err != nil {
			cancel(err)
		}
		gate <- err
	})
	err := process.Run(runCtx)
	cancel(nil) // the gate has had its time; what it did not see, prove does
	gateErr := <-gate
	r.watch.end()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	r.released = gateErr == nil
	if refused, ok := refusal(gateErr); ok {
		return refused
	}
	if bug, ok := errors.AsType[*guard.Panic](gateErr); ok {
		return bug
	}
	if err != nil {
		return r.watch.classify(err)
	}
	ask := r.ask
	if r.released {
		ask = nil // it has been asked, if need was
	}
	return prove(ctx, r.plan, r.watch, r.out, ask)
}

// openGate releases the output once it may be seen. It returns an *Error when the source turns out not to be
// one that may be rendered, and the cause of ctx when ffmpeg ended before there was anything to release.
func (r *rendering) openGate(ctx context.Context) error {
	verdict, reported, err := r.watch.verdict(ctx, func(ctx context.Context) error {
		_, err := r.out.AwaitGrowth(ctx, 0)
		return err
	})
	if err != nil {
		return err
	}
	if reported && verdict != Video && verdict != NoAudio {
		if err := awaitAudio(ctx, r.plan, r.out); err != nil {
			return err
		}
		verdict = r.watch.now() // by now the true end of the report has come, if that before was a forged one
	}
	if verdict == Pending || verdict == Unreadable {
		// Something is being written by an ffmpeg whose words we cannot read, or don't trust: hear another witness.
		if err := r.ask(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause // it was interrupted, and says nothing of the source
			}
			return err
		}
	} else if err := acceptable(verdict); err != nil {
		return err
	}
	r.out.Release()
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
