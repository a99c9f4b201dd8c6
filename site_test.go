package audioproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// site is a Caddy that runs in this process with one Caddyfile, and what a test asks of it.
type site struct {
	t     *testing.T
	port  int
	root  string       // the masters
	store string       // where finished variants go
	loads atomic.Int32 // of configs; more than one is a reload
}

// placeholders of a Caddyfile in a test: {port} {port2} {root} {store}, and whatever else the test fills in.
func (s *site) fill(caddyfile string) string {
	return strings.NewReplacer(
		"{port}", strconv.Itoa(s.port),
		"{port2}", strconv.Itoa(s.port+1),
		"{root}", s.root,
		"{store}", s.store,
	).Replace(caddyfile)
}

// newSite starts Caddy with a Caddyfile, over a root that holds the demo audio. Tests that use it run one after
// another: a process has one Caddy.
func newSite(t *testing.T, caddyfile string) *site {
	t.Helper()
	s := &site{t: t, port: freePorts(t), root: t.TempDir(), store: filepath.Join(t.TempDir(), "store")}
	for _, name := range []string{"music.wav", "speech.wav", "speech.mp3"} {
		s.master(name, "testdata/audio/"+name)
	}
	s.load(caddyfile)
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	return s
}

// simple is a site with the given global options and directive lines.
func simple(global, directive string) string {
	return `{
	admin off
	persist_config off
	grace_period 5s
	audio_proxy {
		store file_system {store}
		` + global + `
	}
}
http://localhost:{port} {
	audio_proxy {
		source local {root}
		insecure
		` + directive + `
	}
}
`
}

// load loads a Caddyfile, as `caddy reload` does.
func (s *site) load(caddyfile string) {
	s.t.Helper()
	if err := s.tryLoad(caddyfile); err != nil {
		s.t.Fatalf("loading the Caddyfile: %v", err)
	}
}

func (s *site) tryLoad(caddyfile string) error {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.fill(caddyfile)), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	s.loads.Add(1)
	return caddy.Load(config, true)
}

// master puts a file into the root.
func (s *site) master(name, from string) {
	s.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// generate makes a master of so many seconds with ffmpeg's own synthesizer.
func (s *site) generate(name string, seconds int) {
	s.t.Helper()
	run(s.t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i",
		fmt.Sprintf("aevalsrc=0.3*sin(220*2*PI*t)*sin(0.1*PI*t)+0.1*random(0):s=44100:d=%d", seconds),
		"-c:a", "pcm_s16le", filepath.Join(s.root, name))
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// url is the unsigned URL of a variant of a local master.
func (s *site) url(options, source string) string {
	if options != "" {
		options += "/"
	}
	return fmt.Sprintf("http://localhost:%d/insecure/%splain/local://%s", s.port, options, source)
}

// answer is a response that has been read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body: a transfer that was broken off
}

func (a answer) cache() string { return a.header.Get("X-Audio-Proxy") }

// code is the error code of a JSON error.
func (a answer) code() string {
	var e struct{ Error, Message string }
	if json.Unmarshal(a.body, &e) != nil || e.Message == "" {
		return ""
	}
	return e.Error
}

// get asks for a URL. Header fields come as name, value, name, value.
func (s *site) get(url string, header ...string) answer {
	s.t.Helper()
	return s.do(s.t.Context(), http.MethodGet, url, header...)
}

func (s *site) do(ctx context.Context, method, url string, header ...string) answer {
	s.t.Helper()
	resp, err := s.open(ctx, method, url, header...)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, url, err)
		return answer{err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body, err}
}

// open sends a request over a connection of its own and returns when the header of its answer is there.
func (s *site) open(ctx context.Context, method, url string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return s.send(req)
}

// send sends a request over a connection of its own, and again while a reload may have cost it: Caddy opens a new
// socket at each, and the kernel resets connections that still wait at the old one (unless net.ipv4.tcp_migrate_req
// is on). No handler ever sees those.
func (s *site) send(req *http.Request) (resp *http.Response, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	eventually(2*time.Second, func() bool {
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return true
			}
		}
		resp, err = client.Do(req)
		return s.loads.Load() < 2 || !isReset(err)
	})
	return resp, err
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) }

// freePorts finds two neighbouring ports that nobody listens on.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 50 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+1))
		first.Close()
		if err == nil {
			second.Close()
			return port
		}
	}
	t.Fatal("no two free ports beside each other")
	return 0
}

// waitFor waits until a condition holds: the tests' only way of waiting.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !eventually(20*time.Second, condition) {
		t.Fatalf("waited in vain until %s", what)
	}
}

func eventually(within time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(within)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// theEngine is the engine that the running Caddy uses.
func theEngine(t *testing.T) *engine {
	t.Helper()
	engines := pooled[*engine](enginePool)
	if len(engines) != 1 {
		t.Fatalf("there are %d engines, not 1", len(engines))
	}
	return engines[0]
}

// isIdle reports whether nothing of a render is left: no slot, no queue place, no flight, no subprocess, and
// nothing in the staging folder but its lock.
func (s *site) isIdle() bool { return s.remains() == "" }

// awaitIdle waits until nothing of a render is left.
func (s *site) awaitIdle() {
	s.t.Helper()
	if eventually(20*time.Second, s.isIdle) {
		return
	}
	s.t.Fatalf("this is left of renders: %s", s.remains())
}

// remains tells what is left of renders.
func (s *site) remains() string {
	e := theEngine(s.t)
	var left []string
	note := func(what string, n int) {
		if n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	stats := e.budget.Stats()
	note("slots held", stats.Held)
	note("waiters", stats.Queued)
	note("flights", len(e.flights.Flights()))
	note("staged folders", len(s.staged()))
	for _, pid := range children(s.t) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		left = append(left, fmt.Sprintf("process %d %q", pid, command))
	}
	return strings.Join(left, ", ")
}

// staged lists the folders of renders in the store's staging area.
func (s *site) staged() []string {
	found, _ := filepath.Glob(filepath.Join(s.store, "staging", "*", "*"))
	staged := found[:0]
	for _, path := range found {
		if filepath.Base(path) != "lock" {
			staged = append(staged, path)
		}
	}
	return staged
}

// stored lists the finished variants in the store's folder.
func (s *site) stored() []string {
	found, err := filepath.Glob(filepath.Join(s.store, "????????????????", "??", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// encoders counts the ffmpegs that a script was started as.
type encoders struct {
	path string // to configure as ffmpeg
	log  string
	mu   sync.Mutex
}

// script makes an executable that logs its process ID and then goes on as the shell text says; "$@" are the
// arguments, and `exec ffmpeg "$@"` is the real thing.
func script(t *testing.T, text string) *encoders {
	t.Helper()
	dir := t.TempDir()
	e := &encoders{path: filepath.Join(dir, "ffmpeg"), log: filepath.Join(dir, "pids")}
	content := "#!/bin/sh\ncase \" $* \" in *\" -i \"*) ;; *) exec ffmpeg \"$@\";; esac\necho $$ >> " + e.log + "; echo \"$*\" >> " + e.log + ".args\n" + text + "\n"
	if err := os.WriteFile(e.path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return e
}

// counting is an ffmpeg that is counted.
func counting(t *testing.T) *encoders { return script(t, `exec ffmpeg "$@"`) }

// toOutput is shell text that sends what follows to the output file.
const toOutput = `for o; do :; done; exec >"${o#file:}"; `

// pids are the process IDs that were started, in order.
func (e *encoders) pids() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	content, err := os.ReadFile(e.log)
	if err != nil {
		return nil
	}
	var pids []int
	for _, line := range strings.Fields(string(content)) {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
