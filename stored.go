package audioproxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// serveStored answers with a stored variant, as the request's conditions want it.
func (h *Handler) serveStored(w http.ResponseWriter, r *http.Request, v *variant, file *store.Variant) error {
	switch evaluate(r.Header, v.representation(file)) {
	case notModified:
		v.outcome.cameBy(cacheHit)
		return answerNotModified(w, strong(v.id.Key), h.cacheField(r, v.caching()))
	case conditionsFail:
		return errPrecondition()
	}
	return h.serveFile(w, r, v, file, timing{cache: cacheHit}, newCutoff(w, r))
}

// representation is what conditions are compared with. file is nil where the variant has yet to be rendered.
func (v *variant) representation(file *store.Variant) representation {
	var current representation
	if v.keep { // else the same key may be another variant's
		current.tag = strong(v.id.Key)
	}
	if file != nil {
		current.stored, current.modified = true, file.Stored
	}
	return current
}

func answerNotModified(w http.ResponseWriter, etag, cacheControl string) error {
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", cacheControl)
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// serveFile answers with a finished variant, or the range of it that was asked for.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, v *variant, file *store.Variant, when timing, cut *cutoff) error {
	status, first, length := http.StatusOK, int64(0), file.Size
	if asked, ok := parseRange(r.Header); ok && rangeApplies(r.Header, v.representation(file)) {
		status = http.StatusPartialContent
		if first, length, ok = asked.within(file.Size); !ok {
			return errRange(file.Size)
		}
	}
	if first > 0 {
		if _, err := file.Content.Seek(first, io.SeekStart); err != nil {
			return endStoreClosed.refuse(fmt.Errorf("seeking in a stored variant: %w", err))
		}
	}
	h.setHeader(w.Header(), r, v, strong(v.id.Key), when)
	header := w.Header()
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(length, 10))
	if !file.Stored.IsZero() {
		header.Set("Last-Modified", file.Stored.UTC().Format(http.TimeFormat))
	}
	if status == http.StatusPartialContent {
		header.Set("Content-Range", contentRange(first, length, file.Size))
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	file.Watch(nil, cut.now)
	if err := cut.cause(send(w, file.Content, length, first+length == file.Size)); err != nil {
		h.breakOff(w, r, err)
	}
	return nil
}

// send copies so many bytes to the client. Up to the end of a file the kernel does it: a limited reader would hide the
// file from it behind Caddy's own limit.
func send(w io.Writer, content io.Reader, length int64, toEnd bool) error {
	if !toEnd {
		return sendPieces(w, content, length)
	}
	n, err := io.Copy(w, content)
	if err == nil && n < length {
		err = io.ErrUnexpectedEOF // somebody cut the file
	}
	return err
}

// sendPieces copies so many bytes through a buffer.
func sendPieces(w io.Writer, content io.Reader, length int64) error {
	piece := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(piece)
	for length > 0 {
		n, err := io.ReadFull(content, piece[:min(length, int64(len(piece)))])
		if _, err := w.Write(piece[:n]); err != nil {
			return err
		}
		if length -= int64(n); err != nil {
			return err
		}
	}
	return nil
}
