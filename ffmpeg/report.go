package ffmpeg

import (
	"bytes"
	"regexp"
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
// about the source (input 0). It is an io.Writer, keeps a bounded amount whatever floods in, costs little more per
// byte than looking for the ends of lines, and is not safe for concurrent use. The zero value is ready.
//
// The source's own words (its tags, a track's language) are in there too, and must not be able to pass for ffmpeg's.
// ffmpeg indents every line of a tag's value deeper than a stream's line. A line break elsewhere (in a tag's key, in
// a language) tears a line: what follows begins anew, without ffmpeg's level or with whatever the forger likes. A
// report with a line that ffmpeg would not write so is Unreadable. What is left to a forger is his own
// file's verdict towards Video, and a Video line is believed whenever it comes.
type Report struct {
	line []byte // the beginning of the line being read, without its end; what exceeds lineLimit is dropped
	long bool   // something was dropped

	inSource bool // between "Input #0" and the end of its report
	seen     bool // "Input #0" has come
	done     bool
	audio    bool
	video    bool
	torn     bool  // a line of the report is not as ffmpeg writes it
	size     int64 // of the report on the source so far, in bytes

	tags    tagReader
	trouble []byte // the lines that complain, as far as there is room for them
}

// lineLimit bounds a line that is kept for reading. A stream's line is far shorter; a tag's value comes from
// ffmpeg in pieces of 256 bytes at most.
const lineLimit = 4096

// Bounds on a report, in bytes. Beyond reportLimit it is not trusted to be read to its end; beyond floodLimit there
// is no point in waiting for the end. Songs have some kB; half a million chapters have 60 MB.
const (
	reportLimit = 1 << 20
	floodLimit  = 8 << 20
)

// troubleLimit bounds the complaints that are kept, in bytes: the first ones, since the cause comes first.
const troubleLimit = 8 << 10

// Write takes the next bytes of stderr. It never fails.
func (r *Report) Write(p []byte) (int, error) {
	n := len(p)
	began := r.inSource
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			r.keep(p)
			break
		}
		if len(r.line) == 0 && end <= lineLimit {
			r.read(p[:end], false)
		} else {
			r.keep(p[:end])
			r.read(r.line, r.long)
			r.line, r.long = r.line[:0], false
		}
		p = p[end+1:]
	}
	if began || r.inSource {
		r.size += int64(n)
	}
	return n, nil
}

func (r *Report) keep(p []byte) {
	room := lineLimit - len(r.line)
	r.long = r.long || len(p) > room
	r.line = append(r.line, p[:min(len(p), room)]...)
}

// Flooded says that the source's own words are more than any song has.
func (r *Report) Flooded() bool { return !r.done && r.size > floodLimit }

// Trouble is what ffmpeg complained of, as lines; the first ones, where it is much.
func (r *Report) Trouble() []byte { return r.trouble }

// End says that stderr has ended: what has not been reported by now is not there.
func (r *Report) End() {
	if len(r.line) > 0 {
		r.read(r.line, r.long)
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
	case !r.seen || r.torn || r.size > reportLimit:
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
	streamLine = regexp.MustCompile(`^ {2,4}Stream #0:\d+(?:\[0x[0-9a-f]+\])?(?:\([^()]*\))?: (Audio|Video|Subtitle|Data|Attachment|Unknown): \S`)
	// Dispositions stand at the end of a stream's line.
	attachedPicture = regexp.MustCompile(`\(attached pic\)(?: \([a-z ]+\))*$`)

	infoLevel   = []byte("[info] ")
	errorLevels = [][]byte{[]byte("[error] "), []byte("[fatal] "), []byte("[panic] ")}
	ofVideo     = []byte(": Video: ")
	tornVideo   = []byte("): Video: ") // what follows the language, the one text of the source's in a stream's line
)

// read takes one line; long says that its end is missing.
func (r *Report) read(line []byte, long bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	text, own := bytes.CutPrefix(line, infoLevel)
	if !own {
		r.complain(line)
		r.torn = r.torn || r.inSource && !bytes.HasPrefix(line, []byte("[")) || bytes.Contains(line, tornVideo)
		return
	}
	switch {
	case bytes.HasPrefix(text, []byte("Input #0,")):
		r.seen, r.inSource = true, true
	case isEnd(text):
		r.inSource, r.done = false, true
	case r.inSource && len(text) > 0 && text[0] != ' ':
		r.torn = true
	}
	isStream := r.stream(text, long)
	r.torn = r.torn || !isStream && bytes.Contains(text, tornVideo) // whether or not the report seems to be over
	if r.inSource {
		r.tags.read(text)
	}
}

// complain keeps a line at level error or worse.
func (r *Report) complain(line []byte) {
	if len(line) == 0 || line[0] != '[' || len(r.trouble)+len(line) > troubleLimit {
		return
	}
	for _, level := range errorLevels {
		if bytes.HasPrefix(line, level) || bytes.Contains(line, append([]byte("] "), level...)) {
			r.trouble = append(append(r.trouble, line...), '\n')
			return
		}
	}
}

// isEnd recognizes the first line after the report on input 0: the next input's, or what ffmpeg is about to do.
func isEnd(text []byte) bool {
	return bytes.HasPrefix(text, []byte("Input #1,")) || bytes.HasPrefix(text, []byte("Stream mapping:")) ||
		bytes.HasPrefix(text, []byte("Output #0,"))
}

// stream takes note of a stream of input 0. (The lines of output 0 look the same, and are all audio.)
func (r *Report) stream(text []byte, long bool) (is bool) {
	name := bytes.TrimLeft(text, " ")
	indent := len(text) - len(name)
	if (indent != 2 && indent != 4) || !bytes.HasPrefix(name, []byte("Stream #0:")) {
		return false
	}
	m := streamLine.FindSubmatch(text)
	switch {
	case bytes.Contains(text, ofVideo):
		r.video = r.video || !attachedPicture.Match(text)
	case m != nil && string(m[1]) == "Audio" && r.inSource:
		r.audio = true
	}
	r.torn = r.torn || r.inSource && (m == nil || long)
	return true
}
