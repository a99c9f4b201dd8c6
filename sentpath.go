package audioproxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// escapedPath is the path as the client sent it, without what a rewrite took off its front (handle_path, uri
// strip_prefix) or its end (uri strip_suffix). Signatures are over those bytes. Neither r.URL nor the URI that a rewrite
// leaves has them: net/url escapes characters that were sent bare, and Caddy's rewrites merge slashes, such as those of
// local://, and fold dots. So what is left of the path is looked for in the request line.
func escapedPath(r *http.Request) string {
	sent := sentPath(r)
	if decoded, err := url.PathUnescape(sent); err == nil && decoded == r.URL.Path {
		return sent
	}
	before, err := url.ParseRequestURI(sent)
	if err != nil || !strings.HasPrefix(sent, "/") || r.URL.Path == "" {
		return r.URL.EscapedPath()
	}
	path := pairBytes(sent, before.EscapedPath())
	left := r.URL.EscapedPath()
	for _, merge := range []bool{true, false} { // a prefix or suffix with two slashes has none merged
		cleaned := cleanPath(path, merge, false)
		// Rewrites work on the escaped path. One that finds dots behind escapes then folds these, too, and forgets how
		// the rest was escaped.
		for _, decoded := range []bool{false, true} {
			if decoded {
				cleaned = cleanPath(cleaned, false, true)
			}
			if first, last, ok := cleaned.find(left, decoded); ok {
				return cut(sent, cleaned, first, last)
			}
			// A prefix that ended within a segment: a slash was put before what was left of that.
			if first, last, ok := cleaned.find(left[1:], decoded); ok && first > 0 {
				return "/" + cut(sent, cleaned, first, last)
			}
		}
	}
	return left // rewritten to something else
}

// sentPath is the path of the request line.
func sentPath(r *http.Request) string {
	sent := r.RequestURI
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		sent = original.RequestURI // a rewrite changes the field
	}
	sent, _, _ = strings.Cut(sent, "?")
	if !strings.HasPrefix(sent, "/") { // the absolute form, as sent to proxies
		_, sent, _ = strings.Cut(sent, "://")
		sent = sent[max(strings.IndexByte(sent, '/'), 0):]
	}
	return sent
}

// pathBytes is an escaped path, taken apart.
type pathBytes []pathByte

type pathByte struct {
	value   byte // decoded
	escaped bool // as rewrites see it
	from    int  // where it begins in the path as it was sent
	to      int  // and ends
}

// pairBytes takes a path apart that was sent, and that rewrites see as seen: with the same bytes, some of which net/url
// has escaped.
func pairBytes(sent, seen string) pathBytes {
	path := make(pathBytes, 0, len(sent))
	for from, at := 0, 0; from < len(sent) && at < len(seen); {
		value, size := decodeByte(sent[from:])
		_, seenSize := decodeByte(seen[at:])
		path = append(path, pathByte{value, seenSize > 1, from, from + size})
		from += size
		at += seenSize
	}
	return path
}

// decodeByte decodes the first byte of a path whose escapes are valid, and says in how many bytes it was written.
func decodeByte(s string) (value byte, size int) {
	if s[0] == '%' && len(s) >= 3 {
		if decoded, err := url.PathUnescape(s[:3]); err == nil {
			return decoded[0], 3
		}
	}
	return s[0], 1
}

// cleanPath does to a path what rewrites do (caddyhttp.CleanPath), and remembers where each byte came from. decoded
// takes escaped slashes and dots for such. The path is not empty, and begins with a slash.
func cleanPath(path pathBytes, merge, decoded bool) pathBytes {
	is := func(b pathByte, c byte) bool { return b.value == c && (decoded || !b.escaped) }
	var segments []pathBytes // each with the slash in front of it
	for start := 0; start < len(path); {
		end := start + 1
		for end < len(path) && !is(path[end], '/') {
			end++
		}
		segment := path[start:end]
		name := segment[1:]
		last := end == len(path)
		switch {
		case len(name) == 0 && (merge || last):
		case len(name) == 1 && is(name[0], '.'):
		case len(name) == 2 && is(name[0], '.') && is(name[1], '.'):
			segments = segments[:max(len(segments)-1, 0)]
		default:
			segments = append(segments, segment)
		}
		start = end
	}
	cleaned := make(pathBytes, 0, len(path))
	for _, segment := range segments {
		cleaned = append(cleaned, segment...)
	}
	switch last := path[len(path)-1:]; {
	case len(cleaned) == 0:
		return path[:1]
	case is(last[0], '/'):
		return append(cleaned, last...)
	}
	return cleaned
}

// find looks for what a rewrite left of the path: at its end, at its beginning, or between what was cut off on both
// sides. decoded compares without regard to how it is escaped.
func (path pathBytes) find(left string, decoded bool) (first, last int, ok bool) {
	wanted := pairBytes(left, left)
	values := func(p pathBytes) string {
		b := make([]byte, len(p))
		for i := range p {
			b[i] = p[i].value
		}
		return string(b)
	}
	all, part := values(path), values(wanted)
	for _, at := range []int{len(all) - len(part), 0, strings.Index(all, part)} {
		if at < 0 || at+len(part) > len(all) || all[at:at+len(part)] != part {
			continue
		}
		same := true
		for i := range wanted {
			same = same && (decoded || path[at+i].escaped == wanted[i].escaped)
		}
		if same {
			return at, at + len(part), true
		}
	}
	return 0, 0, false
}

// cut returns the part of the sent path that became cleaned[first:last].
func cut(sent string, cleaned pathBytes, first, last int) string {
	from, to := 0, len(sent)
	if first > 0 {
		from = cleaned[first-1].to
	}
	if last < len(cleaned) {
		to = cleaned[last].from
	}
	return sent[min(from, to):to]
}
