package audioproxy

import (
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// memory is what the process knows about sources, so that it need not look at them again: facts, for as long as there
// is room, and for a minute that a source cannot be rendered. Everything is known of a source as its validator has it:
// one that is written to is another source. It may be used concurrently.
type memory struct {
	facts    *lru.Cache[sourceKey, ffmpeg.Facts]
	clips    *lru.Cache[clipKey, int64]
	refusals *lru.Cache[question, refused]
}

// sourceKey is a source as it is now.
type sourceKey struct{ scope, source, validator string }

// clipKey is a part of a source, as its length is asked for.
type clipKey struct {
	sourceKey
	trim urlapi.Trim
}

// question is what was asked of a source that could not be answered. A file may have facts and nothing to render.
type question struct {
	sourceKey
	endpoint string // forInfo or forRender
}

// refused is why it cannot, and how long that is believed.
type refused struct {
	err   error
	until time.Time
}

const (
	forInfo   = "info"
	forRender = "render"
)

// Bounds of what is kept: sources of each kind of knowledge. Facts are some hundred bytes, and at most 32 KiB with the
// longest tags that info answers with; the others are smaller than a source's name.
const (
	knownFacts    = 512
	knownClips    = 4096
	knownRefusals = 4096
)

func newMemory() *memory {
	facts, err := lru.New[sourceKey, ffmpeg.Facts](knownFacts)
	if err != nil {
		panic(err) // only for a size below 1
	}
	clips, err := lru.New[clipKey, int64](knownClips)
	if err != nil {
		panic(err)
	}
	refusals, err := lru.New[question, refused](knownRefusals)
	if err != nil {
		panic(err)
	}
	return &memory{facts, clips, refusals}
}

// refusal is why the question cannot be answered, where that is known, or nil.
func (m *memory) refusal(endpoint string, key sourceKey) error {
	r, known := m.refusals.Get(question{key, endpoint})
	if !known || time.Now().After(r.until) {
		return nil
	}
	return r.err
}

// refuse remembers why a question could not be answered, where that is a property of the source: the machine's
// trouble may be over the next time. in is the source as it was opened.
func (m *memory) refuse(ctx context.Context, endpoint string, key sourceKey, in *source.Input, err error) {
	if key.validator != "" && endingOf(err).ofTheSource && in.Unchanged(ctx) == nil {
		if f, ok := errors.AsType[*ffmpeg.Error](err); ok {
			err = &ffmpeg.Error{Class: f.Class} // its last words have been logged, and are long
		}
		m.refusals.Add(question{key, endpoint}, refused{err, time.Now().Add(minute)})
	}
}
