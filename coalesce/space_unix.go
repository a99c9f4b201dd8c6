//go:build unix

package coalesce

import (
	"errors"
	"fmt"
	"syscall"
)

// spaceError makes what the system says of a full disk ErrNoSpace.
func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}
