package ffmpeg

import (
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

var audioFormats = []urlapi.Format{urlapi.MP3, urlapi.Opus, urlapi.Ogg, urlapi.AAC, urlapi.M4A, urlapi.FLAC, urlapi.WAV}

// codecFrame is the most that a format's decoded length may be off, in frames at the output rate: one codec
// frame (a Vorbis long block for Ogg; ADTS has no field that could say how much of the first and the last frame
// is audio, so it is off by its encoder's priming of one frame and by the rest of the last).
var codecFrame = map[urlapi.Format]int{
	urlapi.MP3: 1152, urlapi.Opus: 960, urlapi.Ogg: 1024, urlapi.AAC: 2048, urlapi.M4A: 1024,
}

func TestDecodedLength(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "sine.wav", "sine=f=440:r=44100:d=12.345", "-ac", "2")
	facts := Facts{SampleRate: 44100, Channels: 2, BitDepth: 16}
	cases := []struct {
		name    string
		opts    urlapi.Options
		seconds float64
	}{
		{"whole", urlapi.Options{}, 12.345},
		{"trim", urlapi.Options{Trim: &urlapi.Trim{Start: 1234, Duration: 2500}}, 2.5},
		{"late trim", urlapi.Options{Trim: &urlapi.Trim{Start: 11000, Duration: 1000}}, 1},
		{"late open trim", urlapi.Options{Trim: &urlapi.Trim{Start: 11000}}, 1.345},
		{"trim and fade", urlapi.Options{Trim: &urlapi.Trim{Start: 500, Duration: 3000}, Fade: &urlapi.Fade{In: 500, Out: 1000}}, 3},
		{"sample rate", urlapi.Options{SampleRate: 24000}, 12.345},
		{"channels", urlapi.Options{Channels: 1}, 12.345},
	}
	for _, format := range audioFormats {
		for _, c := range cases {
			t.Run(string(format)+" "+c.name, func(t *testing.T) {
				opts := c.opts
				opts.Format = format
				o := mustRender(t, source, opts, facts)
				rate := outputRate(opts, facts)
				if format == urlapi.Opus {
					rate = 48000 // what Opus decodes to, whatever went in
				}
				want := int(c.seconds*float64(rate) + 0.5)
				if got := frames(t, o.final); abs(got-want) > codecFrame[format] {
					t.Errorf("decodes to %d frames, want %d", got, want)
				} else if got != want {
					t.Logf("off by %d", got-want)
				}
				if got := o.report.Verdict(); got != Audio {
					t.Errorf("verdict %v, want audio\n%s", got, o.stderr)
				}
			})
		}
	}
}
