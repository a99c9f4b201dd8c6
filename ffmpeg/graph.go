package ffmpeg

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// A trim that starts early is cut from the decoded audio, which is exact in every container. A later one seeks
// first, to preroll before the start, and cuts the rest the same way: decoding everything before it would
// make the listener wait. Preroll covers what decoders need to settle (MP3's bit reservoir reaches back 9 frames,
// a quarter of a second at most; Opus wants 80 ms).
const (
	seekFrom urlapi.Milli = 10_000
	preroll  urlapi.Milli = 1_000
)

// voiceChain is enhance:voice. A name is pinned to its chain for ever: never change it, add another name.
const voiceChain = "highpass=f=80,afftdn=nr=12:nf=-30,deesser=i=0.4:m=0.5:f=0.5:s=o," +
	"acompressor=threshold=0.125:ratio=3:attack=20:release=250:makeup=2,alimiter=limit=0.977:level=disabled"

// newJob is the part of the plan that is one request's own.
func newJob(opts urlapi.Options, facts Facts) Job {
	seek, trim := trimming(opts.Trim)
	chain := slices.Clone(trim)
	if opts.Enhance == "voice" {
		chain = append(chain, voiceChain)
	}
	if opts.Loudness != nil {
		chain = append(chain, loudness(*opts.Loudness, facts)...)
	}
	if opts.Gain != nil {
		chain = append(chain, "volume="+decimal(*opts.Gain)+"dB")
	}
	chain = append(chain, conversion(opts, facts)...)
	chain = append(chain, fades(opts, facts)...)
	return Job{Seek: seek, Graph: graph(chain)}
}

// graph is a chain of filters from the first audio stream to the label that is mapped.
func graph(chain []string) string { return "[0:a:0]" + strings.Join(chain, ",") + "[o]" }

// trimming cuts the source. What it does depends on the options alone, so that one key always means the same
// bytes.
func trimming(t *urlapi.Trim) (seek, filters []string) {
	if t == nil {
		return nil, nil
	}
	start := t.Start
	if start >= seekFrom {
		seek = []string{"-ss", decimal(start - preroll)}
		start = preroll
	}
	cut := "atrim=start=" + decimal(start)
	if t.Duration != 0 {
		cut += ":duration=" + decimal(t.Duration)
	}
	return seek, []string{cut, "asetpts=PTS-STARTPTS"}
}

// loudness normalizes in one pass.
func loudness(l urlapi.Loudness, facts Facts) []string {
	filters := []string{fmt.Sprintf("loudnorm=I=%s:TP=%s:LRA=%s", decimal(l.Integrated), decimal(l.TruePeak), decimal(l.Range))}
	if facts.SampleRate != 0 {
		// loudnorm leaves 192 kHz behind.
		filters = append(filters, "aresample="+strconv.Itoa(facts.SampleRate))
	}
	return filters
}

// conversion brings the audio into the variant's sample rate, channels and sample format. What the URL leaves
// to the source is left to ffmpeg's negotiation, which takes from a list what is nearest to the source: that
// needs no probe. Folding down is normalized (rematrix_maxval), so that no mix of channels exceeds full scale;
// ffmpeg does so by itself only for integer samples.
func conversion(opts urlapi.Options, facts Facts) []string {
	resample := "aresample=rematrix_maxval=1"
	if opts.SampleRate != 0 {
		resample += ":osr=" + strconv.Itoa(opts.SampleRate)
	}
	format := []string{"channel_layouts=" + layouts(opts)}
	if rates := sampleRates(opts.Format); rates != nil && opts.SampleRate == 0 {
		format = append(format, "sample_rates="+join(rates))
	}
	if opts.Format == urlapi.FLAC || opts.Format == urlapi.WAV {
		format = append(format, "sample_fmts="+sampleFormat[depthOf(opts, facts)])
	}
	if opts.Format == urlapi.Peaks {
		format = append(format, "sample_fmts=s16")
	}
	return []string{resample, "aformat=" + strings.Join(format, ":")}
}

func layouts(opts urlapi.Options) string {
	switch {
	case opts.Channels == 2:
		return "stereo"
	case opts.Channels == 1 || opts.Format == urlapi.Peaks:
		return "mono"
	}
	return "mono|stereo"
}

func join(rates []int) string {
	var b strings.Builder
	for i, r := range rates {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(strconv.Itoa(r))
	}
	return b.String()
}

// fades come last. A fade-out ends where the audio ends: at the trim's end, or at the source's where that comes
// first; it is cut to the clip where it is longer.
func fades(opts urlapi.Options, facts Facts) []string {
	f := opts.Fade
	if f == nil {
		return nil
	}
	var filters []string
	if f.In > 0 {
		filters = append(filters, "afade=t=in:d="+decimal(f.In))
	}
	if f.Out > 0 && opts.Trim != nil {
		clip := clipSeconds(*opts.Trim, facts)
		out := min(float64(f.Out)/1000, clip)
		filters = append(filters, fmt.Sprintf("afade=t=out:st=%s:d=%s", seconds(clip-out), seconds(out)))
	}
	return filters
}

// clipSeconds is how long the trimmed audio really is.
func clipSeconds(t urlapi.Trim, facts Facts) float64 {
	asked := float64(t.Duration) / 1000
	if facts.ClipFrames > 0 && facts.SampleRate > 0 {
		return min(asked, float64(facts.ClipFrames)/float64(facts.SampleRate))
	}
	return asked
}

// seconds writes a time as ffmpeg reads it, to its resolution of a microsecond.
func seconds(t float64) string {
	return strconv.FormatFloat(math.Round(t*1e6)/1e6, 'f', -1, 64)
}
