package audioproxy

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// The corpus' file that nobody may read, asked for from a server that is bound by that. Root is not, so the server
// is started without the capabilities that make it so: they are the starting thread's, which ends with this test.
func TestAMasterThatMayNotBeReadIsNotThere(t *testing.T) {
	runtime.LockOSThread()
	const dropFromBoundingSet, overrideModes, readAll = 24, 1, 2 // PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
	if os.Geteuid() == 0 {
		for _, capability := range []uintptr{overrideModes, readAll} {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, dropFromBoundingSet, capability, 0); errno != 0 {
				t.Fatal(errno)
			}
		}
	}
	s := newServer(t, simple("", ""))
	if err := os.Chmod(filepath.Join(s.root, "speech.wav"), 0); err != nil {
		t.Fatal(err)
	}
	missing := s.get(s.url("", "nothing-here.wav"))
	for _, options := range []string{"", "f:peaks", "info"} {
		if got := s.get(s.url(options, "speech.wav")); got.status != notFound.status || !bytes.Equal(got.body, missing.body) {
			t.Errorf("%q of a file that may not be read: %d %s", options, got.status, got.body)
		}
	}
	if got := s.get(s.url("f:mp3/t:0:1", "music.wav")); got.status != plays.status {
		t.Errorf("a file that may be read: %d %s", got.status, got.body)
	}
}
