package store

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A full disk: a tmpfs of a megabyte in a mount namespace of its own, which vanishes with the process, where the
// system allows it; otherwise one that is made up. What is tested is the same.

const (
	diskSize     = 1 << 20
	diskVariable = "STORE_TEST_SMALL_DISK"
)

func TestDiskFull(t *testing.T) {
	if dir := os.Getenv(diskVariable); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); errors.Is(err, os.ErrPermission) {
			t.Skip(err) // what started this has filled the made-up disk
		} else if err != nil {
			t.Fatal(err)
		}
		testDiskFull(t, dir, realDisk{})
		return
	}
	t.Run("made up", func(t *testing.T) {
		dir := t.TempDir()
		testDiskFull(t, dir, madeUpDisk{t, dir})
	})
	t.Run("tmpfs", func(t *testing.T) {
		if out, err := inNamespace(t, "^TestDiskFull$"); err != nil {
			t.Errorf("%v\n%s", err, out)
		} else if out == nil {
			t.Log("nothing can be mounted here: only the made-up disk was filled")
		}
	})
}

// inNamespace runs a test again where it may mount things. It returns nothing where that is not allowed.
func inNamespace(t *testing.T, test string) ([]byte, error) {
	t.Helper()
	attributes := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd := child(t, "", t.TempDir())
	cmd.Args = append(cmd.Args, "-test.run="+test)
	cmd.Env = append(cmd.Env, taskVariable+"=", diskVariable+"="+t.TempDir())
	cmd.SysProcAttr = attributes
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, nil // it could not even be started
	}
	return out, err
}

// disk is what a render writes to.
type disk interface {
	write(path string, n int) error
	system(system) system
}

type realDisk struct{}

func (realDisk) write(path string, n int) error { return os.WriteFile(path, make([]byte, n), 0o600) }
func (realDisk) system(s system) system         { return s }

type madeUpDisk struct {
	t   *testing.T
	dir string
}

func (d madeUpDisk) free(string) (int64, bool) {
	free := int64(diskSize)
	for _, info := range filesIn(d.t, d.dir) {
		free -= (info.Size() + 4095) &^ 4095
	}
	return free, true
}

func (d madeUpDisk) write(path string, n int) error {
	if free, _ := d.free(d.dir); free < int64(n) {
		_ = os.WriteFile(path, make([]byte, free), 0o600)
		return syscall.ENOSPC
	}
	return os.WriteFile(path, make([]byte, n), 0o600)
}

func (d madeUpDisk) system(s system) system {
	s.free = d.free
	return s
}

// testDiskFull renders more than the disk holds, into a store that may keep more than the disk holds.
func testDiskFull(t *testing.T, dir string, disk disk) {
	clock := newClock()
	s, err := openFileSystem(dir, 1<<30, nil, disk.system(testSystem(clock)))
	must(t, err)
	defer s.Close()
	all := ids(60)
	render := func(id ID, size int) error {
		stage, err := s.Stage()
		if err != nil {
			return err
		}
		defer stage.Remove()
		path := filepath.Join(stage.Dir(), "final")
		if err := disk.write(path, size); err != nil {
			return err
		}
		return s.Put(id, path)
	}

	// Given a variant that is being read and a disk that is full of others,
	must(t, render(all[0], 50<<10))
	reading, err := s.Open(all[0])
	must(t, err)
	defer reading.Close()
	clock.advance(usePrecision)
	last := 0
	for err = nil; err == nil && last < len(all)-3; {
		last++
		err = render(all[last], 50<<10)
	}
	if !isFull(err) {
		t.Fatalf("after %d variants of 50 kB on a megabyte: %v", last, err)
	}
	// when room is asked for, then the oldest go, and only as many as it takes,
	if !s.MakeRoom(100 << 10) {
		t.Fatal("it gave nothing up")
	}
	must(t, render(all[last], 50<<10))
	must(t, render(all[last+1], 50<<10))
	if given := s.Stats().Evictions; given < 1 || given > 3 {
		t.Errorf("%d variants of 50 kB were given up for 100 kB", given)
	}
	if _, err := s.Stat(all[last-1]); err != nil {
		t.Error("one that was young was given up:", err)
	}
	if _, err := s.Stat(all[0]); err != nil {
		t.Error("one that is read was given up:", err)
	}
	// what can never fit leaves nothing behind,
	s.MakeRoom(2 << 20)
	if err := render(all[last+1], 2<<20); !isFull(err) {
		t.Error("two megabytes on one:", err)
	}
	test := &testStore{s, t, clock}
	test.checkAccounts()
	if files, _ := onDisk(t, dir); files != 1 {
		t.Errorf("%d variants are left, want the one that is read", files)
	}
	// smaller ones are kept again, and a store opens on a full disk.
	for err = nil; err == nil; {
		last--
		err = render(all[last], 50<<10)
	}
	again, err := openFileSystem(dir, 1<<30, nil, s.system)
	must(t, err)
	if again.Stats().Files < 10 {
		t.Errorf("%d variants were kept", again.Stats().Files)
	}
	must(t, again.Close())
}

func TestPutMakesRoomForAName(t *testing.T) {
	s, all := newStore(t, 1<<20), ids(3)
	s.put(all[0], placeRoom)
	s.put(all[1], placeRoom)
	s.system.free = func(string) (int64, bool) { return 0, true }
	full := true
	s.system.rename = func(from, to string) error {
		if full {
			full = false
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.ENOSPC}
		}
		return os.Rename(from, to)
	}
	s.put(all[2], 100)
	if kept := s.kept(all...); kept != "1 2" {
		t.Errorf("kept %s, want 1 2", kept)
	}
	s.checkAccounts()
}
