package urlapi

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The schemes of sources.
const (
	SchemeLocal = "local"
	SchemeS3    = "s3"
	SchemeGS    = "gs"
	SchemeAzure = "azblob"
	SchemeHTTPS = "https"
)

// Source says where audio comes from. Sources are equal (==) exactly when their canonical strings are. The zero Source
// is none.
type Source struct {
	Scheme string // one of the Scheme constants
	Path   string // local: slash-separated, relative, folded; buckets: "bucket/key"; https: the whole canonical URL

	authority string // the bucket, or the host without its port
	canonical string
}

// String returns the canonical form, which is the source's identity. It never has anything of the site's
// configuration in it.
func (s Source) String() string { return s.canonical }

// Authority is what an allow-list speaks of: the bucket, or the host without its port (an IPv6 address without
// brackets). It is empty for local sources.
func (s Source) Authority() string { return s.authority }

// SourceError is a source that was refused as it was read. It is answered with the one 404 that every source gets that
// is not there; the reason is for the log alone.
type SourceError struct{ Reason string }

func (e *SourceError) Error() string { return "source refused: " + e.Reason }

func refuseSource(reason string) error { return &SourceError{Reason: reason} }

// maxSource bounds a source of any kind before it is looked at: the longest that any scheme admits is an https URL,
// and this is the bound on those.
const maxSource = maxURL

// ParseSource reads a source as a path has it: "plain/" and the percent-encoded source, or "enc/" and its base64url.
// The error is always a *SourceError.
func ParseSource(s string) (Source, error) {
	form, rest, _ := strings.Cut(s, "/")
	switch form {
	case "plain":
		decoded, err := url.PathUnescape(rest) // once; a plus stays a plus
		if err != nil {
			return Source{}, refuseSource("bad percent-encoding")
		}
		return ParseCanonical(decoded)
	case "enc":
		decoded, ok := decodeBase64URL(rest)
		if !ok {
			return Source{}, refuseSource("bad base64url")
		}
		return ParseCanonical(decoded)
	}
	return Source{}, refuseSource("neither plain/ nor enc/")
}

// decodeBase64URL takes base64url with its padding or without, but no line breaks, which Go's decoder would skip, and
// no spare bits, so that one source has one unpadded spelling.
func decodeBase64URL(s string) (string, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return "", false
	}
	encoding := base64.RawURLEncoding.Strict()
	if strings.HasSuffix(s, "=") {
		encoding = base64.URLEncoding.Strict()
	}
	b, err := encoding.DecodeString(s)
	return string(b), err == nil
}

// ParseCanonical reads a source that is not encoded, such as "local://a b.wav". It need not be in canonical form yet;
// the Source it returns is. The error is always a *SourceError.
func ParseCanonical(s string) (Source, error) {
	if len(s) > maxSource {
		return Source{}, refuseSource("too long")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return Source{}, refuseSource("no scheme")
	}
	scheme = strings.ToLower(scheme)
	if scheme == SchemeLocal {
		if reason := checkLocalBounds(rest); reason != "" {
			return Source{}, refuseSource(reason)
		}
	}
	if !utf8.ValidString(rest) {
		return Source{}, refuseSource("not UTF-8")
	}
	if strings.ContainsFunc(rest, isHidden) {
		return Source{}, refuseSource("control character")
	}
	src, reason := parseScheme(scheme, rest)
	if reason != "" {
		return Source{}, refuseSource(reason)
	}
	return src, nil
}

func parseScheme(scheme, rest string) (Source, string) {
	switch scheme {
	case SchemeLocal:
		return parseLocal(rest)
	case SchemeS3, SchemeGS, SchemeAzure:
		return parseBucket(scheme, rest)
	case SchemeHTTPS:
		return parseHTTPS(rest)
	}
	return Source{}, "unknown scheme"
}

// isHidden reports code points that change what is seen around them in a log or a terminal: line breaks, NUL, direction
// overrides. Other format characters belong to names: joiners to Persian, Indic and emoji ones.
func isHidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
