package audioproxy

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
)

// findProgram finds a program by its name in PATH or by its path. What it returns is absolute: programs are run in
// folders of their own, where a relative path would lead elsewhere.
//
// A relative folder in PATH counts, since the operator put it there. Windows searches the current directory unasked; what
// is found there is refused.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && (!errors.Is(err, exec.ErrDot) || runtime.GOOS == "windows") {
		return "", err
	}
	return filepath.Abs(path)
}
