package audioproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// serveInfo answers with the facts about a source, as it is on the disk now.
func (h *Handler) serveInfo(w http.ResponseWriter, r *http.Request, v *variant) error {
	in, err := v.take(r.Context())
	if err != nil {
		return err
	}
	defer in.Close()
	etag, cacheControl := "", "public, max-age=60"
	if in.Validator != "" {
		sum := sha256.Sum256([]byte("info\n" + v.source.String() + "\n" + in.Validator))
		etag, cacheControl = hex.EncodeToString(sum[:]), "public, max-age=3600"
		if notModified(r, etag) {
			return answerNotModified(w, etag, cacheControl)
		}
	}
	var body []byte
	if r.Method != http.MethodHead { // which probes nothing
		prober := h.app.prober(v, in)
		facts, err := prober.Facts(r.Context())
		if err != nil {
			return err
		}
		if body, err = json.Marshal(facts.Info(in.Size)); err != nil {
			return fmt.Errorf("writing the facts about a source: %w", err)
		}
		body = append(body, '\n')
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if etag != "" {
		w.Header().Set("ETag", `"`+etag+`"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl)
	_, _ = w.Write(body) // a client that is gone by now needs no answer
	return nil
}
