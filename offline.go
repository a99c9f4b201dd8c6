package audioproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// offline renders without a server, as one would: with a budget, and nothing stored.
type offline struct {
	tools ffmpeg.Tools
	limit int64 // of a source, in bytes; 0 = none

	timeout, probeTimeout time.Duration

	root    *source.Local
	flights *coalesce.Group
	memory  *memory
}

// toolFlags are the flags that name the programs to run.
func (o *offline) toolFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.tools.FFmpeg, "ffmpeg", "ffmpeg", "The ffmpeg to run")
	flags.StringVar(&o.tools.FFprobe, "ffprobe", "ffprobe", "The ffprobe to run")
}

// open finds the programs and opens the folder of sources. Close it.
func (o *offline) open(root string, slots int) (err error) {
	for _, tool := range []*string{&o.tools.FFmpeg, &o.tools.FFprobe} {
		if *tool, err = findProgram(*tool); err != nil {
			return fmt.Errorf("%w (install ffmpeg, or name it with --ffmpeg and --ffprobe)", err)
		}
	}
	if o.root, err = source.OpenLocal(root); err != nil {
		return err
	}
	o.memory = newMemory()
	o.flights = coalesce.NewGroup(admission.New(admission.Limits{Slots: slots, Queue: slots}))
	return nil
}

func (o *offline) close() {
	o.flights.Close()
	o.root.Close()
}

// start starts a render, as a request for it would. The listener is to be closed.
func (o *offline) start(ctx context.Context, options urlapi.Options, src urlapi.Source, class admission.Class) (*coalesce.Listener, error) {
	in, err := o.root.Open(ctx, src.Path)
	if err != nil {
		return nil, err
	}
	if o.limit > 0 && in.Size > o.limit {
		in.Close()
		return nil, errSourceTooLarge(in.Size, o.limit)
	}
	j := &job{
		tools: o.tools, options: options, source: src, input: in, nice: niceness(class), release: func() {},
		prober: prober{memory: o.memory, tools: o.tools, timeout: o.probeTimeout, source: src, input: in, scratch: store.TempStage},
	}
	listener, _ := o.flights.JoinOrStart(offlineID(options, src), class, j, coalesce.Terms{Timeout: o.timeout})
	return listener, nil
}

// offlineID names a variant where there is one tree of sources.
func offlineID(options urlapi.Options, src urlapi.Source) store.ID {
	return store.ID{Scope: strings.Repeat("0", 16), Key: urlapi.CacheKey(options.Canonical(), src.String())}
}

// localSource reads the name of a local source as it is typed: local://album/song.wav, or album/song.wav.
func localSource(name string) (urlapi.Source, error) {
	if !strings.Contains(name, "://") {
		name = urlapi.SchemeLocal + "://" + name
	}
	src, err := urlapi.ParseCanonical(name)
	if err == nil && src.Scheme != urlapi.SchemeLocal {
		err = fmt.Errorf("only local sources can be rendered without a server, not %s://", src.Scheme)
	}
	return src, err
}
