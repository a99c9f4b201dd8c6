package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckDir reports why dir cannot hold a store, and makes nothing: the nearest folder that exists must be one
// that this process may list and write.
func CheckDir(dir string) error {
	if err := checkNearest(dir); err != nil {
		return err
	}
	// A store that another user opened first may have parts that only that user can write.
	return checkNearest(filepath.Join(dir, stagingName))
}

func checkNearest(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		case err == nil:
			if err := writable(dir); err != nil {
				return fmt.Errorf("folder %s is not writable: %w", dir, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
			return err
		}
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s is a link to nothing", dir)
		}
		dir = filepath.Dir(dir)
	}
}

// CheckTemp reports why there can be no folders among the system's temporary files, which is where TempStage makes
// them.
func CheckTemp() error {
	dir := os.TempDir()
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		err = errNoFolder
	case err == nil:
		err = writable(dir)
	}
	if err != nil {
		return fmt.Errorf("there is no place for temporary files (environment: TMPDIR): folder %s: %w", dir, err)
	}
	return nil
}
