package audioproxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// onSmallDisk has the server run where its store is a file system of so many kB. Only it sees that.
func (s *server) onSmallDisk(kilobytes int) {
	s.t.Helper()
	s.kill()
	if err := os.MkdirAll(s.store, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.wrap = []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		s.wrap = append(s.wrap, "--map-root-user")
	}
	s.wrap = append(s.wrap, "sh", "-euc",
		fmt.Sprintf(`mount -t tmpfs -o size=%dk tmpfs "$0"; exec "$@"`, kilobytes), s.store)
	s.start()
	s.store = filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "root", s.store)
}

func TestAFullDiskCostsNobodyTheirVariant(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, simple("slots 1", ""))
	temp := t.TempDir()
	s.env = []string{"TMPDIR=" + temp}
	s.onSmallDisk(1024)
	wav := func(seconds, n int) string {
		return s.url(fmt.Sprintf("f:wav/bd:16/t:0:%d/cb:%d", seconds, n), "music.wav")
	}
	const second = 44100 * 4 // bytes

	// Given a store that smaller variants have filled,
	for i := range 8 {
		if a := s.get(wav(1, i)); a.status != http.StatusOK || len(a.body) < second {
			t.Fatalf("variant %d: %d, %d bytes", i, a.status, len(a.body))
		}
	}
	// a larger one makes them go,
	if a := s.get(wav(4, 0)); a.status != http.StatusOK || a.err != nil || len(a.body) < 4*second {
		t.Errorf("a variant of 0.7 MB on a disk of 1 MB: %d, %d bytes, %v", a.status, len(a.body), a.err)
	}
	if a := s.get(wav(4, 0)); a.cache() != "HIT" {
		t.Errorf("then it is a %s", a.cache())
	}
	// one that does not fit at all is delivered without being kept,
	if a := s.get(wav(9, 0)); a.status != http.StatusOK || a.err != nil || len(a.body) < 9*second {
		t.Errorf("a variant of 1.6 MB on a disk of 1 MB: %d, %d bytes, %v", a.status, len(a.body), a.err)
	}
	waitFor(t, "the spool outside the store is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		return err == nil && len(left) == 0
	})
	if staged := s.staged(); len(staged) != 0 {
		t.Errorf("left in the store: %v", staged)
	}
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), `"stored":false`); n != 1 {
		t.Errorf("the log has %d lines of a variant that was not kept, want 1", n)
	}
	// and smaller ones go on being stored.
	s.get(wav(1, 100))
	if a := s.get(wav(1, 100)); a.cache() != "HIT" {
		t.Errorf("a small variant afterwards is a %s", a.cache())
	}
}

func TestWhereNothingFitsAnywhereClientsSeeAnError(t *testing.T) {
	s := newServer(t, simple("slots 1", ""))
	s.env = []string{"TMPDIR=" + filepath.Join(s.store, "tmp")} // on the same full disk
	s.onSmallDisk(256)
	if err := os.Mkdir(filepath.Join(s.store, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}

	a := s.get(s.url("f:wav/bd:16/t:0:9", "music.wav"))

	if a.err == nil && a.status == http.StatusOK {
		t.Errorf("got a complete 200 with %d bytes", len(a.body))
	}
	if a.status != http.StatusOK && a.code() != "render_failed" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	waitFor(t, "nothing partial is left", func() bool {
		left, err := filepath.Glob(filepath.Join(s.store, "tmp", "*"))
		return err == nil && len(left) == 0 && len(s.staged()) == 0 && len(s.stored()) == 0
	})
	if a := s.get(s.url("f:mp3/t:0:1", "speech.wav")); a.status != http.StatusOK {
		t.Errorf("a small variant afterwards: %d", a.status)
	}
}
