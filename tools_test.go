package audioproxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// N21: a relative path loaded, and then everything was 500: programs are run in folders of their own.
func TestProgramsMayBeNamedByRelativePaths(t *testing.T) {
	real := map[string]string{}
	for _, name := range []string{"ffmpeg", "ffprobe"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if real[name], err = filepath.EvalSymlinks(path); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(".", ".test-tools-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, path := range real {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for what, settings := range map[string]string{
		"with a dot":    fmt.Sprintf("ffmpeg ./%[1]s/ffmpeg\nffprobe ./%[1]s/ffprobe", filepath.Base(dir)),
		"without a dot": fmt.Sprintf("ffmpeg %[1]s/ffmpeg\nffprobe %[1]s/ffprobe", filepath.Base(dir)),
		"in PATH":       "",
	} {
		t.Run(what, func(t *testing.T) {
			if settings == "" { // exec.ErrDot
				t.Setenv("PATH", filepath.Base(dir))
			}
			s := newSite(t, simple(settings, ""))
			for _, options := range []string{"f:mp3/t:0:1", "f:flac/t:0:1", "f:peaks", "info"} {
				if a := s.get(s.url(options, "speech.mp3")); a.status != http.StatusOK || a.err != nil {
					t.Errorf("%s: %d %s", options, a.status, a.body)
				}
			}
		})
	}
	for _, missing := range []string{"./no/such/ffmpeg", "no-such-ffmpeg"} {
		if path, err := findProgram(missing); err == nil {
			t.Errorf("%s is found at %s", missing, path)
		}
	}
}
