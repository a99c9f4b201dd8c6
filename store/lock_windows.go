package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes an exclusive lock that ends with the process, however that ends.
func tryLock(f *os.File) lockState {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	switch {
	case err == nil:
		return lockTaken
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return lockHeld
	default:
		return lockUnknown
	}
}
