package urlapi

import (
	"slices"
	"strconv"
)

// What the encoders behind the formats can do, as far as a URL can ask for it. The figures are those of the encoders'
// own tables; each was confirmed by running ffmpeg 5.1.9 (libopus 1.3.1, libvorbis 1.3.7, LAME 3.100) on both sides of
// it, and TestLimitsAreTheEncoders does so again.

// opusKbitsPerChannel is where ffmpeg's libopus wrapper refuses to open. Its lower bound, 500 bit/s, is below what br
// can say.
const opusKbitsPerChannel = 256

// aacBitsPerSample is 6144 bits per frame of 1024 samples and channel (ISO/IEC 14496-3). ffmpeg's encoder does
// not fail above it but silently takes less; a URL that says otherwise is refused all the same.
const aacBitsPerSample = 6

// vorbisBands are libvorbis's tables of bit rates (rate_mapping_* in lib/modes), in kbit/s: the least and the most it
// takes between two sample rates, both inclusive. Where two bands meet, both hold. Outside of them libvorbis encodes by
// quality only.
var vorbisBands = []struct {
	from, to     int // Hz
	mono, stereo bitRates
}{
	{8000, 9000, bitRates{8, 42}, bitRates{12, 84}},
	{9000, 15000, bitRates{12, 50}, bitRates{16, 100}},
	{15000, 19000, bitRates{16, 100}, bitRates{24, 200}},
	{19000, 26000, bitRates{16, 90}, bitRates{30, 180}},
	{26000, 40000, bitRates{30, 190}, bitRates{36, 380}},
	{40000, 50000, bitRates{32, 240}, bitRates{45, 500}},
}

type bitRates struct{ low, high int }

// sampleRates are what the encoders open with, up to the most that the API lets a lossy format have. LAME: those of
// MPEG-1, -2 and -2.5. Opus: RFC 6716, section 2. AAC: the table of ISO/IEC 14496-3. A format that is not here takes
// any that sr can say, but for FLAC.
var sampleRates = map[Format][]int{
	MP3:  {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000},
	Opus: {8000, 12000, 16000, 24000, 48000},
	AAC:  aacSampleRates,
	M4A:  aacSampleRates,
}

var aacSampleRates = []int{
	7350, 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000,
}

// SampleRates returns the sample rates that the format's encoder takes, in ascending order; nil means any, as far as
// AcceptsSampleRate does not say otherwise.
func SampleRates(f Format) []int { return slices.Clone(sampleRates[f]) }

// AcceptsSampleRate tells whether the format's encoder takes this sample rate.
func AcceptsSampleRate(f Format, hz int) bool {
	if f == FLAC {
		return flacCanWrite(hz)
	}
	rates, listed := sampleRates[f]
	return !listed || slices.Contains(rates, hz)
}

// flacCanWrite follows the three ways in which a FLAC frame header writes a rate that has no number of its own: in
// kHz in 8 bits, in Hz in 16, in tens of Hz in 16 (RFC 9639). Those that do have a number are all in tens of Hz. 65535
// would fit, but ffmpeg's encoder refuses it.
func flacCanWrite(hz int) bool { return hz < 65535 || hz%10 == 0 && hz < 655350 }

// BitRates returns the lowest and the highest bit rate, in kbit/s, that the format's encoder takes at a sample rate
// and a number of channels. 0 for either means that it is not known, and the answer is then what is possible at
// any. If both results are 0, the encoder takes no bit rate there; for formats that have no limit (mp3, whose
// encoder goes to the nearest it has) they are those of br.
func BitRates(f Format, hz, channels int) (low, high int) {
	switch f {
	case Opus:
		return 1, opusKbitsPerChannel * orDefault(channels, 2)
	case AAC, M4A:
		return 1, aacBitsPerSample * orDefault(hz, maxLossyRate) * orDefault(channels, 2) / 1000
	case Ogg:
		return vorbisBitRates(hz, channels)
	case MP3:
		return 1, maxBitRate
	}
	return 0, 0
}

func vorbisBitRates(hz, channels int) (low, high int) {
	include := func(r bitRates) {
		low = min(orDefault(low, r.low), r.low)
		high = max(high, r.high)
	}
	for _, band := range vorbisBands {
		if hz != 0 && (hz < band.from || hz > band.to) {
			continue
		}
		if channels != 2 {
			include(band.mono)
		}
		if channels != 1 {
			include(band.stereo)
		}
	}
	return low, high
}

// checkEncoder refuses what the format's encoder cannot do whatever the source is, so that none is started in vain.
// What depends on the source is not refused here: whoever knows the source takes the nearest that can be done.
func checkEncoder(o Options) (key, reason string) {
	if o.SampleRate != 0 && !AcceptsSampleRate(o.Format, o.SampleRate) {
		return "sr", "no sample rate of f:" + string(o.Format)
	}
	if o.BitRate == 0 {
		return "", ""
	}
	low, high := BitRates(o.Format, o.SampleRate, o.Channels)
	switch {
	case high == 0:
		return "br", "f:" + string(o.Format) + " has no bit rates at this sample rate; q can be given"
	case o.BitRate < low || o.BitRate > high:
		return "br", "f:" + string(o.Format) + " " + rangeReason(strconv.Itoa(low), strconv.Itoa(high))
	}
	return "", ""
}
