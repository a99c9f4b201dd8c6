package audioproxy

import (
	"encoding/json"
	"net/http"
)

// serveHealth answers whether Caddy and this handler are alive, whatever the load.
func serveHealth(w http.ResponseWriter, r *http.Request) error {
	return writeState(w, r, http.StatusOK, map[string]any{"status": "ok"})
}

// readiness is the answer of /ready.
type readiness struct {
	Status    string `json:"status"`
	Queued    int    `json:"queued"`
	Threshold int    `json:"threshold"`
}

// serveReady answers whether this process should be sent more work: 503 from the moment the queue reaches its
// threshold until it is down to half of that.
func (h *Handler) serveReady(w http.ResponseWriter, r *http.Request) error {
	ready, queued, threshold := h.app.engine.budget.Ready()
	state, status := readiness{"ready", queued, threshold}, http.StatusOK
	if !ready {
		state.Status, status = "not_ready", http.StatusServiceUnavailable
	}
	return writeState(w, r, status, state)
}

// writeState answers with JSON about this very moment.
func writeState(w http.ResponseWriter, r *http.Request, status int, state any) error {
	body, err := json.Marshal(state)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", noStore)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // a client that is gone by now needs no answer
	}
	return nil
}
