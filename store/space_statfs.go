//go:build darwin || dragonfly || freebsd || linux

package store

import "golang.org/x/sys/unix"

// freeBytes is how much an ordinary user may still write where path lies. Where no more files can be made,
// whatever their size, that is nothing.
func freeBytes(path string) (n int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, false
	}
	if st.Files > 0 && st.Ffree == 0 {
		return 0, true
	}
	return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // their types differ between these systems
}
