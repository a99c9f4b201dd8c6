package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Why a source is not probed.
var (
	errProbesBusy   = errors.New("all probes are taken")
	errProbeTimeout = errors.New("the probe took too long")
)

// knownSources is how many sources' facts are kept in memory. A source's facts are some hundred bytes, or a few
// kB with long tags.
const knownSources = 4096

// probes are what is known about sources, and the pool of those that find out. They are shared by the process:
// all who want to know the same of one source wait for one probe.
type probes struct {
	going singleflight.Group
	facts *lru.Cache[sourceKey, found[ffmpeg.Facts]]
	clips *lru.Cache[clipKey, found[int64]]

	mu      sync.Mutex
	limit   int
	running int
}

// sourceKey is a source as it is now: with another validator it is another source.
type sourceKey struct{ scope, source, validator string }

// clipKey is a part of a source, as its length is asked for.
type clipKey struct {
	sourceKey
	trim urlapi.Trim
}

// found is the outcome of a probe: that a source is no audio is worth knowing too.
type found[T any] struct {
	value T
	err   error
}

func newProbes(limit int) *probes {
	facts, err := lru.New[sourceKey, found[ffmpeg.Facts]](knownSources)
	if err != nil {
		panic(err) // only for a size below 1
	}
	clips, err := lru.New[clipKey, found[int64]](knownSources)
	if err != nil {
		panic(err)
	}
	return &probes{facts: facts, clips: clips, limit: limit}
}

// prober probes one opened source.
type prober struct {
	pool    *probes
	tools   ffmpeg.Tools
	timeout time.Duration
	key     sourceKey
	input   *source.Input
}

// Facts are those of the source, from memory or from ffprobe.
func (p *prober) Facts(ctx context.Context) (ffmpeg.Facts, error) {
	return learn(ctx, p, p.pool.facts, p.key, func(ctx context.Context, run ffmpeg.Run, src ffmpeg.Source) (ffmpeg.Facts, error) {
		return ffmpeg.Probe(ctx, run, src)
	})
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
	return learn(ctx, p, p.pool.clips, key, func(ctx context.Context, run ffmpeg.Run, src ffmpeg.Source) (int64, error) {
		return ffmpeg.CountFrames(ctx, run, src, trim)
	})
}

// learn looks a fact up, or finds it out and remembers it. All who ask for it meanwhile wait for the same
// answer; one who stops waiting takes nothing from the others.
func learn[K comparable, V any](ctx context.Context, p *prober, known *lru.Cache[K, found[V]], key K,
	ask func(context.Context, ffmpeg.Run, ffmpeg.Source) (V, error)) (V, error) {
	if f, ok := known.Get(key); ok && p.key.validator != "" {
		return f.value, f.err // which lasts, and so is the source's own
	}
	p.input.Hold() // a probe is everybody's who waits for it, and may outlive the one who began it
	answer := p.pool.going.DoChan(fmt.Sprintf("%T%v", key, key), func() (any, error) {
		if f, ok := known.Get(key); ok && p.key.validator != "" {
			return f.value, f.err // a probe ended between our look and our asking
		}
		value, err := probe(p, ask)
		if lasts(err) && p.key.validator != "" {
			known.Add(key, found[V]{value, err})
		}
		return value, err
	})
	select {
	case result := <-answer:
		p.input.Close()
		value, _ := result.Val.(V)
		return value, probeFailed(result.Err)
	case <-ctx.Done():
		go func() {
			<-answer
			p.input.Close()
		}()
		var none V
		return none, context.Cause(ctx)
	}
}

// lasts reports whether a probe's outcome is the source's own, and would be the same again.
func lasts(err error) bool {
	if err == nil {
		return true
	}
	failure, ok := errors.AsType[*ffmpeg.Error](err)
	return ok && (failure.Class == ffmpeg.Undecodable || failure.Class == ffmpeg.NoSound || failure.Class == ffmpeg.VideoSource)
}

// probe runs one probe in a folder of its own, if the pool has room.
func probe[V any](p *prober, ask func(context.Context, ffmpeg.Run, ffmpeg.Source) (V, error)) (none V, err error) {
	defer func() { measured.probed(err) }()
	if !p.pool.enter() {
		return none, errProbesBusy
	}
	defer p.pool.leave()
	dir, err := os.MkdirTemp("", "audio_proxy-probe-")
	if err != nil {
		return none, fmt.Errorf("making a folder for a probe: %w", err)
	}
	defer os.RemoveAll(dir)
	run, src, err := p.tools.On(ffmpeg.Input{File: p.input.File, Ext: p.input.Ext}, dir)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.timeout, errProbeTimeout)
	defer cancel()
	value, err := ask(ctx, run, src)
	if err == nil {
		err = p.input.Unchanged()
	}
	return value, err
}

func (p *probes) setLimit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = n
}

func (p *probes) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running >= p.limit {
		return false
	}
	p.running++
	return true
}

func (p *probes) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}
