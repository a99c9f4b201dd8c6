package store

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process without descriptors can list no folder, and so remove none. What it had to leave goes later.
func TestAStageThatCannotBeRemovedGoesLater(t *testing.T) {
	area, err := newStagingArea(t.TempDir(), stagingPattern)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := area.stage()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stage.Dir()+"/live", []byte("half a song"), 0o600); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	removeErr := stage.Remove()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(removeErr, unix.EMFILE) {
		t.Fatalf("removed without descriptors: %v", removeErr)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(stage.Dir()); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still there")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := area.close(); err != nil {
		t.Error(err)
	}
}
