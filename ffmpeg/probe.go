package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Program is one of ffmpeg's programs.
type Program string

const (
	FFmpeg  Program = "ffmpeg"
	FFprobe Program = "ffprobe"
)

// Run runs a program and returns once it is gone: with the end of its stderr, and with the cause of ctx where
// that ended it, else its exit error. Whoever hands one in decides what the source's name ("file:in.wav") leads
// to.
type Run func(ctx context.Context, program Program, args []string, stdout io.Writer) (stderr []byte, err error)

// Source is an input as ffmpeg is told it.
type Source struct {
	URL, Protocols string // Protocols are those it may be read through

	// copyDecodes says whether a second of a copy of the file decodes; nil where there is no file. The error is that of
	// reading the file.
	copyDecodes func(context.Context) (bool, error)

	file    *io.SectionReader             // the source itself, where it is ours to read
	verdict func(context.Context) Verdict // what ffmpeg reports of it; nil where there is no file
	relay   Run                           // runs a program that reads relayURL, which we fill from the file; nil where there is no file
}

// pixelWords is what ffprobe says of a picture that is larger than it may decode. A cover it then leaves out; over a
// video it gives up, whose size says nothing about what it is.
const pixelWords = "exceeds specified max pixel count"

// Probe asks ffprobe for the facts about a source. A failure is an *Error, and so is a source that is no audio.
func Probe(ctx context.Context, run Run, source Source) (Facts, error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer := bounded{limit: probeOutputLimit, exceeded: func() { cancel(errFlood) }}
	stderr, err := run(reading, FFprobe, ProbeArgs(source.Protocols, source.URL), &answer)
	if err == nil && answer.full {
		err = errFlood
	}
	if err != nil && source.verdict != nil && bytes.Contains(stderr, []byte(pixelWords)) && source.verdict(ctx) == Video {
		return Facts{}, &Error{Class: VideoSource, Tail: Tail(stderr), Err: err}
	}
	if err != nil {
		return Facts{}, judge(ctx, run, source, Classify(err, stderr, Unreadable))
	}
	facts, err := ParseFacts(answer.content)
	if failure, ok := errors.AsType[*Error](err); ok {
		return Facts{}, confirm(ctx, source, failure)
	}
	if err != nil {
		return Facts{}, err
	}
	if class := brokenOff(stderr); class != "" {
		return Facts{}, &Error{Class: class, Tail: Tail(stderr)}
	}
	if err := source.probedWhole(facts); err != nil {
		return Facts{}, err
	}
	if facts.dubious() {
		if found := judge(ctx, run, source, &Error{Class: Failed, Tail: Tail(stderr), doubtful: true}); found.Class != Failed {
			return Facts{}, found
		} // else it decodes, and is only not described
	}
	return facts, nil
}

// CountFrames decodes a trimmed source (trim nil: all of it) and counts its frames, at the source's sample
// rate. It is what remains where a container's claim cannot be trusted.
func CountFrames(ctx context.Context, run Run, source Source, trim *urlapi.Trim) (int64, error) {
	var frames counter
	stderr, err := run(ctx, FFmpeg, countArgs(source, trim), &frames)
	if err := decodingError(ctx, run, source, stderr, err); err != nil {
		return 0, err
	}
	return int64(frames), nil
}

// decodingError says whether a run of ffmpeg that ended with err has decoded the source to its end.
func decodingError(ctx context.Context, run Run, source Source, stderr []byte, err error) error {
	if err == nil {
		if class := brokenOff(stderr); class != "" {
			return &Error{Class: class, Tail: Tail(stderr)}
		}
		return nil
	}
	var report Report
	report.Write(stderr)
	report.End()
	return judge(ctx, run, source, Classify(err, stderr, report.Verdict()))
}

// countArgs writes one byte for each frame.
func countArgs(source Source, trim *urlapi.Trim) []string {
	seek, filters := trimming(trim)
	job := Job{Seek: seek, Graph: graph(append(filters, "pan=mono|c0=c0", "aformat=sample_fmts=u8"))}
	plan := Plan{Job: job, Protocols: source.Protocols, Shape: Shape{
		Encoder: []string{"-c:a", "pcm_u8"}, Muxer: []string{"-f", "u8"},
	}}
	return plan.Args(source.URL, "pipe:1", "")
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// bounded keeps up to limit bytes and drops the rest.
type bounded struct {
	content []byte
	limit   int
	full    bool

	exceeded func() // called when the first byte is dropped; may be nil
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.limit - len(b.content)
	if len(p) > room && !b.full {
		b.full = true
		if b.exceeded != nil {
			b.exceeded()
		}
	}
	b.content = append(b.content, p[:min(len(p), room)]...)
	return len(p), nil
}
