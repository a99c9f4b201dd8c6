package urlapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// Canonical writes the options in the one form that all URLs for the same variant share: keys sorted, defaults that
// apply written out, numbers as short as they can be, the expiry left out. ParseOptions reads it back to the same
// Options, but for Expires.
func (o Options) Canonical() string {
	// In the order of the keys: that is the sorting.
	var s []string
	add := func(key, value string) {
		if value != "" {
			s = append(s, key+":"+value)
		}
	}
	add("bd", o.BitDepth)
	add("br", integerOrNone(o.BitRate))
	add("cb", o.CacheBuster)
	add("ch", integerOrNone(o.Channels))
	add("dl", o.downloadAsSent())
	add("enhance", o.Enhance)
	add("f", string(o.Format))
	if o.Fade != nil {
		add("fade", o.Fade.In.String()+":"+o.Fade.Out.String())
	}
	add("gain", milliOrNone(o.Gain))
	if l := o.Loudness; l != nil {
		add("norm", "ebu:"+l.Integrated.String()+":"+l.TruePeak.String()+":"+l.Range.String())
	}
	add("pk_fmt", o.PeaksFormat)
	add("pts", integerOrNone(o.Points))
	add("q", milliOrNone(o.Quality))
	add("sr", integerOrNone(o.SampleRate))
	if t := o.Trim; t != nil {
		value := t.Start.String()
		if t.Duration != 0 {
			value += ":" + t.Duration.String()
		}
		add("t", value)
	}
	return strings.Join(s, "/")
}

// downloadAsSent keeps the client's own percent-encoding: a canonical form that rewrote it would give other keys than
// every other implementation of this API.
func (o Options) downloadAsSent() string {
	if sent, err := url.PathUnescape(o.raw.download); err == nil && sent == o.Download {
		return o.raw.download
	}
	return percentEncode(o.Download)
}

func integerOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func milliOrNone(n *Milli) string {
	if n == nil {
		return ""
	}
	return n.String()
}

// CacheKey names the variant that canonical options make of a canonical source: 64 lower-case hex digits. Where a site
// follows changes of its sources, the validator of the source as it is now is given too and joins as a third line;
// a changed source then has another key. None of the parts can contain a line break, if they come from this package.
func CacheKey(canonicalOptions, canonicalSource string, validator ...string) string {
	lines := make([]byte, 0, 512)
	lines = append(lines, canonicalOptions...)
	lines = append(append(lines, '\n'), canonicalSource...)
	for _, line := range validator {
		lines = append(append(lines, '\n'), line...)
	}
	sum := sha256.Sum256(lines)
	return hex.EncodeToString(sum[:])
}

// IsKey tells whether s has the form of a cache key, and so is safe as a file name.
func IsKey(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
