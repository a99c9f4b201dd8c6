package urlapi

import "strings"

// Formats returns every format, in the order of the API's table.
func Formats() []Format { return []Format{MP3, Opus, Ogg, AAC, M4A, FLAC, WAV, Peaks} }

// ContentType is the Content-Type of the variant.
func (o Options) ContentType() string {
	switch o.Format {
	case MP3:
		return "audio/mpeg"
	case Opus, Ogg:
		return "audio/ogg"
	case AAC:
		return "audio/aac"
	case M4A:
		return "audio/mp4"
	case FLAC:
		return "audio/flac"
	case WAV:
		return "audio/wav"
	case Peaks:
		if o.PeaksFormat != "dat" {
			return "application/json"
		}
	}
	return "application/octet-stream"
}

// Extension is the variant's usual file name extension, with its dot.
func (o Options) Extension() string {
	if o.Format != Peaks {
		return "." + string(o.Format)
	}
	if o.PeaksFormat == "dat" {
		return ".dat"
	}
	return ".json"
}

// ContentDisposition is the header's value where the URL asked for a download, else "". It has the name twice, as RFC
// 6266 advises: exactly, in filename*, and in plain ASCII for clients that know only filename.
// mime.FormatMediaType writes one or the other, never both.
func (o Options) ContentDisposition() string {
	if o.Download == "" {
		return ""
	}
	return `attachment; filename="` + asciiFallback(o.Download) + `"; filename*=UTF-8''` + percentEncode(o.Download)
}

// asciiFallback replaces what clients read differently in a quoted string: quotes and backslashes, percent signs
// (RFC 6266, appendix D), separators of paths, and all that is not ASCII.
func asciiFallback(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%/`, r) {
			return '_'
		}
		return r
	}, name)
}

// percentEncode escapes all but the attr-chars of RFC 8187, which are also safe in a path segment.
func percentEncode(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isAlphanumeric(c) || strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
