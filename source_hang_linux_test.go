package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Case S1: a folder that hangs. It is a FUSE mount whose server never answers, as one looks whose server has died:
// system calls on it do not return.

// mountVariable is set in a process that may mount things.
const mountVariable = "AUDIO_PROXY_TEST_MOUNTS"

// mayMount runs the test again where it may mount things, and reports whether that is here.
func mayMount(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountVariable) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), mountVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); ran {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-8000):])
	} else if err != nil {
		t.Logf("nothing can be mounted here (%v); package source has tried the same with calls that hang", err)
	}
	return false
}

// hang makes a folder hang.
func hang(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fuse, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse)
	if err := syscall.Mount("hang", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		_ = syscall.Close(fuse) // which answers all calls, with an error
	})
}

// threads is how many the process has.
func threads(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// hangingServer starts a server with a site that serves the demo audio, and one whose folder hangs from then on. It
// returns the base URL of that one.
func hangingServer(t *testing.T, probeTimeout string) (s *server, url string) {
	t.Helper()
	stuck := t.TempDir()
	s = newServer(t, strings.NewReplacer("{stuck}", stuck, "{timeout}", probeTimeout).Replace(`{
	admin off
	persist_config off
	grace_period 2s
	audio_proxy {
		store file_system {store}
		probe_timeout {timeout}
	}
}
http://localhost:{port} {
	audio_proxy {
		source local {root}
		insecure
	}
}
http://localhost:{port2} {
	handle_path /fixed/* {
		audio_proxy {
			source local {stuck}
			variant f:mp3
		}
	}
	audio_proxy {
		source local {stuck}
		insecure
		freshness revalidate
	}
}
`))
	hang(t, stuck)
	return s, fmt.Sprintf("http://localhost:%d", s.port+1)
}

func TestAFolderThatHangsCostsItsRequestsAndNobodyElse(t *testing.T) {
	if !mayMount(t) {
		return
	}
	s, stuck := hangingServer(t, "1s")
	urls := []string{
		stuck + "/insecure/f:mp3/plain/local://song.wav", stuck + "/insecure/f:flac/t:0:1/plain/local://album/song.wav",
		stuck + "/insecure/info/plain/local://song.wav", stuck + "/fixed/song.mp3",
	}
	before := threads(t, s.cmd.Process.Pid)
	var clients sync.WaitGroup
	const requests = 200
	most := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range requests {
		clients.Go(func() {
			began := time.Now()
			a := s.do(ctx, http.MethodGet, urls[i%len(urls)])
			if a.status != http.StatusBadGateway || a.code() != "upstream_unavailable" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s after %v", urls[i%len(urls)], a.status, a.body, time.Since(began))
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); clients.Wait() }()
	for answered := false; !answered; {
		select {
		case <-done:
			answered = true
		case <-time.After(20 * time.Millisecond):
			most = max(most, threads(t, s.cmd.Process.Pid))
		}
	}
	// At most 32 calls on the folder; the rest is Go's own and what the other requests take.
	if most > before+32+30 {
		t.Errorf("%d threads, %d before", most, before)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "speech.wav")); a.status != http.StatusOK {
		t.Errorf("the other site: %d %s", a.status, a.body)
	}
	if a := s.get(urls[0]); a.status != http.StatusBadGateway {
		t.Errorf("and the one that hangs: %d %s", a.status, a.body)
	}
}

func TestAFolderThatHangsDoesNotKeepTheServerFromExiting(t *testing.T) {
	if !mayMount(t) {
		return
	}
	s, stuck := hangingServer(t, "1m")
	before := threads(t, s.cmd.Process.Pid)
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			if resp, err := s.open(t.Context(), http.MethodGet, stuck+"/insecure/f:mp3/plain/local://song.wav"); err == nil {
				resp.Body.Close()
			}
		})
	}
	waitFor(t, "calls hang", func() bool { return threads(t, s.cmd.Process.Pid) >= before+24 })
	told := time.Now()
	s.terminate()
	exited := make(chan error, 1)
	go func() { exited <- s.cmd.Wait() }()
	select {
	case err := <-exited:
		t.Logf("ended after %v: %v", time.Since(told), err)
	case <-time.After(30 * time.Second): // grace_period is 2 s, but the machine may be busy; the requests have a minute
		t.Errorf("still there after %v", time.Since(told))
		_ = s.cmd.Process.Kill()
		<-exited
	}
	clients.Wait()
}
