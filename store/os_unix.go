//go:build unix

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

const locksWork = true

// tryLock takes an exclusive lock that ends with the process.
func tryLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// freeBytes is how much an ordinary user may still write where path lies.
func freeBytes(path string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

// writable reports whether this process may make entries in the folder.
func writable(dir string) error {
	return unix.Access(dir, unix.W_OK|unix.X_OK)
}
