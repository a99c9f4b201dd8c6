//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package source

import "io/fs"

// revision is not known here.
func revision(fs.FileInfo) string { return "" }
