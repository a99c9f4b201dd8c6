package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// classify tells a file that cannot be had from trouble on our side, or on that of the place it is kept at. Only what
// depends on the path is the former: missing, forbidden, a loop, a name too long, a way out of the root. Any other
// error says nothing about the source, errors that nobody has thought of included.
func classify(err error) error {
	if isPathFault(err) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func isPathFault(err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return true
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return slices.Contains(pathFaults, errno)
	}
	return !errors.Is(err, os.ErrClosed) // os.Root's own: the path leads out of it
}
