//go:build unix && !linux && !darwin

package store

import (
	"io/fs"
	"time"
)

// lastUsed is the time of writing here: what the access time is called differs between these systems.
func lastUsed(info fs.FileInfo) time.Time { return info.ModTime() }
