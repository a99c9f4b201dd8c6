package ffmpeg

import (
	"errors"
	"fmt"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// What no source can make renderable is refused before anything starts, naming the option (field case F06).
func TestCheck(t *testing.T) {
	cases := []struct {
		opts    urlapi.Options
		refused string // option, "" = fine
	}{
		{urlapi.Options{Format: urlapi.MP3}, ""},
		{urlapi.Options{Format: urlapi.MP3, BitRate: 320}, ""},
		{urlapi.Options{Format: urlapi.MP3, BitRate: 321}, "br"},
		{urlapi.Options{Format: urlapi.MP3, SampleRate: 22050}, ""},
		{urlapi.Options{Format: urlapi.MP3, SampleRate: 22051}, "sr"},
		{urlapi.Options{Format: urlapi.Opus, BitRate: 512}, ""},
		{urlapi.Options{Format: urlapi.Opus, BitRate: 999}, "br"},
		{urlapi.Options{Format: urlapi.Opus, BitRate: 300, Channels: 1}, "br"},
		{urlapi.Options{Format: urlapi.Opus, SampleRate: 44100}, "sr"},
		{urlapi.Options{Format: urlapi.Ogg, BitRate: 8}, ""},   // of an 8 kHz source
		{urlapi.Options{Format: urlapi.Ogg, BitRate: 500}, ""}, // of a stereo one
		{urlapi.Options{Format: urlapi.Ogg, BitRate: 500, Channels: 1}, "br"},
		{urlapi.Options{Format: urlapi.Ogg, BitRate: 8, SampleRate: 44100}, "br"},
		{urlapi.Options{Format: urlapi.Ogg, BitRate: 501}, "br"},
		{urlapi.Options{Format: urlapi.Ogg, SampleRate: 12345}, ""},
		{urlapi.Options{Format: urlapi.AAC, BitRate: 999}, "br"},
		{urlapi.Options{Format: urlapi.M4A, BitRate: 256, Channels: 1}, ""},
		{urlapi.Options{Format: urlapi.FLAC, SampleRate: 384000}, ""},
		{urlapi.Options{Format: urlapi.FLAC, SampleRate: 383999}, "sr"},
		{urlapi.Options{Format: urlapi.WAV, SampleRate: 383999}, ""},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s br %d sr %d ch %d", c.opts.Format, c.opts.BitRate, c.opts.SampleRate, c.opts.Channels), func(t *testing.T) {
			err := Check(c.opts)
			var refusal *Unsupported
			if errors.As(err, &refusal) != (c.refused != "") || refusal != nil && refusal.Option != c.refused {
				t.Errorf("%v, want a refusal of %q", err, c.refused)
			}
		})
	}
}

// The encoder opens at both ends of the range that we clamp to, in each of libvorbis' modes, and libvorbis
// refuses what lies beyond.
func TestBitRateRangesAreTheEncoders(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 12000, 16000, 24000, 32000, 48000} {
		for channels := 1; channels <= 2; channels++ {
			low, high := vorbisRange(rate, channels)
			for kbit, want := range map[int]bool{low: true, high: true, low - 1: false, high + 1: false} {
				if got := encodes(t, "libvorbis", rate, channels, kbit); got != want {
					t.Errorf("libvorbis, %d Hz, %d channels, %d kbit/s: opens %v, want %v", rate, channels, kbit, got, want)
				}
			}
		}
	}
	for kbit, want := range map[int]bool{1: true, 256: true, 257: false} {
		if got := encodes(t, "libopus", 48000, 1, kbit); got != want {
			t.Errorf("libopus, mono, %d kbit/s: opens %v, want %v", kbit, got, want)
		}
	}
	for _, rate := range []int{8000, 48000} {
		for _, kbit := range []int{1, 320} {
			if !encodes(t, "libmp3lame", rate, 2, kbit) {
				t.Errorf("libmp3lame, %d Hz, %d kbit/s: does not open", rate, kbit)
			}
		}
		for _, kbit := range []int{1, aacMax(rate, 1)} {
			if !encodes(t, "aac", rate, 1, kbit) {
				t.Errorf("aac, %d Hz, %d kbit/s: does not open", rate, kbit)
			}
		}
	}
}

func encodes(t *testing.T, encoder string, rate, channels, kbit int) bool {
	t.Helper()
	layout := []string{"mono", "stereo"}[channels-1]
	_, _, err := runTool(t, "", "ffmpeg", "-v", "quiet", "-nostdin", "-f", "lavfi",
		"-i", fmt.Sprintf("anullsrc=r=%d:cl=%s", rate, layout), "-t", "0.02", "-c:a", encoder, "-b:a", kbits(kbit), "-f", "null", "-")
	return err == nil
}

// A value that only this source makes impossible is brought to the nearest that the encoder takes.
func TestSourceDependentValuesAreClamped(t *testing.T) {
	t.Parallel()
	telephone := makeAudio(t, "ulaw.wav", "sine=r=8000:d=1", "-c:a", "pcm_mulaw")
	for _, opts := range []urlapi.Options{
		{Format: urlapi.Ogg, BitRate: 128},
		{Format: urlapi.Ogg, BitRate: 500},
		{Format: urlapi.Opus, BitRate: 512},
		{Format: urlapi.MP3, BitRate: 320},
		{Format: urlapi.AAC, BitRate: 320},
		{Format: urlapi.M4A, BitRate: 576},
	} {
		t.Run(fmt.Sprintf("%s %d", opts.Format, opts.BitRate), func(t *testing.T) {
			var facts Facts
			if Needs(opts).Facts {
				var err error
				if facts, err = Probe(t.Context(), runReal, Source{"file:" + telephone, "file"}); err != nil {
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
