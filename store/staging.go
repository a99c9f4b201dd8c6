package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// stagingArea is the folder in which one process makes its stages. Several processes may share a store; each
// holds a lock on its own area for as long as it lives, which the kernel takes back however it ends. That is
// how another process knows what it may sweep.
type stagingArea struct {
	parent, pattern string

	mu     sync.Mutex
	dir    string
	lock   *os.File // nil: there is no folder yet
	closed bool
}

const (
	lockName = "lock"

	// stagingPattern names the areas in a store: there is nothing else in their folder.
	stagingPattern = "*"

	// strangerAge is how old an area without a lock file must be before it counts as left behind: a process
	// makes the folder first and locks it a moment later.
	strangerAge = time.Minute

	// abandonedAge is how long ago the last stage of an area must have been made where there are no locks to
	// tell whether its process lives. One that does makes itself a new area.
	abandonedAge = 24 * time.Hour

	// areaAttempts is how often a new area may be swept away before it is locked.
	areaAttempts = 100
)

// lockState is what became of trying to lock a file.
type lockState int

const (
	lockTaken   lockState = iota // by us
	lockHeld                     // by somebody who lives
	lockUnknown                  // there are no locks here
)

// newStagingArea makes an area in parent, which must exist.
func newStagingArea(parent, pattern string) (*stagingArea, error) {
	a := &stagingArea{parent: parent, pattern: pattern}
	if err := a.renew(); err != nil {
		return nil, err
	}
	return a, nil
}

// renew makes the area a new folder. Between its making and its locking another process may take it for left behind:
// then the next one has better luck.
func (a *stagingArea) renew() error {
	a.unlock()
	for attempt := 1; ; attempt++ {
		dir, err := os.MkdirTemp(a.parent, a.pattern)
		if err != nil {
			return err
		}
		lock, err := lockArea(dir)
		if err == nil {
			a.dir, a.lock = dir, lock
			return nil
		}
		err = errors.Join(err, os.RemoveAll(dir))
		if attempt == areaAttempts || isFull(err) {
			return err
		}
	}
}

func (a *stagingArea) unlock() {
	if a.lock != nil {
		a.lock.Close()
		a.lock = nil
	}
}

func lockArea(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if tryLock(lock) == lockHeld {
		lock.Close()
		return nil, fmt.Errorf("%s was taken for left behind", dir)
	}
	// Locked, but perhaps after somebody else had locked, removed and let go of it.
	if !stillAt(lock, path) {
		lock.Close()
		return nil, fmt.Errorf("%s was swept away", dir)
	}
	return lock, nil
}

func stillAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// stage makes a private folder in the area. An area that somebody removed is made anew.
func (a *stagingArea) stage() (*Stage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("making a folder to render into: %w", fs.ErrClosed)
	}
	dir, err := a.makeStage()
	if err != nil {
		return nil, fmt.Errorf("making a folder to render into: %w", err)
	}
	return &Stage{dir: dir}, nil
}

func (a *stagingArea) makeStage() (string, error) {
	if a.lock != nil {
		dir, err := os.MkdirTemp(a.dir, "")
		if !errors.Is(err, fs.ErrNotExist) {
			return dir, err
		}
	}
	if err := os.MkdirAll(a.parent, 0o700); err != nil {
		return "", err
	}
	if err := a.renew(); err != nil {
		return "", err
	}
	return os.MkdirTemp(a.dir, "")
}

// close removes the area with all stages in it. Closing twice is harmless.
func (a *stagingArea) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.unlock() // first: Windows removes no open file
	if a.dir == "" {
		return nil
	}
	return removeAll(a.dir)
}

// sweep removes the areas in parent, named by that pattern, whose processes are gone. Failures are left for the
// next time: nothing depends on the space but the space.
func sweep(parent, pattern string) {
	areas, _ := os.ReadDir(parent)
	for _, area := range areas {
		if ours, _ := filepath.Match(pattern, area.Name()); ours {
			sweepArea(filepath.Join(parent, area.Name()))
		}
	}
}

func sweepArea(dir string) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		return
	}
	state := tryLock(lock)
	sweepable := state == lockTaken || state == lockUnknown && olderThan(dir, abandonedAge)
	if sweepable {
		// Under the lock: a process that has just made this area must not come to believe that it has it.
		_ = os.RemoveAll(dir)
	}
	lock.Close()
	if sweepable {
		_ = os.RemoveAll(dir) // once more without: Windows removes no open file
	}
}

// sweepUnlocked removes what is in parent and has no lock file though it is older than any area is without one.
func sweepUnlocked(parent string) {
	areas, _ := os.ReadDir(parent)
	for _, area := range areas {
		dir := filepath.Join(parent, area.Name())
		_, err := os.Lstat(filepath.Join(dir, lockName))
		if errors.Is(err, fs.ErrNotExist) && olderThan(dir, strangerAge) {
			_ = os.RemoveAll(dir)
		}
	}
}

func olderThan(path string, age time.Duration) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > age
}
