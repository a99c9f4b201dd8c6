package audioproxy

import (
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// notModified reports whether the client has the variant already. The answer needs neither source nor store:
// the key says it all.
func (v *variant) notModified(r *http.Request) bool {
	for _, field := range r.Header.Values("If-None-Match") {
		for tag := range strings.SplitSeq(field, ",") {
			// Weakly compared (RFC 9110, 13.1.2): what was streamed and what is stored are equivalent.
			if strings.TrimPrefix(textproto.TrimString(tag), "W/") == `"`+v.id.Key+`"` {
				return true
			}
		}
	}
	return false
}

func (v *variant) answerNotModified(w http.ResponseWriter) error {
	w.Header().Set("ETag", `"`+v.id.Key+`"`)
	w.Header().Set("Cache-Control", v.cacheControl())
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// serveStored answers with a finished variant.
func (h *Handler) serveStored(w http.ResponseWriter, r *http.Request, v *variant, hit *store.Variant) error {
	v.setHeader(w.Header(), `"`+v.id.Key+`"`, cacheHit)
	return h.serveFile(w, r, hit)
}

// serveFile sends a file, or the range of it that was asked for. What describes it has been set.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, file *store.Variant) error {
	header := w.Header()
	header.Set("Accept-Ranges", "bytes")
	asked := rangeOf(r, file.Size)
	switch {
	case asked == rangeUnsatisfiable && rangeApplies(r, header.Get("ETag")):
		return h.refuse(w, r, errRange(file.Size))
	case asked != rangeSingle:
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	if isPlain(r) {
		// The one path on which the kernel copies the file: ServeContent's reader hides it.
		header.Set("Content-Length", strconv.FormatInt(file.Size, 10))
		header.Set("Last-Modified", file.Stored.UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusOK)
		if _, err := io.Copy(w, file.Content); err != nil {
			h.breakOff(r, err)
		}
		return nil
	}
	http.ServeContent(w, r, "", file.Stored, file.Content)
	return nil
}

// isPlain reports whether a request wants the whole file, whatever the client may have of it.
func isPlain(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Range", "If-Match", "If-Unmodified-Since", "If-Modified-Since"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return true
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
