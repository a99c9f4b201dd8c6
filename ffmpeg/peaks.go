package ffmpeg

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"strconv"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Waveform is a picture of audio in the terms of audiowaveform's formats, version 2.
type Waveform struct {
	Channels        int
	SampleRate      int // Hz
	SamplesPerPixel int
	Data            []int16 // per pixel, per channel: min, max
}

// Peaks draws the waveform that opts ask for. How many frames a pixel covers must be known before the first
// sample comes; the container's claim is a guess at it. Where the decoded length shows that the guess was
// wrong, the source is decoded once more, with the length that is now known. A source, or a trim, without a
// single frame is an *Error of class NoSound.
func Peaks(ctx context.Context, run Run, source Source, opts urlapi.Options, facts Facts) (Waveform, error) {
	frames := facts.claimedClip(opts.Trim)
	if facts.ClipFrames > 0 {
		frames = facts.ClipFrames
	}
	for {
		reducer := NewReducer(outputChannels(opts, facts), opts.Points, perPixel(frames, opts.Points))
		if err := decode(ctx, run, source, opts, facts, reducer); err != nil {
			return Waveform{}, err
		}
		counted := reducer.Frames()
		if counted == 0 {
			return Waveform{}, &Error{Class: NoSound}
		}
		// The same source decodes to the same length, so this ends with the second round; one that changes
		// meanwhile is caught by whoever opened it.
		if perPixel(counted, opts.Points) == reducer.perPixel || frames == counted {
			return Waveform{reducer.channels, facts.SampleRate, reducer.perPixel, reducer.Pixels()}, nil
		}
		frames = counted
	}
}

// decode runs the plan of a peaks variant and feeds the samples to w.
func decode(ctx context.Context, run Run, source Source, opts urlapi.Options, facts Facts, w io.Writer) error {
	plan, err := NewPlan(opts, facts)
	if err != nil {
		return err
	}
	plan.Protocols = source.Protocols
	stderr, err := run(ctx, FFmpeg, plan.Args(source.URL, "pipe:1", ""), w)
	return decodingError(ctx, run, source, stderr, err)
}

// Write writes the waveform in a format of the URL's: "json" or "dat".
func (f Waveform) Write(w io.Writer, format string) error {
	b := bufio.NewWriter(w)
	if format == "dat" {
		f.writeDat(b)
	} else {
		f.writeJSON(b)
	}
	return b.Flush()
}

// length is how many pixels there are.
func (f Waveform) length() int { return len(f.Data) / 2 / f.Channels }

// The version of the formats, and the size of their numbers.
const (
	waveformVersion = 2
	waveformBits    = 16
)

// writeJSON, like writeDat, leaves errors to the buffer's Flush.
func (f Waveform) writeJSON(b *bufio.Writer) {
	field := func(before string, n int) {
		b.WriteString(before)
		b.WriteString(strconv.Itoa(n))
	}
	field(`{"version":`, waveformVersion)
	field(`,"channels":`, f.Channels)
	field(`,"sample_rate":`, f.SampleRate)
	field(`,"samples_per_pixel":`, f.SamplesPerPixel)
	field(`,"bits":`, waveformBits)
	field(`,"length":`, f.length())
	separator := `,"data":[`
	for _, v := range f.Data {
		field(separator, int(v))
		separator = ","
	}
	b.WriteString("]}")
}

func (f Waveform) writeDat(b *bufio.Writer) {
	const flags16Bit = 0
	for _, n := range []int{waveformVersion, flags16Bit, f.SampleRate, f.SamplesPerPixel, f.length(), f.Channels} {
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	for _, v := range f.Data {
		b.Write(binary.LittleEndian.AppendUint16(b.AvailableBuffer(), uint16(v)))
	}
}
