//go:build darwin || freebsd || netbsd

package source

import (
	"fmt"
	"io/fs"
	"syscall"
)

// revision is made of inode and the time of the last change, which nobody can set.
func revision(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x", st.Dev, st.Ino, st.Ctimespec.Nano())
}
