package ffmpeg

import "github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"

// Unsupported is the answer to options that no source can make renderable. Option is the key in the URL.
type Unsupported struct{ Option, Reason string }

func (e *Unsupported) Error() string { return e.Option + ": " + e.Reason }

// What an encoder can do is urlapi's to say, which refuses a URL that asks for more. Here is what becomes of the rest:
// what the URL leaves to the source, and what only this source makes impossible. It is brought to the nearest that
// the encoder takes.

// vorbisRates are those that a source's is brought to for Vorbis, whose encoder takes any: none above the 48000 that
// lossy formats have at most.
var vorbisRates = []int{8000, 11025, 12000, 16000, 22050, 24000, 32000, 37800, 44100, 48000}

// sampleRates are the rates that a variant may have where the URL does not say, ascending; nil is any.
func sampleRates(format urlapi.Format) []int {
	if format == urlapi.Ogg {
		return vorbisRates
	}
	return urlapi.SampleRates(format)
}

// bitRate is the bit rate to ask for: the URL's or the default, brought into what the encoder takes from this
// source.
func bitRate(opts urlapi.Options, facts Facts) int {
	rate := opts.BitRate
	if rate == 0 {
		rate = defaultBitRate[opts.Format]
	}
	low, high := urlapi.BitRates(opts.Format, outputRate(opts, facts), outputChannels(opts, facts))
	return min(max(rate, low), high)
}

// outputRate is the variant's sample rate, 0 when it cannot be known.
func outputRate(opts urlapi.Options, facts Facts) int {
	if opts.SampleRate != 0 {
		return opts.SampleRate
	}
	if rates := sampleRates(opts.Format); rates != nil && facts.SampleRate != 0 {
		return nearest(rates, facts.SampleRate)
	}
	return facts.SampleRate
}

func nearest(rates []int, rate int) int {
	best := rates[0]
	for _, r := range rates {
		if abs(r-rate) < abs(best-rate) {
			best = r
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// outputChannels is the variant's channel count, 0 when it cannot be known.
func outputChannels(opts urlapi.Options, facts Facts) int {
	switch {
	case opts.Channels != 0:
		return opts.Channels
	case opts.Format == urlapi.Peaks:
		return 1
	}
	return min(facts.Channels, 2)
}
