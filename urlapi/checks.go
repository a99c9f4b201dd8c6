package urlapi

// complete fills in the defaults that depend on other options and checks the rules between options. sent has the
// segment of each option that was given, to name the one to blame.
func (o *Options) complete(sent map[string]string) error {
	for _, check := range []func(Options) (key, reason string){
		checkPeaks, checkRate, checkQuality, checkBitDepth, checkSampleRate, checkFade, checkEncoder,
	} {
		if key, reason := check(*o); reason != "" {
			return &OptionError{Segment: sent[key], Reason: reason}
		}
	}
	if o.Format == Peaks {
		o.Channels = orDefault(o.Channels, 1)
		o.Points = orDefault(o.Points, 800)
		o.PeaksFormat = orDefault(o.PeaksFormat, "json")
	}
	return nil
}

func orDefault[T comparable](value, ifUnset T) T {
	var unset T
	if value == unset {
		return ifUnset
	}
	return value
}

// Lossy tells whether the format is encoded with loss, and so has a bit rate to choose.
func (f Format) Lossy() bool {
	switch f {
	case MP3, Opus, Ogg, AAC, M4A:
		return true
	}
	return false
}

// checkPeaks refuses what cannot change the picture, which would only split the cache, and what only a picture has.
func checkPeaks(o Options) (key, reason string) {
	if o.Format != Peaks {
		switch {
		case o.Points != 0:
			return "pts", "only for f:peaks"
		case o.PeaksFormat != "":
			return "pk_fmt", "only for f:peaks"
		}
		return "", ""
	}
	const pointless = "does not apply to f:peaks"
	switch {
	case o.BitRate != 0:
		return "br", pointless
	case o.Quality != nil:
		return "q", pointless
	case o.BitDepth != "":
		return "bd", pointless
	case o.SampleRate != 0:
		return "sr", pointless
	}
	return "", ""
}

func checkRate(o Options) (key, reason string) {
	switch {
	case o.BitRate == 0:
		return "", ""
	case !o.Format.Lossy():
		return "br", "only for lossy formats"
	case o.Quality != nil:
		return "q", "cannot be given together with br"
	}
	return "", ""
}

// qualityRanges are the encoders' own scales, as the API fixes them. A format that is not here has none.
var qualityRanges = map[Format]struct{ low, high Milli }{
	MP3:  {0, 9_000},
	Ogg:  {-1_000, 10_000},
	AAC:  {100, 2_000},
	M4A:  {100, 2_000},
	Opus: {0, 10_000},
	FLAC: {0, 12_000},
}

func checkQuality(o Options) (key, reason string) {
	if o.Quality == nil {
		return "", ""
	}
	scale, ok := qualityRanges[o.Format]
	if !ok {
		return "q", "does not apply to f:" + string(o.Format)
	}
	return "q", within(*o.Quality, scale.low, scale.high)
}

func checkBitDepth(o Options) (key, reason string) {
	switch {
	case o.BitDepth == "":
		return "", ""
	case o.Format != FLAC && o.Format != WAV:
		return "bd", "only for flac and wav"
	case o.BitDepth == "32f" && o.Format != WAV:
		return "bd", "32f is only for wav"
	}
	return "", ""
}

// maxLossyRate is the API's bound, in Hz. It holds for a source with a higher rate too: what is encoded from it with
// loss has no more than this.
const maxLossyRate = 48000

func checkSampleRate(o Options) (key, reason string) {
	if o.Format.Lossy() && o.SampleRate > maxLossyRate {
		return "sr", "above 48000 only for flac and wav"
	}
	return "", ""
}

// checkFade wants to know where the end is: a fade-out is counted back from it.
func checkFade(o Options) (key, reason string) {
	if o.Fade == nil {
		return "", ""
	}
	bounded := o.Trim != nil && o.Trim.Duration != 0
	switch {
	case o.Fade.Out != 0 && !bounded:
		return "fade", "a fade-out needs a trim with a duration"
	case bounded && o.Fade.In+o.Fade.Out > o.Trim.Duration:
		return "fade", "does not fit into the trim"
	}
	return "", ""
}
