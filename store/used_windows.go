package store

import (
	"io/fs"
	"syscall"
	"time"
)

// lastUsed is the access time. The store sets it itself: Windows may be told not to.
func lastUsed(info fs.FileInfo) time.Time {
	if attributes, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return time.Unix(0, attributes.LastAccessTime.Nanoseconds())
	}
	return info.ModTime()
}
