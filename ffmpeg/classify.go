package ffmpeg

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Class is why a run of ffmpeg or ffprobe gave no result.
type Class string

const (
	NotFound    Class = "notfound"    // the source was not there when it was opened
	Undecodable Class = "undecodable" // the source is not audio that can be read
	NoSound     Class = "noaudio"     // it was read, and there was no audio in it (or in what the trim left)
	VideoSource Class = "video"       // it holds real video
	Timeout     Class = "timeout"     // it took longer than it may
	Cancelled   Class = "cancelled"   // nobody wants the result any more
	NoSpace     Class = "nospace"     // the disk is full
	TooLarge    Class = "toolarge"    // the result is larger than it may be
	Unavailable Class = "unavailable" // the machine or the medium would not let it be read
	Exhausted   Class = "exhausted"   // processes, threads or descriptors ran out
	Failed      Class = "failed"      // anything else: a crash, a missing encoder
)

// ErrTooLarge is the cause to cancel a run with whose output outgrows its limit.
var ErrTooLarge = errors.New("the output is larger than allowed")

// Error is a run that gave no result. It is for the log as it stands; clients get the class in other words.
type Error struct {
	Class Class
	Tail  string // the end of stderr, fit for a log: at most 4 KiB, one line, no control characters
	Err   error  // how the process ended, if it is known
}

func (e *Error) Error() string {
	text := "ffmpeg: " + string(e.Class)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Tail != "" {
		text += ": " + e.Tail
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Classify says why a run gave no result. Err is what ended it: the cause of its context where that ended it,
// else the exit error, or nil when it exited well and yet gave nothing. Stderr is the end of what it wrote,
// verdict what its report said.
func Classify(err error, stderr []byte, verdict Verdict) *Error {
	return &Error{Class: classOf(err, stderr, verdict), Tail: Tail(stderr), Err: err}
}

func classOf(err error, stderr []byte, verdict Verdict) Class {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known.Class
	case errors.Is(err, ErrTooLarge):
		return TooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	case verdict == Video:
		return VideoSource
	case verdict == NoAudio || err == nil:
		return NoSound
	}
	return classOfText(string(stderr), verdict)
}

// errorLine is a line of ffmpeg's at level error or worse, under "-loglevel level+...". Everything else may
// hold a tag's words.
var errorLine = regexp.MustCompile(`(?m)^(?:\[[^\]\n]*\] )?\[(?:error|fatal|panic)\] (.*)$`)

// classesByText are the messages that tell a class, in the order in which they are believed: what is wrong with
// us before what is wrong with the source.
var classesByText = []struct {
	class Class
	words []string
}{
	{NoSpace, []string{"No space left on device", "Disk quota exceeded"}},
	{TooLarge, []string{"File too large"}},
	{Failed, []string{"Unknown encoder", "Encoder not found", "No such filter", "Cannot allocate memory", "Unrecognized option"}},
	{NotFound, []string{"No such file or directory", "Server returned 404", "HTTP error 404"}},
	{NoSound, []string{"matches no streams", "does not contain any stream"}},
	{Undecodable, []string{
		"Decoding requested, but no decoder found", "Decoder (codec", "Error while opening decoder",
		"Could not find codec parameters",
	}},
}

// classOfText reads the class off ffmpeg's own words. ffmpeg that complains and never got as far as reporting a
// source did not understand it, whatever it says: the wording changes with every version.
func classOfText(stderr string, verdict Verdict) Class {
	var complaints strings.Builder
	for _, m := range errorLine.FindAllStringSubmatch(stderr, -1) {
		complaints.WriteString(m[1])
		complaints.WriteByte('\n')
	}
	text := complaints.String()
	for _, c := range classesByText {
		for _, word := range c.words {
			if strings.Contains(text, word) {
				return c.class
			}
		}
	}
	if verdict == Unreadable && text != "" {
		return Undecodable
	}
	return Failed
}

// tailLimit bounds what is kept of stderr for the log, in bytes.
const tailLimit = 4096

// Tail makes the end of stderr fit for a log: at most 4 KiB, valid UTF-8 on one line, and without control or
// format characters, which could redraw a terminal or turn the direction of its text. Lines are parted by " | ".
func Tail(stderr []byte) string {
	if len(stderr) > tailLimit {
		stderr = stderr[len(stderr)-tailLimit:]
		for len(stderr) > 0 && !utf8.RuneStart(stderr[0]) {
			stderr = stderr[1:]
		}
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(stderr), "?"), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				return -1
			}
			return r
		}, line)
	}
	return cutBytes(strings.Join(lines, " | "), tailLimit)
}
