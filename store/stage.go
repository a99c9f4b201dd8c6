package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Stage is a private folder for one render.
type Stage struct{ dir string }

// Dir is the folder's path.
func (s *Stage) Dir() string { return s.dir }

// Remove deletes the folder with all that is left in it.
func (s *Stage) Remove() error { return os.RemoveAll(s.dir) }

// TempStage makes a private folder in the system's place for temporary files.
func TempStage() (*Stage, error) {
	dir, err := os.MkdirTemp("", "audio_proxy-")
	if err != nil {
		return nil, fmt.Errorf("making a folder to render into: %w", err)
	}
	return &Stage{dir}, nil
}

// stagingArea is the folder in which one process makes its stages. Several processes may share a store; each
// holds a lock on its own area for as long as it lives, which the kernel takes back however it ends. That is
// how another process knows what it may sweep.
type stagingArea struct {
	dir  string
	lock *os.File
}

const lockName = "lock"

// strangerAge is how old an area without a lock file must be before it counts as left behind: a process makes
// the folder first and locks it a moment later.
const strangerAge = time.Minute

func newStagingArea(parent string) (*stagingArea, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if locksWork && !tryLock(lock) {
		return nil, errors.Join(fmt.Errorf("locking %s", lock.Name()), lock.Close(), os.RemoveAll(dir))
	}
	return &stagingArea{dir: dir, lock: lock}, nil
}

// sweep removes the areas of processes that are gone. Failures are left for the next process: nothing depends
// on the space but the space.
func sweep(parent string) {
	areas, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, area := range areas {
		dir := filepath.Join(parent, area.Name())
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if info, err := area.Info(); err == nil && time.Since(info.ModTime()) > strangerAge {
				_ = os.RemoveAll(dir)
			}
		case err == nil:
			if tryLock(lock) {
				_ = os.RemoveAll(dir)
			}
			lock.Close()
		}
	}
}

func (a *stagingArea) stage() (*Stage, error) {
	dir, err := os.MkdirTemp(a.dir, "")
	if err != nil {
		return nil, fmt.Errorf("making a folder to render into: %w", err)
	}
	return &Stage{dir}, nil
}

func (a *stagingArea) close() error {
	return errors.Join(os.RemoveAll(a.dir), a.lock.Close())
}
