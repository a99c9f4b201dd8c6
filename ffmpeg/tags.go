package ffmpeg

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tags are the few that a variant takes over from its source, by ffmpeg's names for them.
type Tags map[string]string

// carried are the tags that go along, and tagLimit how long each may be, in bytes: a title is not a document.
var carried = []string{"title", "artist", "album", "track", "date"}

const tagLimit = 256

// TagFile writes tags as a file for ffmpeg's ffmetadata demuxer, which waits for one in renders with tags.
func TagFile(tags Tags) []byte {
	var b strings.Builder
	b.WriteString(";FFMETADATA1\n")
	for _, key := range carried {
		value := cleanTag(tags[key])
		if value == "" {
			continue
		}
		b.WriteString(key)
		b.WriteByte('=')
		for _, r := range value {
			if strings.ContainsRune(`=;#\`, r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// cleanTag makes a value fit to be written: valid UTF-8 of one line, no control characters (which could
// redraw a terminal or turn a text's direction), at most tagLimit bytes.
func cleanTag(value string) string {
	value = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(value, ""))
	return strings.TrimSpace(cutBytes(value, tagLimit))
}

// cutBytes is the longest beginning of s that has at most n bytes and ends between characters.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tagReader picks tags out of ffmpeg's report on an input: those of the file, and those of its first audio
// stream, where Ogg keeps them.
type tagReader struct {
	tags   Tags
	stream int  // 0 in the file's part, then the streams from 1 on
	audio  bool // the part being read is that of the first audio stream
	taken  bool // that stream has come
}

// read takes a line of the report, without its level. Most lines are of no interest, and cost nothing.
func (t *tagReader) read(text []byte) {
	if bytes.HasPrefix(text, []byte("  Stream #")) {
		t.stream++
		t.audio = bytes.Contains(text, []byte(": Audio: ")) && !t.taken
		t.taken = t.taken || t.audio
		return
	}
	if t.stream > 0 && !t.audio {
		return
	}
	// "    title           : Some name" for the file; for a stream two columns further right, four from ffmpeg 7 on.
	line := bytes.TrimLeft(text, " ")
	indent := len(text) - len(line)
	if t.stream == 0 && indent != 4 || t.stream > 0 && indent != 6 && indent != 8 {
		return
	}
	if len(line) > 16 && bytes.IndexByte(line[:17], ':') == 16 {
		t.set(line[:16], line[17:])
	}
}

func (t *tagReader) set(name, value []byte) {
	name = bytes.TrimSpace(name)
	for _, key := range carried {
		if t.tags[key] != "" || !bytes.EqualFold(name, []byte(key)) {
			continue
		}
		if text := cleanTag(string(value)); text != "" {
			if t.tags == nil {
				t.tags = Tags{}
			}
			t.tags[key] = text
		}
	}
}
