package source_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A child that opens its descriptor anew, as ffmpeg does, reads everything however many others do.
func TestChildrenReadAtOnce(t *testing.T) {
	tr := newTree(t)
	content := strings.Repeat("0123456789abcdef", 1<<16)
	write(t, filepath.Join(tr.root, "long.wav"), content)
	in := tr.mustOpen(t, "long.wav")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cat := exec.Command("cat", "/proc/self/fd/3")
			cat.ExtraFiles = []*os.File{in.File}
			got, err := cat.Output()
			if err != nil || string(got) != content {
				t.Errorf("child read %d bytes and %v", len(got), err)
			}
		})
		wg.Go(func() {
			if got, err := io.ReadAll(in.Reader()); err != nil || string(got) != content {
				t.Errorf("reader read %d bytes and %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

// Whatever a client asks for, a refusal must not cost a descriptor.
func TestRefusalsKeepNothingOpen(t *testing.T) {
	tr := newTree(t)
	before := openDescriptors(t)
	for range 50 {
		for _, path := range []string{"fs/fifo.wav", "fs/directory.wav", "fs/loop-a.wav", "fs/link-escape-relative.wav", "fs/missing.wav"} {
			if in, err := tr.Open(t.Context(), path); err == nil {
				in.Close()
				t.Fatalf("%s: opened", path)
			}
		}
	}
	awaitDescriptors(t, before)
}

// awaitDescriptors waits until no more are open than there were: files are closed behind the caller's back, and the
// root a second later.
func awaitDescriptors(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); openDescriptors(t) > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors open, %d before", openDescriptors(t), before)
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}
