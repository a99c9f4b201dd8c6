package urlapi

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OptionError says which option was refused and why. It is answered 422.
type OptionError struct {
	Segment string // as sent; empty for an empty segment
	Reason  string // for people
}

func (e *OptionError) Error() string {
	if e.Segment == "" {
		return "options: " + e.Reason
	}
	return "option " + shorten(e.Segment) + ": " + e.Reason
}

// maxBitRate is the API's own bound on br, in kbit/s.
const maxBitRate = 10000

// maxExpiry is the last second of the year 9999.
const maxExpiry = 253402300799

// maxSeconds bounds the times of a trim: 30 years of audio, and far from overflowing any unit ffmpeg counts in.
const maxSeconds Milli = 1_000_000_000 * 1000

// ParseOptions reads and checks "/"-separated key:value segments, as sent; the empty string means none. What it
// returns is complete in itself: every rule that the options alone can break has been checked. The error is always an
// *OptionError.
func ParseOptions(segments string) (Options, error) {
	o := Options{Format: MP3}
	if segments == "" {
		return o, o.complete(nil)
	}
	sent := make(map[string]string)
	for segment := range strings.SplitSeq(segments, "/") {
		key, reason := o.read(segment, sent)
		if reason != "" {
			return Options{}, &OptionError{Segment: segment, Reason: reason}
		}
		sent[key] = segment
	}
	if err := o.complete(sent); err != nil {
		return Options{}, err
	}
	return o, nil
}

// read puts one segment into o. Rules between options wait until all are known.
func (o *Options) read(segment string, sent map[string]string) (key, reason string) {
	if segment == "" {
		return "", "empty segment"
	}
	key, value, _ := strings.Cut(segment, ":")
	set, known := setters[key]
	if !known {
		return key, "unknown option"
	}
	if _, repeated := sent[key]; repeated {
		return key, "given more than once"
	}
	if value == "" {
		return key, "has no value"
	}
	return key, set(o, value)
}

// setters has every option there is. A setter says why it refuses a value, or "".
var setters = map[string]func(o *Options, value string) (reason string){
	"f":       (*Options).setFormat,
	"br":      integer(1, maxBitRate, func(o *Options, n int64) { o.BitRate = int(n) }),
	"q":       number(func(o *Options, n Milli) { o.Quality = &n }),
	"sr":      integer(1, 384000, func(o *Options, n int64) { o.SampleRate = int(n) }),
	"ch":      integer(1, 2, func(o *Options, n int64) { o.Channels = int(n) }),
	"bd":      oneOf(func(o *Options) *string { return &o.BitDepth }, "16", "24", "32f"),
	"t":       (*Options).setTrim,
	"fade":    (*Options).setFade,
	"gain":    (*Options).setGain,
	"norm":    (*Options).setLoudness,
	"enhance": oneOf(func(o *Options) *string { return &o.Enhance }, "voice"),
	"pts":     integer(1, 100000, func(o *Options, n int64) { o.Points = int(n) }),
	"pk_fmt":  oneOf(func(o *Options) *string { return &o.PeaksFormat }, "json", "dat"),
	"dl":      (*Options).setDownload,
	"cb":      (*Options).setCacheBuster,
	"exp":     integer(1, maxExpiry, func(o *Options, n int64) { o.Expires = n }),
}

func integer(low, high int64, set func(*Options, int64)) func(*Options, string) string {
	return func(o *Options, value string) string {
		n, reason := parseInteger(value, low, high)
		if reason == "" {
			set(o, n)
		}
		return reason
	}
}

func number(set func(*Options, Milli)) func(*Options, string) string {
	return func(o *Options, value string) string {
		n, reason := parseMilli(value)
		if reason == "" {
			set(o, n)
		}
		return reason
	}
}

func oneOf(field func(*Options) *string, words ...string) func(*Options, string) string {
	return func(o *Options, value string) string {
		for _, word := range words {
			if value == word {
				*field(o) = word
				return ""
			}
		}
		return "must be " + strings.Join(words, " or ")
	}
}

func (o *Options) setFormat(value string) string {
	for _, f := range Formats() {
		if value == string(f) {
			o.Format = f
			return ""
		}
	}
	return "unknown format"
}

func (o *Options) setTrim(value string) string {
	start, duration, bounded := strings.Cut(value, ":")
	var t Trim
	var reason string
	if t.Start, reason = parseWithin(start, 0, maxSeconds); reason != "" {
		return "start: " + reason
	}
	if bounded {
		if t.Duration, reason = parseWithin(duration, 1, maxSeconds); reason != "" {
			return "duration: " + reason
		}
	}
	o.Trim = &t
	return ""
}

func (o *Options) setFade(value string) string {
	in, out, both := strings.Cut(value, ":")
	var f Fade
	var reason string
	if f.In, reason = parseWithin(in, 0, maxSeconds); reason != "" {
		return "fade-in: " + reason
	}
	if both {
		if f.Out, reason = parseWithin(out, 0, maxSeconds); reason != "" {
			return "fade-out: " + reason
		}
	}
	o.Fade = &f
	return ""
}

func (o *Options) setGain(value string) string {
	n, reason := parseWithin(value, -100_000, 100_000)
	if reason == "" {
		o.Gain = &n
	}
	return reason
}

// setLoudness starts from EBU R128's usual targets for the web, which the API fixes.
func (o *Options) setLoudness(value string) string {
	name, given, more := strings.Cut(value, ":")
	if name != "ebu" {
		return "must be ebu"
	}
	l := Loudness{Integrated: -16_000, TruePeak: -1_500, Range: 11_000}
	targets := []struct {
		name      string
		field     *Milli
		low, high Milli
	}{
		{"integrated loudness", &l.Integrated, -70_000, -5_000},
		{"true peak", &l.TruePeak, -9_000, 0},
		{"loudness range", &l.Range, 1_000, 50_000},
	}
	for _, t := range targets {
		if !more {
			break
		}
		var value, reason string
		value, given, more = strings.Cut(given, ":")
		if *t.field, reason = parseWithin(value, t.low, t.high); reason != "" {
			return t.name + ": " + reason
		}
	}
	if more {
		return "more than three targets"
	}
	o.Loudness = &l
	return ""
}

func (o *Options) setDownload(value string) string {
	name, err := url.PathUnescape(value)
	switch {
	case err != nil:
		return "not percent-encoded"
	case !utf8.ValidString(name):
		return "not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "control character"
	}
	o.Download, o.raw.download = name, value
	return ""
}

// setCacheBuster leaves the value alone but for control bytes, percent-encoded ones included: nothing that could
// break a line may enter a key, a log or a header.
func (o *Options) setCacheBuster(value string) string {
	for i := range len(value) {
		if isControlByte(value[i]) {
			return "control character"
		}
		if b, ok := escapedByte(value[i:]); ok && isControlByte(b) {
			return "control character"
		}
	}
	o.CacheBuster = value
	return ""
}

func isControlByte(b byte) bool { return b < 0x20 || b == 0x7f }

// escapedByte decodes the %XX that s begins with.
func escapedByte(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	decoded, err := url.PathUnescape(s[:3])
	if err != nil || len(decoded) != 1 {
		return 0, false
	}
	return decoded[0], true
}

// shorten keeps what a client sent from making an answer as long as a URL can be.
func shorten(s string) string {
	const enough = 256
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}
