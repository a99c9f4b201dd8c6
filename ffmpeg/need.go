package ffmpeg

import "github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"

// Need says what must be known about the source before a render can be planned.
type Need struct {
	Facts  bool // ffprobe's facts
	Length bool // how many frames the trimmed source really has
}

// Needs says what NewPlan needs to know for opts. Most renders need nothing: ffmpeg negotiates with the source
// itself.
func Needs(opts urlapi.Options) Need {
	return Need{Facts: needsFacts(opts), Length: opts.Fade != nil && opts.Fade.Out > 0}
}

func needsFacts(opts urlapi.Options) bool {
	switch {
	case opts.Fade != nil && opts.Fade.Out > 0:
		return true // the clip's end is counted in frames of the source
	case opts.Loudness != nil && opts.SampleRate == 0:
		return true // loudnorm leaves 192 kHz behind
	case opts.Format == urlapi.FLAC || opts.Format == urlapi.WAV:
		return opts.BitDepth == ""
	case opts.Format == urlapi.Peaks:
		return true
	case opts.Format == urlapi.Ogg:
		return opts.BitRate != 0 && (opts.SampleRate == 0 || opts.Channels == 0)
	case opts.Format == urlapi.Opus:
		return opts.BitRate > 256 && opts.Channels == 0
	}
	return false
}
