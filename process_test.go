package audioproxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// binaryDir is where binary puts its result, made for the test run.
var binaryDir string

// binary builds Caddy with the module, once for all tests, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "caddy")
	out, err := exec.Command("go", "build", "-o", path, "./cmd/caddy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if binaryDir, err = os.MkdirTemp("", "audioproxy-caddy-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(binaryDir)
	os.Exit(status)
}

// server is a site whose Caddy is a process of its own, so that it can be stopped and killed.
type server struct {
	*site
	cmd    *exec.Cmd
	config string
	log    string
	wrap   []string // a command that runs the server's, where one is needed
	env    []string // beside the test's own
}

// newServer starts `caddy run` with a Caddyfile over the demo audio.
func newServer(t *testing.T, caddyfile string) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{
		site:   &site{t: t, port: freePorts(t), root: filepath.Join(dir, "root"), store: filepath.Join(dir, "store")},
		config: filepath.Join(dir, "Caddyfile"),
		log:    filepath.Join(dir, "log"),
	}
	if err := os.Mkdir(s.root, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"music.wav", "speech.wav", "speech.mp3"} {
		s.master(name, "testdata/audio/"+name)
	}
	if err := os.WriteFile(s.config, []byte(s.fill(caddyfile)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			if log, err := os.ReadFile(s.log); err == nil {
				t.Logf("the end of the server's log:\n%s", log[max(0, len(log)-4000):])
			}
		}
	})
	return s
}

// start starts the process and returns when it serves.
func (s *server) start() {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatalf("building Caddy: %v", err)
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	command := append(slices.Clone(s.wrap), path, "run", "--config", s.config)
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Dir(s.config), "XDG_CONFIG_HOME="+filepath.Dir(s.config))
	s.cmd.Env = append(s.cmd.Env, s.env...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, "the server serves", func() bool {
		resp, err := http.Get("http://localhost:" + strconv.Itoa(s.port) + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// kill ends the process at once, and returns when it is gone.
func (s *server) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// terminate asks the process to exit, as `caddy stop` and a service manager do.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}
