package audioproxy

import (
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// notModified reports whether the client has what the tag stands for already.
func notModified(r *http.Request, tag string) bool {
	for _, field := range r.Header.Values("If-None-Match") {
		for candidate := range strings.SplitSeq(field, ",") {
			// Weakly compared (RFC 9110, 13.1.2): what was streamed and what is stored are equivalent.
			if strings.TrimPrefix(textproto.TrimString(candidate), "W/") == strong(tag) {
				return true
			}
		}
	}
	return false
}

func answerNotModified(w http.ResponseWriter, tag, cacheControl string) error {
	w.Header().Set("ETag", strong(tag))
	w.Header().Set("Cache-Control", cacheControl)
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// serveFile answers with a finished variant, or the range of it that was asked for.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, v *variant, file *store.Variant, when timing) error {
	if !preconditionsHold(r, v.id.Key, file.Stored) {
		return errPrecondition()
	}
	asked := rangeOf(r, file.Size)
	if asked == rangeUnsatisfiable && rangeApplies(r, strong(v.id.Key)) {
		return errRange(file.Size)
	}
	v.setHeader(w.Header(), strong(v.id.Key), when)
	w.Header().Set("Accept-Ranges", "bytes")
	cut := newCutoff(w, r)
	file.Watch(nil, cut.now)
	if r.Method == http.MethodGet && asked != rangeSingle && r.Header.Get("If-Modified-Since") == "" {
		h.serveWhole(w, r, file, cut)
		return nil
	}
	r = r.Clone(r.Context())
	for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
		r.Header.Del(name) // seen to above
	}
	if asked != rangeSingle {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", file.Stored, file.Content)
	if err := cut.cause(nil); err != nil { // which ServeContent keeps to itself
		h.breakOff(w, r, err)
	}
	return nil
}

// serveWhole sends the file on the one path on which the kernel copies it: ServeContent's reader hides it.
func (h *Handler) serveWhole(w http.ResponseWriter, r *http.Request, file *store.Variant, cut *cutoff) {
	header := w.Header()
	header.Set("Content-Length", strconv.FormatInt(file.Size, 10))
	header.Set("Last-Modified", file.Stored.UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusOK)
	_, err := io.Copy(w, file.Content)
	if err := cut.cause(err); err != nil {
		h.breakOff(w, r, err)
	}
}

// preconditionsHold evaluates If-Match and If-Unmodified-Since (RFC 9110, 13.2.2). ServeContent would too, and
// answer with the variant's own fields on the error, a year of caching among them.
func preconditionsHold(r *http.Request, tag string, stored time.Time) bool {
	if fields := r.Header.Values("If-Match"); len(fields) > 0 {
		for candidate := range strings.SplitSeq(strings.Join(fields, ","), ",") {
			if candidate = textproto.TrimString(candidate); candidate == "*" || candidate == strong(tag) {
				return true
			}
		}
		return false
	}
	limit, err := http.ParseTime(r.Header.Get("If-Unmodified-Since"))
	return err != nil || !stored.Truncate(time.Second).After(limit)
}

// wantsPart reports whether a request is for less than the whole of a variant, whatever its size: for one range,
// and not from the first byte to the last.
func wantsPart(r *http.Request) bool {
	first, last, ok := parseRange(r.Header.Get("Range"))
	return ok && (first != 0 || last != -1)
}

// rangeKind is what a Range field asks for.
type rangeKind int

const (
	rangeNone          rangeKind = iota // nothing that we serve: the whole file answers it
	rangeSingle                         // one range that overlaps the file
	rangeUnsatisfiable                  // one range that does not
)

// rangeOf reads the Range field (RFC 9110, 14.2). What is malformed, of another unit or more than one range is
// ignored, as the RFC allows: the answer is then the whole.
func rangeOf(r *http.Request, size int64) rangeKind {
	first, last, ok := parseRange(r.Header.Get("Range"))
	switch {
	case !ok:
		return rangeNone
	case first < 0: // the last so many bytes
		if last == 0 || size == 0 {
			return rangeUnsatisfiable
		}
	case first >= size:
		return rangeUnsatisfiable
	}
	return rangeSingle
}

// parseRange reads one byte range. first is -1 for "the last so many bytes", and last -1 for "to the end".
func parseRange(field string) (first, last int64, ok bool) {
	unit, spec, found := strings.Cut(field, "=")
	from, to, dash := strings.Cut(textproto.TrimString(spec), "-")
	if !found || !dash || !strings.EqualFold(textproto.TrimString(unit), "bytes") {
		return 0, 0, false
	}
	first, last = -1, -1
	if from != "" {
		if first, ok = parseDigits(from); !ok {
			return 0, 0, false
		}
	}
	if to != "" {
		if last, ok = parseDigits(to); !ok {
			return 0, 0, false
		}
	}
	if from == "" && to == "" || from != "" && to != "" && last < first {
		return 0, 0, false
	}
	return first, last, true
}

// parseDigits reads a number of digits and nothing else. One too large for an int64 is as good as the largest.
func parseDigits(s string) (int64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil || len(s) > 18 // n is then the largest there is
}

// rangeApplies evaluates If-Range: a range of something else than the client has is no use to it.
func rangeApplies(r *http.Request, etag string) bool {
	condition := r.Header.Get("If-Range")
	return condition == "" || condition == etag
}
