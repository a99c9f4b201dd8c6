//go:build !unix

package source

import "os"

const openFlags = 0

// troubles are not the path's fault.
var troubles = []error{os.ErrClosed}
