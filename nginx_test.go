//go:build nginx

package audioproxy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nginx starts an nginx in front of the site that keeps what it may, and returns its port and the folder it keeps
// it in.
func (s *site) nginx(httpVersion string) (port int, cache string) {
	s.t.Helper()
	port, dir := freePorts(s.t), s.t.TempDir()
	cache = filepath.Join(dir, "cache")
	// Workers of a master that is root give up their rights, and need a way to the folder.
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/log;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/temp; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	proxy_cache_path %[2]s keys_zone=variants:1m;
	server {
		listen 127.0.0.1:%[3]d;
		location / {
			proxy_pass http://127.0.0.1:%[4]d;
			proxy_set_header Host localhost:%[4]d;
			proxy_http_version %[5]s;
			proxy_cache variants;
			proxy_cache_valid 200 1h;
		}
	}
}
`, dir, cache, port, s.port, httpVersion)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // which is not in everybody's PATH
	}
	cmd := exec.Command(nginx, "-p", dir, "-c", filepath.Join(dir, "conf"))
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("nginx is needed for this test: %v", err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	waitFor(s.t, "nginx serves", func() bool {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/health", port))
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return port, cache
}

// keeps lists what a cache of nginx's keeps of variants.
func keeps(t *testing.T, cache string) (kept []string) {
	t.Helper()
	err := filepath.Walk(cache, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), "local://") {
				kept = append(kept, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// A render that broke off must look broken off to a cache in front too, whatever HTTP it speaks.
func TestACacheInFrontKeepsNoHalfVariant(t *testing.T) {
	for _, version := range []string{"1.0", "1.1"} {
		ffmpeg := script(t, toOutput+`i=0; while [ $i -lt 40 ]; do printf '%04096d' $i; i=$((i+1)); done; sleep 0.3; exit 1`)
		s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
		port, cache := s.nginx(version)
		through := func(options string) string {
			return strings.Replace(s.url(options, "speech.wav"), fmt.Sprintf("localhost:%d", s.port), fmt.Sprintf("127.0.0.1:%d", port), 1)
		}

		resp, err := s.open(t.Context(), http.MethodGet, through("f:mp3"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()

		// HTTP/1.0 waits for the end, and gets an error.
		if err == nil && (version == "1.1" || resp.StatusCode != http.StatusInternalServerError) {
			t.Errorf("HTTP/%s: %d, nginx passed %d bytes on as if they were all", version, resp.StatusCode, n)
		}
		s.reach(0, 0)
		if kept := keeps(t, cache); len(kept) != 0 {
			t.Errorf("HTTP/%s: nginx keeps %v", version, kept)
		}

		// Given an encoder that is well, the cache keeps the variant: it could have.
		s.load(simple("", ""))
		if a := s.get(through("f:mp3/t:0:1")); a.status != http.StatusOK || a.err != nil {
			t.Errorf("HTTP/%s: %d %v", version, a.status, a.err)
		}
		waitFor(t, "nginx keeps a whole variant", func() bool { return len(keeps(t, cache)) == 1 })
	}
}
