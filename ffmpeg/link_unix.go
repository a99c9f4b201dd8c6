//go:build unix

package ffmpeg

import (
	"fmt"
	"os"
	"path/filepath"
)

// descriptor is how a subprocess names its descriptor 3. On Linux this opens the file anew, with an offset of
// its own.
func descriptor() string {
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		return "/proc/self/fd/3"
	}
	return "/dev/fd/3"
}

// linkInput makes a name for target, the subprocess's descriptor 3, that keeps the source's extension, by which ffmpeg recognizes some
// formats, and returns it, relative to dir.
func linkInput(dir, ext, target string) (string, error) {
	name := "in" + ext
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		return "", fmt.Errorf("naming the source for ffmpeg: %w", err)
	}
	return name, nil
}
