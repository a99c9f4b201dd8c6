//go:build unix

package store

import (
	"errors"
	"syscall"
)

// isFull reports whether the system refused something for want of space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
