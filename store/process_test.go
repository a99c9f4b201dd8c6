package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Other processes: the test binary, started again with a task.

const (
	taskVariable   = "STORE_TEST_TASK"
	folderVariable = "STORE_TEST_FOLDER"

	childBound = 200 << 10 // how much the children's stores may keep
)

var tasks = map[string]func(dir string) error{
	"churn": func(dir string) error { return churn(dir, -1) },
	"share": func(dir string) error { return churn(dir, 300) },
	"check": func(dir string) error { return CheckDir(dir) },
	"stage": leaveStage,
}

func child(t *testing.T, task, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), taskVariable+"="+task, folderVariable+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// start runs a child until it has said that it is ready.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err, cmd.Wait())
	}
}

// kill ends a child as kill -9 does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed: that is what it says
}

// churn stages, puts, opens and evicts, as often as it is told, and checks what it opens.
func churn(dir string, times int) error {
	s, err := OpenFileSystem(dir, childBound, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	all := ids(40)
	for ; times != 0; times-- {
		id := all[rand.IntN(len(all))]
		if rand.IntN(2) == 0 {
			if err := tryPut(s, id, 1+rand.IntN(20<<10)); err != nil {
				return err
			}
		}
		if err := tryOpen(s, all[rand.IntN(len(all))]); err != nil {
			return err
		}
		if rand.IntN(20) == 0 {
			if err := s.Delete(id); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	return s.Close()
}

// tryOpen checks a variant, if the store has it.
func tryOpen(s Store, id ID) error {
	v, err := s.Open(id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer v.Close()
	return whole(v)
}

// leaveStage has something staged, in the store and outside, until it is killed.
func leaveStage(dir string) error {
	s, err := OpenFileSystem(dir, childBound, nil)
	if err != nil {
		return err
	}
	for _, place := range []func() (*Stage, error){s.Stage, TempStage} {
		stage, err := place()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage.Dir(), "live"), []byte("half a song"), 0o600); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin) // whose other end the test holds
	return err
}

func TestProcessesShareAFolder(t *testing.T) {
	dir := t.TempDir()
	var children []*exec.Cmd
	for range 3 {
		cmd := child(t, "share", dir)
		must(t, cmd.Start())
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Error("a process that shares the folder:", err)
		}
	}
	s := openStore(t, dir, childBound, newClock())
	checkAll(t, s)
}

// checkAll fails where anything but whole variants within the bound, every byte accounted for, and the store's
// own staging area are in the folder.
func checkAll(t *testing.T, s *testStore) {
	t.Helper()
	s.checkAccounts()
	for _, id := range ids(40) {
		if err := tryOpen(s, id); err != nil {
			t.Error(err)
		}
	}
	if _, size := onDisk(t, s.dir); size > s.bound() {
		t.Errorf("%d bytes are kept, more than %d", size, s.bound())
	}
	files, _ := onDisk(t, s.dir)
	if staged := len(filesIn(t, s.dir)) - int(files); staged != 1 {
		t.Errorf("%d files are in staging, want the lock alone", staged)
	}
}

// TestKilledAtAnyMoment kills a process that stages, puts, opens and evicts. The next one finds whole variants,
// and nothing else.
func TestKilledAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	for range 25 {
		cmd := child(t, "churn", dir)
		start(t, cmd)
		<-time.After(time.Duration(rand.Int64N(int64(40 * time.Millisecond)))) // a random moment, not a wait for anything
		kill(t, cmd)

		s := openStore(t, dir, childBound, newClock())
		checkAll(t, s)
		must(t, s.Close())
	}
	if files, _ := onDisk(t, dir); files < 5 {
		t.Errorf("only %d variants were ever put: this tests nothing", files)
	}
}

func TestOnlyTheDeadAreSweptAfter(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	dir := t.TempDir()
	cmd := child(t, "stage", dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	start(t, cmd)
	const ofTheChild = 4 // a lock and a file, in the store and outside

	openStore(t, dir, 1<<20, newClock()).MakeRoom(1)
	sweep(temporary, tempPattern)
	if files := len(filesIn(t, dir)) - 1 + len(filesIn(t, temporary)); files != ofTheChild {
		t.Errorf("%d files of the living process are left, want %d", files, ofTheChild)
	}
	kill(t, cmd)
	openStore(t, dir, 1<<20, newClock())
	sweep(temporary, tempPattern)
	if files := len(filesIn(t, dir)) - 2 + len(filesIn(t, temporary)); files != 0 {
		t.Errorf("%d files of the dead process are left", files)
	}
}
