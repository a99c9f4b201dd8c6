package audioproxy

import "net/http"

// serveHealth answers whether Caddy and this handler are alive, whatever the load.
func serveHealth(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheNever)
	_, err := w.Write([]byte(`{"status":"ok"}` + "\n"))
	return err
}
