//go:build unix

package source

import "syscall"

// openFlags make opening harmless whatever is there: a FIFO without a writer does not block, and a terminal does not
// become ours. Neither means anything to a regular file.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// pathFaults are the errors that say something about a path, besides ENOENT, EACCES and EPERM. EISDIR is what opening a
// folder is on some systems, EINVAL and EILSEQ a name that the file system can't have.
var pathFaults = []syscall.Errno{
	syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EINVAL, syscall.EILSEQ,
}
