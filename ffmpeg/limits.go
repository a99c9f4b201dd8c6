package ffmpeg

import (
	"fmt"
	"slices"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Unsupported is the answer to options that no source can make renderable: an encoder's limit, known before
// anything is started. Option is the key in the URL.
type Unsupported struct{ Option, Reason string }

func (e *Unsupported) Error() string { return e.Option + ": " + e.Reason }

// lossyRates are the sample rates an encoder takes, ascending, none above the contract's 48000. A source of
// another rate is resampled to the nearest. (ffmpeg -h encoder=NAME lists them; Vorbis takes any, and has a
// list here for what the URL leaves to the source.)
var lossyRates = map[urlapi.Format][]int{
	urlapi.MP3:  {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000},
	urlapi.Opus: {8000, 12000, 16000, 24000, 48000},
	urlapi.Ogg:  {8000, 11025, 12000, 16000, 22050, 24000, 32000, 37800, 44100, 48000},
	urlapi.AAC:  {7350, 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000},
	urlapi.M4A:  {7350, 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000},
}

// Check says whether any source at all could be rendered with opts; what depends on the source is clamped
// instead. A refusal is an *Unsupported.
func Check(opts urlapi.Options) error {
	if err := checkRate(opts); err != nil {
		return err
	}
	return checkBitRate(opts)
}

func checkRate(opts urlapi.Options) error {
	if opts.SampleRate == 0 {
		return nil
	}
	rates, lossy := lossyRates[opts.Format]
	if lossy && opts.Format != urlapi.Ogg && !slices.Contains(rates, opts.SampleRate) {
		return &Unsupported{"sr", fmt.Sprintf("%s has no sample rate %d; it has %v", opts.Format, opts.SampleRate, rates)}
	}
	if opts.Format == urlapi.FLAC && opts.SampleRate > 65535 && opts.SampleRate%10 != 0 {
		// RFC 9639, 9.1.2: above 16 bits a frame states its rate in tens of Hz.
		return &Unsupported{"sr", fmt.Sprintf("flac states rates above 65535 in tens of Hz; it has no %d", opts.SampleRate)}
	}
	return nil
}

func checkBitRate(opts urlapi.Options) error {
	if opts.BitRate == 0 {
		return nil
	}
	low, high := bitRateRange(opts.Format, opts.SampleRate, opts.Channels)
	if opts.BitRate < low || opts.BitRate > high {
		return &Unsupported{"br", fmt.Sprintf("%s takes %d to %d kbit/s here, not %d", opts.Format, low, high, opts.BitRate)}
	}
	return nil
}

// bitRate is the bit rate to ask for: the URL's or the default, brought into what the encoder takes from this
// source.
func bitRate(opts urlapi.Options, facts Facts) int {
	rate := opts.BitRate
	if rate == 0 {
		rate = defaultBitRate[opts.Format]
	}
	low, high := bitRateRange(opts.Format, outputRate(opts, facts), outputChannels(opts, facts))
	return min(max(rate, low), high)
}

// bitRateRange is what an encoder accepts, in kbit/s. A rate or a channel count of 0 is unknown: the range is
// then that of all it could be.
func bitRateRange(format urlapi.Format, rate, channels int) (low, high int) {
	switch format {
	case urlapi.MP3:
		return 1, 320 // LAME takes the nearest bit rate that MPEG has at the sample rate
	case urlapi.Opus:
		if channels == 1 {
			return 1, 256 // libopus: 256 per channel
		}
		return 1, 512
	case urlapi.AAC, urlapi.M4A:
		return 1, aacMax(rate, channels)
	case urlapi.Ogg:
		return vorbisRange(rate, channels)
	}
	return 1, 10_000
}

// aacMax: a frame of 1024 samples holds at most 6144 bits per channel (ISO/IEC 14496-3, 4.5.3.3).
func aacMax(rate, channels int) int {
	if rate == 0 {
		rate = 48000
	}
	if channels == 0 {
		channels = 2
	}
	return max(1, 6144*rate/1024*channels/1000)
}

// outputRate is the variant's sample rate, 0 when it cannot be known.
func outputRate(opts urlapi.Options, facts Facts) int {
	if opts.SampleRate != 0 {
		return opts.SampleRate
	}
	if rates, lossy := lossyRates[opts.Format]; lossy && facts.SampleRate != 0 {
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
