package ffmpeg

import (
	"bytes"
	"regexp"
	"strings"
)

// Verdict is what ffmpeg's report says about the source.
type Verdict int

const (
	Pending    Verdict = iota // the report is not over
	Audio                     // an audio stream, and no real video
	Video                     // a real video stream; cover art is not one
	NoAudio                   // streams, but none of audio
	Unreadable                // no report on the source was recognized: ffmpeg could not open it, or speaks otherwise
)

func (v Verdict) String() string {
	return [...]string{"pending", "audio", "video", "no audio", "unreadable"}[v]
}

// Report reads what ffmpeg writes to stderr under "-loglevel level+info" while it comes, and says what it tells
// about the source (input 0). It is an io.Writer, keeps a bounded amount whatever floods in, and is not safe
// for concurrent use. The zero value is ready.
//
// The source's own words (its tags) are in there too, and must not be able to pass for ffmpeg's. ffmpeg indents
// every line of a tag's value deeper than a stream's line, and a line break inside a tag's key starts a line
// without the level in front, which is then not looked at. What is left to a forger is his own file's verdict
// towards Video, and a Video line is believed whenever it comes.
type Report struct {
	line []byte // the line being read, without its end; what exceeds lineLimit is dropped

	inSource bool // between "Input #0" and the end of its report
	seen     bool // "Input #0" has come
	done     bool
	audio    bool
	video    bool

	tags tagReader
}

// lineLimit bounds a line that is kept for reading. A stream's line is far shorter; a tag's value comes from
// ffmpeg in pieces of 256 bytes at most.
const lineLimit = 4096

// Write takes the next bytes of stderr. It never fails.
func (r *Report) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			r.keep(p)
			break
		}
		r.keep(p[:end])
		r.read(strings.TrimSuffix(string(r.line), "\r"))
		r.line = r.line[:0]
		p = p[end+1:]
	}
	return n, nil
}

func (r *Report) keep(p []byte) {
	room := lineLimit - len(r.line)
	r.line = append(r.line, p[:min(len(p), room)]...)
}

// End says that stderr has ended: what has not been reported by now is not there.
func (r *Report) End() {
	if len(r.line) > 0 {
		r.read(string(r.line))
		r.line = r.line[:0]
	}
	r.inSource, r.done = false, true
}

// InputDone says that the report on the source is over. It is true before ffmpeg has opened its output, and in
// a render with tags it is the moment to write them.
func (r *Report) InputDone() bool { return r.done }

// Verdict is what is known by now. It is final once it isn't Pending, but for one case: a forged end of the
// report can make it Audio for the moment that the true lines take to come.
func (r *Report) Verdict() Verdict {
	switch {
	case r.video:
		return Video
	case !r.done:
		return Pending
	case !r.seen:
		return Unreadable
	case !r.audio:
		return NoAudio
	}
	return Audio
}

// Tags are the source's tags that go along into a variant, as far as they have come.
func (r *Report) Tags() Tags { return r.tags.tags }

var (
	// "  Stream #0:1[0x1](und): Video: h264 (High), yuv420p, 1280x720 (default)": number, id and language
	// (either may be missing), type, codec and the rest. Streams of a group (ffmpeg 7 on) stand two columns
	// further right.
	streamLine = regexp.MustCompile(`^ {2,4}Stream #0:\d+(?:\[[^\]]*\])?(.*)$`)
	// Dispositions stand at the end of a stream's line.
	attachedPicture = regexp.MustCompile(`\(attached pic\)(?: \([a-z ]+\))*$`)
)

// read takes one line.
func (r *Report) read(line string) {
	text, own := strings.CutPrefix(line, "[info] ")
	if !own {
		return
	}
	switch {
	case strings.HasPrefix(text, "Input #0,"):
		r.seen, r.inSource = true, true
	case isEnd(text):
		r.inSource, r.done = false, true
	}
	r.stream(text)
	if r.inSource {
		r.tags.read(text)
	}
}

// isEnd recognizes the first line after the report on input 0: the next input's, or what ffmpeg is about to do.
func isEnd(text string) bool {
	return strings.HasPrefix(text, "Input #1,") || strings.HasPrefix(text, "Stream mapping:") ||
		strings.HasPrefix(text, "Output #0,")
}

// stream takes note of a stream of input 0. (The lines of output 0 look the same, and are all audio.)
func (r *Report) stream(text string) {
	m := streamLine.FindStringSubmatch(text)
	if m == nil {
		return
	}
	switch {
	case strings.Contains(m[1], ": Video: "):
		r.video = r.video || !attachedPicture.MatchString(m[1])
	case strings.Contains(m[1], ": Audio: ") && r.inSource:
		r.audio = true
	}
}
