//go:build darwin || freebsd || netbsd

package store

import (
	"io/fs"
	"syscall"
	"time"
)

// lastUsed is the access time. The store sets it itself, so that mounting with noatime does no harm.
func lastUsed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Atimespec.Unix())
	}
	return info.ModTime()
}
