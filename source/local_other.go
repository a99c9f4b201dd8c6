//go:build !unix && !windows

package source

import "syscall"

const openFlags = 0

var pathFaults = []syscall.Errno{syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL}
