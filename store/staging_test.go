package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAStageIsPrivateAndEmpty(t *testing.T) {
	s := newStore(t, 1<<20)
	for name, place := range map[string]func() (*Stage, error){"of the store": s.Stage, "in the temporary folder": TempStage} {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			one, err := place()
			must(t, err)
			two, err := place()
			must(t, err)
			if one.Dir() == two.Dir() {
				t.Error("two have one folder")
			}
			if names, err := readNames(one.Dir()); err != nil || len(names) != 0 {
				t.Errorf("there is %v in it already (%v)", names, err)
			}
			info, err := os.Stat(one.Dir())
			must(t, err)
			if info.Mode().Perm() != 0o700 {
				t.Errorf("its mode is %v", info.Mode())
			}
			write(t, filepath.Join(one.Dir(), "live"), []byte("left over"))
			must(t, one.Remove())
			must(t, two.Remove())
			if exists(one.Dir()) {
				t.Error("it is still there")
			}
			if names, _ := readNames(temporary); len(names) != 0 {
				t.Errorf("%v were left", names)
			}
		})
	}
}

func TestAClosedStoreHasNoStages(t *testing.T) {
	s := newStore(t, 1<<20)
	stage, err := s.Stage()
	must(t, err)
	must(t, s.Close())
	if exists(stage.Dir()) {
		t.Error("a stage is still there")
	}
	_, err = s.Stage()
	mustBe(t, err, fs.ErrClosed)
	if names, _ := readNames(filepath.Join(s.dir, stagingName)); len(names) != 0 {
		t.Errorf("%v were left", names)
	}
}

func TestAnAreaThatSomebodyRemovedIsMadeAnew(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	must(t, os.RemoveAll(filepath.Join(s.dir, stagingName)))
	s.put(id, 100)
	s.other() // which sweeps
	s.put(id, 200)
	checkWhole(t, s.open(id))
}

func TestOnlyWhatIsLeftBehindIsSwept(t *testing.T) {
	for name, test := range map[string]struct {
		locked bool // there is a lock file, which nobody holds
		held   bool // somebody does
		age    time.Duration
		stays  bool
	}{
		"its process is gone":     {locked: true},
		"its process lives":       {locked: true, held: true, age: 48 * time.Hour, stays: true},
		"it is just being made":   {age: strangerAge / 2, stays: true},
		"it was never quite made": {age: strangerAge + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			area := filepath.Join(dir, stagingName, "12345")
			write(t, filepath.Join(area, "678", "live"), []byte("half a song"))
			if test.locked {
				lock, err := os.Create(filepath.Join(area, lockName))
				must(t, err)
				defer lock.Close()
				if test.held && tryLock(lock) != lockTaken {
					t.Fatal("cannot lock")
				}
			}
			then := time.Now().Add(-test.age)
			must(t, os.Chtimes(area, then, then))
			s := openStore(t, dir, 1<<20, newClock())
			s.system.free = func(string) (int64, bool) { return 0, true }
			if exists(area) != test.stays {
				t.Errorf("it stays: %v, want %v", !test.stays, test.stays)
			}
		})
	}
}

func TestMakeRoomSweepsWhatDiedMeanwhile(t *testing.T) {
	s := newStore(t, 1<<20)
	area := filepath.Join(s.dir, stagingName, "12345")
	write(t, filepath.Join(area, lockName), nil)
	s.MakeRoom(1)
	if exists(area) {
		t.Error("it is still there")
	}
	if _, err := s.Stage(); err != nil {
		t.Errorf("its own area went too: %v", err)
	}
}

// TestAnAreaIsLockedOrMadeAgain has one sweep after another run while areas are made: whoever got an area has it.
func TestAnAreaIsLockedOrMadeAgain(t *testing.T) {
	parent := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				sweep(parent, stagingPattern)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 300 {
		area, err := newStagingArea(parent, stagingPattern)
		must(t, err)
		dir := area.dir
		stage, err := area.stage()
		must(t, err)
		if filepath.Dir(stage.Dir()) != dir {
			t.Fatal("its area was swept away under it")
		}
		must(t, area.close())
	}
}

func TestOthersTemporaryFoldersAreLeftAlone(t *testing.T) {
	temporary := t.TempDir()
	for _, name := range []string{"audio_proxy", "audio_proxy-spool-1", "somebody's"} {
		write(t, filepath.Join(temporary, name, "file"), nil)
		old := time.Now().Add(-48 * time.Hour)
		must(t, os.Chtimes(filepath.Join(temporary, name), old, old))
	}
	write(t, filepath.Join(temporary, "somebody's", lockName), nil)
	write(t, filepath.Join(temporary, "audio_proxy-spool-2", lockName), nil)
	sweep(temporary, tempPattern)
	if left := len(filesIn(t, temporary)); left != 4 {
		t.Errorf("%d files are left, want all but that of a dead process", left)
	}
}

func TestCheckDirMakesNothing(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "file"), nil)
	must(t, os.Symlink("nowhere", filepath.Join(root, "dangling")))
	must(t, os.Mkdir(filepath.Join(root, "folder"), 0o700))
	for path, want := range map[string]bool{
		"folder":          true,
		"folder/new":      true,
		"folder/new/next": true,
		"file":            false,
		"file/new":        false,
		"dangling":        false,
		"dangling/new":    false,
	} {
		err := CheckDir(filepath.Join(root, path))
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	var names []string
	must(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	if len(names) != 4 {
		t.Errorf("there are now %v", names)
	}
}

// A killed process's lock can outlive it for a moment: what it left is found by a second look.
func TestWhatWasLockedForAMomentIsSweptLater(t *testing.T) {
	dir := t.TempDir()
	parent := filepath.Join(dir, stagingName)
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	dead, err := newStagingArea(parent, stagingPattern)
	if err != nil {
		t.Fatal(err)
	}
	left, err := dead.stage()
	if err != nil {
		t.Fatal(err)
	}
	late := theSystem
	late.sweepAgain = 200 * time.Millisecond
	s, err := openFileSystem(dir, 1<<20, nil, late)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(left.Dir()); err != nil {
		t.Fatalf("swept while it was locked: %v", err)
	}

	dead.lock.Close()

	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(left.Dir()); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("never swept")
		}
	}
}
