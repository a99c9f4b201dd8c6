package source_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// mountVariable is set in a process that may mount things.
const mountVariable = "SOURCE_TEST_MOUNTS"

// N17: what is mounted at the root late is served, and what is mounted there can be unmounted while nobody asks for
// anything. The mounts are made in a namespace of their own, where the system allows one.
func TestMountsAtTheRoot(t *testing.T) {
	if os.Getenv(mountVariable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), mountVariable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Errorf("%v\n%s", err, out)
		} else if err != nil {
			t.Logf("nothing can be mounted here (%v); TestTheRootIsWhatHasItsNameNow has tried the same with links", err)
		}
		return
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "song.wav"), "below")
	local, err := source.OpenLocal(root)
	must(t, err)
	if got := seen(t, local, "song.wav"); got != "below" {
		t.Fatalf("%q", got)
	}
	must(t, syscall.Mount("tmpfs", root, "tmpfs", 0, "size=1m"))
	write(t, filepath.Join(root, "album/song.wav"), "mounted")
	write(t, filepath.Join(root, "song.wav"), "mounted")
	if got := seen(t, local, "album/song.wav"); got != "mounted" {
		t.Errorf("a file of the mount alone: %q", got)
	}
	soon(t, local, "song.wav", "mounted")

	if _, err := local.Existing(t.Context(), []string{"album/song.opus", "album/song.wav", "x.wav"}); err != nil { // lists two folders
		t.Fatal(err)
	}
	in, err := local.Open(t.Context(), "song.wav")
	must(t, err)
	must(t, in.Close())
	idle := time.Now()
	for errors.Is(syscall.Unmount(root, 0), syscall.EBUSY) {
		if time.Since(idle) > 5*time.Second {
			t.Fatal("the mount is still busy, though nobody asks for anything")
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("unmounted after %v", time.Since(idle))
	soon(t, local, "song.wav", "below")
}
