package ffmpeg

import (
	"fmt"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// A value that only this source makes impossible is brought to the nearest that the encoder takes, for every extreme
// that a URL may have (field case F06).
func TestSourceDependentValuesAreClamped(t *testing.T) {
	t.Parallel()
	telephone := makeAudio(t, "ulaw.wav", "sine=r=8000:d=1", "-c:a", "pcm_mulaw")
	for _, opts := range []urlapi.Options{
		{Format: urlapi.Ogg, BitRate: 128},
		{Format: urlapi.Ogg, BitRate: 500},
		{Format: urlapi.Ogg, BitRate: 8, Channels: 1},
		{Format: urlapi.Ogg, BitRate: 45, SampleRate: 48000},
		{Format: urlapi.Opus, BitRate: 512},
		{Format: urlapi.MP3, BitRate: 1},
		{Format: urlapi.MP3, BitRate: 10_000}, // LAME has the nearest, and there is no nearest to know beforehand
		{Format: urlapi.AAC, BitRate: 320},
		{Format: urlapi.M4A, BitRate: 576},
	} {
		t.Run(fmt.Sprintf("%s br %d sr %d ch %d", opts.Format, opts.BitRate, opts.SampleRate, opts.Channels), func(t *testing.T) {
			var facts Facts
			if Needs(opts).Facts {
				var err error
				if facts, err = Probe(t.Context(), runReal, Source{URL: "file:" + telephone, Protocols: "file"}); err != nil {
					t.Fatal(err)
				}
			}
			o := mustRender(t, telephone, opts, facts)
			if n := frames(t, o.final); n < 7000 {
				t.Errorf("%d frames, want a second", n)
			}
		})
	}
}
