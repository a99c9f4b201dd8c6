package ffmpeg

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Facts are what ffprobe says about a source. Zero values mean unknown. They describe the container's claims:
// of the length, only what Exact says can be relied on.
type Facts struct {
	Container  string // ffprobe's name, or names, for the format
	Codec      string
	SampleRate int // Hz
	Channels   int
	BitDepth   int               // of the samples as they are stored; 0 for lossy codecs
	Float      bool              // the samples are stored as floating point
	StoredBits int               // what the stream says of its samples' bits, whatever the codec
	Duration   float64           // seconds, as claimed
	Frames     int64             // as claimed
	Exact      bool              // Frames is true: the samples are stored plainly and the file is long enough for them
	BitRate    int64             // bit/s, of the whole file
	Size       int64             // bytes
	Tags       map[string]string // lower-case keys; at most 32 of at most 512 bytes, since facts are kept in memory

	// ClipFrames is how many frames are left after the trim, counted or exact; 0 when that is not known.
	ClipFrames int64
}

// probeOutputLimit bounds ffprobe's answer. Tags make up most of it: lyrics and comments of some kilobytes are
// common, whole books are not.
const probeOutputLimit = 8 << 20

// ProbeArgs is ffprobe's argument list for the facts about input, an ffmpeg URL that may be read through the
// protocols given.
func ProbeArgs(protocols, input string) []string {
	args := []string{"-hide_banner", "-loglevel", "level+error", "-of", "json=c=1", "-show_entries",
		"format=format_name,duration,size,bit_rate:format_tags" +
			":stream=codec_type,codec_name,sample_fmt,sample_rate,channels,bits_per_sample,bits_per_raw_sample,duration,bit_rate" +
			":stream_tags:stream_disposition=attached_pic"}
	args = append(args, inputOptions(FFprobe, protocols)...)
	return append(args, "-i", input)
}

// probed is ffprobe's JSON. Numbers come as strings mostly, and as "N/A" or not at all when unknown.
type probed struct {
	Format  probedFormat
	Streams []probedStream
}

type probedFormat struct {
	Name     string            `json:"format_name"`
	Duration number            `json:"duration"`
	Size     number            `json:"size"`
	BitRate  number            `json:"bit_rate"`
	Tags     map[string]string `json:"tags"`
}

type probedStream struct {
	Type         string            `json:"codec_type"`
	Codec        string            `json:"codec_name"`
	SampleFormat string            `json:"sample_fmt"`
	SampleRate   number            `json:"sample_rate"`
	Channels     number            `json:"channels"`
	Bits         number            `json:"bits_per_sample"`
	RawBits      number            `json:"bits_per_raw_sample"`
	Duration     number            `json:"duration"`
	BitRate      number            `json:"bit_rate"`
	Tags         map[string]string `json:"tags"`
	Disposition  struct {
		AttachedPicture int `json:"attached_pic"`
	} `json:"disposition"`
}

// number is a JSON number, or a string that holds one; anything else is 0.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err == nil && v > 0 && !math.IsInf(v, 0) {
		*n = number(v)
	}
	return nil
}

// ParseFacts reads ffprobe's answer. A source without audio, or with real video, is an *Error of that class.
func ParseFacts(answer []byte) (Facts, error) {
	var p probed
	if err := json.Unmarshal(answer, &p); err != nil {
		return Facts{}, &Error{Class: Failed, Err: fmt.Errorf("reading ffprobe's answer: %w", err)}
	}
	isAudio := func(s probedStream) bool { return s.Type == "audio" }
	isVideo := func(s probedStream) bool { return s.Type == "video" && s.Disposition.AttachedPicture == 0 }
	if slices.ContainsFunc(p.Streams, isVideo) {
		return Facts{}, &Error{Class: VideoSource}
	}
	i := slices.IndexFunc(p.Streams, isAudio)
	if i < 0 {
		return Facts{}, &Error{Class: NoSound}
	}
	return factsOf(p.Format, p.Streams[i]), nil
}

func factsOf(format probedFormat, stream probedStream) Facts {
	f := Facts{
		Container:  format.Name,
		Codec:      stream.Codec,
		SampleRate: int(stream.SampleRate),
		Channels:   int(stream.Channels),
		StoredBits: int(firstOf(stream.RawBits, stream.Bits)),
		Duration:   float64(firstOf(format.Duration, stream.Duration)),
		BitRate:    int64(firstOf(format.BitRate, stream.BitRate)),
		Size:       int64(format.Size),
	}
	if lossless(stream.Codec) {
		f.BitDepth = f.StoredBits
		f.Float = strings.HasPrefix(stream.Codec, "pcm_f") || strings.HasPrefix(stream.SampleFormat, "flt")
	}
	f.Frames = int64(math.Round(float64(firstOf(stream.Duration, format.Duration)) * float64(f.SampleRate)))
	f.Exact = exact(f, int64(stream.Bits))
	tags := format.Tags
	if f.Container == "ogg" { // which keeps a song's tags with its stream; either may have none
		tags = map[string]string{}
		maps.Copy(tags, stream.Tags)
		maps.Copy(tags, format.Tags)
	}
	f.Tags = infoTags(tags)
	return f
}

// dubious says that ffprobe took the source for what its name or a few bytes of it say, and found nothing that it
// could play.
func (f Facts) dubious() bool {
	return f.SampleRate == 0 || f.Channels == 0 || f.Duration == 0 && slices.Contains(bareStreams, f.Container)
}

// bareStreams are frames of a codec without a container around them, which ffmpeg believes a name of.
var bareStreams = []string{"aac", "ac3", "amr", "amrnb", "amrwb", "dts", "eac3", "flac", "gsm", "loas", "mlp", "mp3", "shn", "truehd"}

func firstOf(values ...number) number {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

// lossless says whether a codec keeps samples of a certain depth. The companded ones (mu-law, A-law) are spread
// over more than the bits they store.
func lossless(codec string) bool {
	if codec == "pcm_mulaw" || codec == "pcm_alaw" || codec == "pcm_vidc" {
		return false
	}
	return strings.HasPrefix(codec, "pcm_") || slices.Contains(
		[]string{"flac", "alac", "wavpack", "tta", "ape", "tak", "shorten", "mlp", "truehd", "mp4als"}, codec)
}

// exact is the rule of trust: a claimed length is believed only of plain samples, and only when the file has
// room for them. Compressed streams can be counted by nothing but decoding them.
func exact(f Facts, bits int64) bool {
	if !strings.HasPrefix(f.Codec, "pcm_") || f.Frames <= 0 || bits <= 0 {
		return false
	}
	return f.Frames <= f.Size*8/bits/int64(max(f.Channels, 1))
}

// Clip is how many frames of the source are left after a trim (nil: all), when that can be told without
// decoding. It may be 0.
func (f Facts) Clip(trim *urlapi.Trim) (frames int64, known bool) {
	if !f.Exact {
		return 0, false
	}
	return f.claimedClip(trim), true
}

// claimedClip is Clip by the container's claim, true or not.
func (f Facts) claimedClip(trim *urlapi.Trim) int64 {
	if trim == nil {
		return f.Frames
	}
	left := max(0, f.Frames-f.framesIn(trim.Start))
	if trim.Duration != 0 {
		left = min(left, f.framesIn(trim.Duration))
	}
	return left
}

// framesIn is the number of frames in a time, rounded as ffmpeg's atrim rounds.
func (f Facts) framesIn(t urlapi.Milli) int64 {
	return (int64(t)*int64(f.SampleRate) + 500) / 1000
}
