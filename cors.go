package audioproxy

import "net/http"

// exposed are the fields that a page of another origin may read.
const exposed = "x-audio-proxy, retry-after, accept-ranges, etag, content-range, cache-status, server-timing"

// allowOrigin lets pages of the configured origin use the answer, whatever it will be.
func (h *Handler) allowOrigin(header http.Header) {
	header.Set("Access-Control-Allow-Origin", h.CORS)
	header.Set("Access-Control-Expose-Headers", exposed)
	if h.CORS != "*" {
		header.Add("Vary", "Origin")
	}
}

// answerPreflight answers what a browser asks before it asks. It needs no signature: it says nothing of any
// variant.
func answerPreflight(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", "GET, HEAD")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return nil
}
