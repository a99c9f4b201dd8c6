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
	Unavailable Class = "unavailable" // the machine or the medium would not let the source be read
	Exhausted   Class = "exhausted"   // the machine has no threads, descriptors or processes left
	Failed      Class = "failed"      // anything else: a crash, a missing encoder
)

// ErrTooLarge is the cause to cancel a run with whose output outgrows its limit.
var ErrTooLarge = errors.New("the output is larger than allowed")

// Error is a run that gave no result. It is for the log as it stands; clients get the class in other words.
type Error struct {
	Class Class
	Tail  string // the end of stderr, fit for a log: at most 4 KiB, one line, no control characters
	Err   error  // how the process ended, if it is known

	// doubtful: ffmpeg's words don't tell the class, which is a guess. See judge.
	doubtful bool
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
// else the exit error, or nil when it exited well and yet gave nothing. Stderr is what it wrote, or the end of that;
// verdict what its report said.
func Classify(err error, stderr []byte, verdict Verdict) *Error {
	class, doubtful := classOf(err, stderr, verdict)
	return &Error{Class: class, Tail: Tail(stderr), Err: err, doubtful: doubtful}
}

func classOf(err error, stderr []byte, verdict Verdict) (class Class, doubtful bool) {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Class, known.doubtful
	}
	switch {
	case errors.Is(err, ErrTooLarge) || endedBySize(err):
		return TooLarge, false
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout, false
	case errors.Is(err, context.Canceled):
		return Cancelled, false
	}
	lines := complaints(stderr)
	told := toldBy(lines)
	switch {
	case told != "" && told != NoSound:
		return told, false
	case verdict == Video:
		return VideoSource, false
	case verdict == NoAudio || err == nil || told == NoSound:
		return NoSound, false
	case errors.Is(err, ErrNotRunnable) || killed(err):
		return Failed, false
	case verdict == Unreadable && len(lines) > 0:
		// ffmpeg complains and never got as far as reporting a source: it did not understand it, as it seems.
		return Undecodable, true
	}
	return Failed, true
}

// A complaint is a line of ffmpeg's at level error or worse, under "-loglevel level+...". Everything else may hold
// a tag's words.
type complaint struct {
	context string // who says it: "flac @ 0x55d0", "in#0/wav @ 0x55d0"; "" for ffmpeg itself
	text    string
}

var errorLine = regexp.MustCompile(`(?m)^(?:\[([^\]\n]*)\] )?\[(?:error|fatal|panic)\] (.*)$`)

func complaints(stderr []byte) []complaint {
	var all []complaint
	for _, m := range errorLine.FindAllSubmatch(stderr, -1) {
		all = append(all, complaint{string(m[1]), strings.TrimRight(string(m[2]), "\r ")})
	}
	return all
}

// own says that the line comes from ffmpeg, the program, and not from a demuxer or a decoder, which may quote what
// stands in the source. From version 6 on the program names the part that it speaks of.
func (c complaint) own() bool { return c.context == "" || strings.Contains(c.context, "#") }

// ofOutput says that the line is about what is written.
func (c complaint) ofOutput() bool {
	return strings.HasPrefix(c.context, "out#") || strings.HasPrefix(c.context, "tee @") ||
		strings.Contains(c.context, "ost#") || c.own() && containsAny(c.text, outputWords)
}

var outputWords = []string{
	"file:" + LiveName, "file:" + FinalName, "av_interleaved_write_frame", "Error writing", "Error muxing", "Error submitting a packet to the muxer",
	"Could not write header", "Could not open file", "Error opening output", "Slave muxer", "slave muxer",
}

// What the system says (strerror in the C locale) of a source that it would not let be read, and of what ran out.
var (
	unavailableWords = []string{
		"Input/output error", "Remote I/O error", "Stale file handle", "Stale NFS file handle", "Permission denied",
		"Too many open files in system", "Connection timed out", "Connection refused", "Connection reset by peer",
		"No such device or address", "No such device", "Device not configured", "Device or resource busy",
		"Transport endpoint is not connected", "Socket is not connected", "Software caused connection abort",
		"Host is down", "No route to host", "Network is unreachable", "Network is down", "Structure needs cleaning",
		"Bad message", "No medium found", "Interrupted system call", "Communication error on send", "Protocol error",
		"Operation timed out", "Key has expired", "Required key not available", "Key has been revoked",
	}
	exhaustedWords = []string{"Resource temporarily unavailable", "Too many open files"}
)

// decodingWords are complaints about single frames.
var decodingWords = []string{"Error while decoding", "packet to decoder", "Decoding error", "packet in decoder"}

// memoryWords is what a program says that may not have more memory. Where it is we who bound that (see bound), the
// source wanted more than any audio needs; that no thread can be made follows from it.
var memoryWords = []string{"Cannot allocate memory", "Error opening memory stream"}

// classesByText are other messages that tell a class.
var classesByText = []struct {
	class Class
	words []string
}{
	{Failed, []string{"Unknown encoder", "Encoder not found", "No such filter", "Unrecognized option", "Option not found"}},
	{NotFound, []string{"No such file or directory", "Server returned 404", "HTTP error 404"}},
	{Undecodable, []string{"Format not on whitelist"}},
	{NoSound, []string{"matches no streams", "does not contain any stream"}},
}

// toldBy is the class that ffmpeg's own words leave no doubt of, "" if none: what is wrong with us first, then with
// the machine, then with the source.
func toldBy(lines []complaint) Class {
	told := map[Class]bool{}
	for _, line := range lines {
		told[line.tells()] = true
		if memoryBounded && containsAny(line.text, memoryWords) {
			return Undecodable
		}
	}
	for _, class := range []Class{NoSpace, TooLarge, Exhausted, Unavailable, Failed, NotFound, Undecodable, NoSound} {
		if told[class] {
			return class
		}
	}
	return ""
}

func (c complaint) tells() Class {
	switch {
	case containsAny(c.text, decodingWords):
		return "" // a damaged frame, whatever number the decoder has for it
	case containsAny(c.text, []string{"No space left on device", "Disk quota exceeded"}):
		return NoSpace
	case strings.HasSuffix(c.text, "File too large") && c.own():
		return TooLarge
	case c.own() && (endsWith(c.text, exhaustedWords) || strings.HasPrefix(c.text, "pthread_create")):
		return Exhausted
	case c.ofOutput():
		return Failed
	case c.own() && endsWith(c.text, unavailableWords):
		return Unavailable
	case c.own() && endsWith(c.text, memoryWords):
		return Exhausted
	}
	for _, known := range classesByText {
		if containsAny(c.text, known.words) {
			return known.class
		}
	}
	return ""
}

// brokenOff is the class of a run that exited well although it did not read or write all: an I/O error looks like
// the end of the file to most demuxers, and the tee muxer goes on when one of its files fails. Complaints of
// decoders about damaged frames are none of these. "" where there is nothing of the kind.
func brokenOff(stderr []byte) Class {
	switch class := toldBy(complaints(stderr)); class {
	case NoSpace, TooLarge, Exhausted, Unavailable, Failed, Undecodable:
		return class
	}
	return ""
}

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// endsWith says that the text is one of these, or ends with one after a colon, as in "file:in.wav: Permission denied".
func endsWith(text string, words []string) bool {
	for _, word := range words {
		if before, ok := strings.CutSuffix(text, word); ok && (before == "" || strings.HasSuffix(before, ": ")) {
			return true
		}
	}
	return false
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
