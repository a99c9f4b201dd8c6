//go:build unix

package source

import (
	"os"
	"syscall"
)

// openFlags make opening harmless whatever is there: a FIFO without a writer does not block, and a terminal does not
// become ours. Neither means anything to a regular file.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// troubles are not the path's fault.
var troubles = []error{
	os.ErrClosed, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT,
}
