package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// job is the render of one variant of one opened source. It may outlive the config it was started under, and
// refers to nothing of a request.
type job struct {
	tools   ffmpeg.Tools
	options urlapi.Options
	source  urlapi.Source
	origin  trace.SpanContext // of the request that started it
	input   *source.Input
	prober  prober
	nice    int
	max     int64 // of the variant, in bytes
	release func()

	facts ffmpeg.Facts
	plan  ffmpeg.Plan
}

// newJob takes over the input. It fails where the source is known not to be renderable.
func (a *App) newJob(v *variant, in *source.Input) (*job, error) {
	if err := a.engine.memory.refusal(forRender, a.sourceKey(v, in)); err != nil {
		in.Close()
		return nil, err
	}
	release, err := a.hold()
	if err != nil {
		in.Close()
		return nil, err
	}
	return &job{
		tools:   a.tools,
		options: v.options,
		source:  v.source,
		origin:  v.outcome.origin(),
		input:   in,
		prober:  a.prober(v, in),
		nice:    niceness(v.class),
		max:     a.MaxVariantSize,
		release: release,
	}, nil
}

// prober examines an opened source.
func (a *App) prober(v *variant, in *source.Input) prober {
	return prober{
		memory:  a.engine.memory,
		tools:   a.tools,
		timeout: time.Duration(a.ProbeTimeout),
		source:  v.source,
		key:     a.sourceKey(v, in),
		input:   in,
		scratch: a.scratch,
	}
}

func (a *App) sourceKey(v *variant, in *source.Input) sourceKey {
	return sourceKey{v.id.Scope, v.source.String(), in.Validator}
}

// scratch makes a folder to work in, where the store has its own. The system's place for temporary files is the
// second choice: it need not exist, nor have room.
func (a *App) scratch() (*store.Stage, error) {
	kept, err := a.openStore()
	if err == nil && kept != nil {
		stage, err := kept.Stage()
		if err == nil {
			return stage, nil
		}
	}
	return store.TempStage()
}

// niceness is how far the kernel puts a class's encoders behind others: a little for those that nobody waits for.
func niceness(class admission.Class) int {
	switch class {
	case admission.Normal:
		return 5
	case admission.Low:
		return 10
	}
	return 0
}

// Prepare finds out what the render's arguments depend on, and plans it. Most depend on nothing.
func (j *job) Prepare(ctx context.Context) error {
	err := j.prepare(ctx)
	j.remember(ctx, err)
	return err
}

// remember notes what is wrong with the source, before anybody is told. With a trim it may be only that nothing was
// left of it.
func (j *job) remember(ctx context.Context, err error) {
	if err != nil && j.options.Trim == nil {
		j.prober.refuse(ctx, forRender, err)
	}
}

func (j *job) prepare(ctx context.Context) error {
	need := ffmpeg.Needs(j.options)
	var err error
	if need.Facts {
		if j.facts, err = j.prober.Facts(ctx); err != nil {
			return err
		}
	}
	if need.Length {
		if err := j.measure(ctx); err != nil {
			return err
		}
	}
	j.plan, err = ffmpeg.NewPlan(j.options, j.facts)
	return err
}

// measure finds out how much of the source its trim leaves.
func (j *job) measure(ctx context.Context) error {
	frames, err := j.prober.Frames(ctx, j.facts, j.options.Trim)
	if err != nil {
		return err
	}
	if frames == 0 {
		return &emptyTrim{}
	}
	j.facts.ClipFrames = frames
	return nil
}

// emptyTrim is the answer to a trim that lies behind the end of its source.
type emptyTrim struct{}

func (*emptyTrim) Error() string { return "the trim leaves nothing of the source (option: t)" }

// Render makes the variant. A source that was written to meanwhile makes a variant of neither what it was nor
// what it is.
func (j *job) Render(ctx context.Context, spool *coalesce.Spool) error {
	err := j.render(ctx, spool)
	j.remember(ctx, err)
	return err
}

func (j *job) render(ctx context.Context, spool *coalesce.Spool) error {
	in := ffmpegInput(j.input)
	var err error
	if j.options.Format == urlapi.Peaks {
		err = j.draw(ctx, in, spool)
	} else {
		err = j.tools.Render(ctx, j.plan, in, spool, ffmpeg.Limits{Nice: j.nice, MaxBytes: j.max})
	}
	if err != nil {
		return spaceError(err)
	}
	return j.input.Unchanged(ctx)
}

// ffmpegInput is an opened source as ffmpeg takes it.
func ffmpegInput(in *source.Input) ffmpeg.Input {
	return ffmpeg.Input{File: in.File, Ext: in.Ext, Content: in.Reader()}
}

// spaceError tells the flight when the variant is too large, and when another place for the spool may help.
func spaceError(err error) error {
	failure, ok := errors.AsType[*ffmpeg.Error](err)
	if ok && failure.Class == ffmpeg.TooLarge {
		return fmt.Errorf("%w: %w", coalesce.ErrTooLarge, err)
	}
	if ok && failure.Class == ffmpeg.NoSpace || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w", coalesce.ErrNoSpace, err)
	}
	return err
}

// draw writes the source's peaks.
func (j *job) draw(ctx context.Context, in ffmpeg.Input, spool *coalesce.Spool) error {
	run, src, err := j.tools.On(in, spool.Dir())
	if err != nil {
		return err
	}
	waveform, err := ffmpeg.Peaks(ctx, run, src, j.options, j.facts)
	if err != nil {
		return err
	}
	live, err := os.OpenFile(filepath.Join(spool.Dir(), ffmpeg.LiveName), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("writing peaks: %w", err)
	}
	if err := waveform.Write(live, j.options.PeaksFormat); err != nil {
		live.Close()
		return fmt.Errorf("writing peaks: %w", err)
	}
	return live.Close()
}

// Close gives up the source.
func (j *job) Close() {
	j.input.Close()
	j.release()
}

var _ coalesce.Job = (*job)(nil)
