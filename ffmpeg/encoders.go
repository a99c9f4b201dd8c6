package ffmpeg

import (
	"math"
	"strconv"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// defaultBitRate is what a lossy format gets when the URL says neither br nor q, in kbit/s: transparent enough
// for listening, small enough for the web. Vorbis has a quality instead (see defaultVorbisQuality).
// Opus is left to ffmpeg's default for libopus, which follows the channels: 64 for mono, 96 for stereo.
var defaultBitRate = map[urlapi.Format]int{urlapi.MP3: 128, urlapi.AAC: 128, urlapi.M4A: 128}

// defaultVorbisQuality is about 128 kbit/s for 44.1 kHz stereo. A quality works at every rate and channel
// count, where libvorbis refuses bit rates outside a range that depends on both.
const defaultVorbisQuality = "4"

// oggPageMicros is how much audio an Ogg page holds at most. The muxer's own default is one second, and the
// first byte of a stream from a slow source would wait for it; a fifth costs about 1 % in size.
const oggPageMicros = "200000"

// newShape is the encoder and the muxer of a format.
func newShape(opts urlapi.Options, facts Facts) (Shape, error) {
	switch opts.Format {
	case urlapi.MP3:
		return shape(rated(opts, facts, "libmp3lame"), "-f", "mp3"), nil
	case urlapi.Opus:
		return shape(opus(opts, facts), "-page_duration", oggPageMicros, "-f", "opus"), nil
	case urlapi.Ogg:
		return shape(vorbis(opts, facts), "-page_duration", oggPageMicros, "-f", "ogg"), nil
	case urlapi.AAC:
		return shape(rated(opts, facts, "aac"), "-f", "adts"), nil
	case urlapi.M4A:
		s := shape(rated(opts, facts, "aac"), "-f", "tee")
		s.Encoder = append(s.Encoder, "-flags", "+global_header+bitexact")
		s.Tee = true
		return s, nil
	case urlapi.FLAC:
		return shape(flac(opts), "-f", "flac"), nil
	case urlapi.WAV:
		return shape([]string{"-c:a", wavCodec[depthOf(opts, facts)]}, "-f", "wav"), nil
	case urlapi.Peaks:
		return shape([]string{"-c:a", "pcm_s16le"}, "-f", "s16le"), nil
	}
	return Shape{}, &Unsupported{Option: "f", Reason: "no encoder for format " + string(opts.Format)}
}

// shape completes a shape with what all have: the same input gives the same bytes (Ogg serial numbers would be
// random otherwise), and each packet goes to the file as soon as it is there.
func shape(encoder []string, muxer ...string) Shape {
	return Shape{Encoder: encoder, Muxer: append([]string{"-bitexact", "-flush_packets", "1"}, muxer...)}
}

// rated is an encoder with a bit rate or a quality of its own scale.
func rated(opts urlapi.Options, facts Facts, name string) []string {
	if opts.Quality != nil {
		return []string{"-c:a", name, "-q:a", decimal(*opts.Quality)}
	}
	return []string{"-c:a", name, "-b:a", kbits(bitRate(opts, facts))}
}

// opus takes its quality as the effort spent, from 0 to 10, at the default bit rate.
func opus(opts urlapi.Options, facts Facts) []string {
	args := []string{"-c:a", "libopus"}
	if opts.BitRate != 0 {
		args = append(args, "-b:a", kbits(bitRate(opts, facts)))
	}
	if opts.Quality != nil {
		args = append(args, "-compression_level", whole(*opts.Quality))
	}
	return args
}

func vorbis(opts urlapi.Options, facts Facts) []string {
	switch {
	case opts.Quality != nil:
		return []string{"-c:a", "libvorbis", "-q:a", decimal(*opts.Quality)}
	case opts.BitRate != 0:
		return []string{"-c:a", "libvorbis", "-b:a", kbits(bitRate(opts, facts))}
	}
	return []string{"-c:a", "libvorbis", "-q:a", defaultVorbisQuality}
}

func flac(opts urlapi.Options) []string {
	level := "5" // flac's own default
	if opts.Quality != nil {
		level = whole(*opts.Quality)
	}
	return []string{"-c:a", "flac", "-compression_level", level}
}

// wavCodec and sampleFormat say for a depth what a WAV holds, and what the filter graph hands to the encoder.
var (
	wavCodec     = map[string]string{"16": "pcm_s16le", "24": "pcm_s24le", "32": "pcm_s32le", "32f": "pcm_f32le"}
	sampleFormat = map[string]string{"16": "s16", "24": "s32", "32": "s32", "32f": "flt"}
)

// depthOf is the bit depth of a lossless variant: what the URL says, else the source's own as far as the
// format goes (FLAC ends at 24 bits). Sources whose samples have no depth of their own, all lossy ones, get 16.
// "32" is for sources of 32-bit integers only: a URL cannot ask for it.
func depthOf(opts urlapi.Options, facts Facts) string {
	switch {
	case opts.BitDepth != "":
		return opts.BitDepth
	case opts.Format == urlapi.FLAC && (facts.Float || facts.BitDepth > 16):
		return "24"
	case facts.Float:
		return "32f"
	case facts.BitDepth > 24:
		return "32"
	case facts.BitDepth > 16:
		return "24"
	}
	return "16"
}

func kbits(n int) string { return strconv.Itoa(n) + "k" }

// decimal writes thousandths as ffmpeg reads numbers: shortest form, no exponent.
func decimal(m urlapi.Milli) string {
	return strconv.FormatFloat(float64(m)/1000, 'f', -1, 64)
}

// whole rounds to the nearest integer, for scales that have no fractions.
func whole(m urlapi.Milli) string {
	return strconv.Itoa(int(math.Round(float64(m) / 1000)))
}
