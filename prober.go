package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// errProbeTimeout: ffprobe, or a count of frames, did not end within probe_timeout.
var errProbeTimeout = errors.New("the probe took too long")

// probeError is a failure of a probe, as against one of a render.
type probeError struct{ err error }

func (e *probeError) Error() string { return "examining the source: " + e.err.Error() }

func (e *probeError) Unwrap() error { return e.err }

// prober examines one opened source, for whoever has a slot to do it in.
type prober struct {
	memory  *memory
	tools   ffmpeg.Tools
	timeout time.Duration
	source  urlapi.Source
	key     sourceKey
	input   *source.Input
	scratch func() (*store.Stage, error) // makes a folder to work in
}

// Facts are those of the source, from memory or from ffprobe.
func (p *prober) Facts(ctx context.Context) (ffmpeg.Facts, error) {
	return recall(ctx, p, p.memory.facts, p.key, ffmpeg.Probe)
}

// Frames is how many frames of the source a trim leaves, whatever its container claims.
func (p *prober) Frames(ctx context.Context, facts ffmpeg.Facts, trim *urlapi.Trim) (int64, error) {
	if frames, known := facts.Clip(trim); known {
		return frames, nil
	}
	key := clipKey{sourceKey: p.key}
	if trim != nil {
		key.trim = *trim
	}
	return recall(ctx, p, p.memory.clips, key, func(ctx context.Context, run ffmpeg.Run, src ffmpeg.Source) (int64, error) {
		return ffmpeg.CountFrames(ctx, run, src, trim)
	})
}

// refuse notes why the source could not be examined or rendered, where that is a property of the source.
func (p *prober) refuse(ctx context.Context, endpoint string, err error) {
	p.memory.refuse(ctx, endpoint, p.key, p.input, err)
}

// recall looks a fact up, or finds it out and remembers it. A failure is not remembered here: see refuse.
func recall[K comparable, V any](ctx context.Context, p *prober, known *lru.Cache[K, V], key K,
	ask func(context.Context, ffmpeg.Run, ffmpeg.Source) (V, error)) (V, error) {
	if p.key.validator != "" {
		if value, ok := known.Get(key); ok {
			return value, nil
		}
	}
	value, err := probe(ctx, p, ask)
	measured.probed(err)
	if err != nil {
		var none V
		return none, &probeError{err}
	}
	if p.key.validator != "" {
		known.Add(key, value)
	}
	return value, nil
}

// probe runs one probe, in a folder of its own. Its result is that of the source as it was opened.
func probe[V any](ctx context.Context, p *prober, ask func(context.Context, ffmpeg.Run, ffmpeg.Source) (V, error)) (none V, err error) {
	stage, err := p.scratch()
	if err != nil {
		return none, fmt.Errorf("making a folder for a probe: %w", err)
	}
	defer func() { _ = stage.Remove() }() // which is tried again
	run, src, err := p.tools.On(ffmpegInput(p.input), stage.Dir())
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errProbeTimeout)
	defer cancel()
	value, err := ask(ctx, run, src)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // what a probe says that was stopped says nothing of the source
		}
		return none, err
	}
	return value, p.input.Unchanged(ctx)
}
