//go:build unix && !linux

package ffmpeg

import (
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process and ends what it left behind in its group. The process is reaped first: that its
// number is given to another group in between is a chance these systems leave us.
func reap(cmd *exec.Cmd, exited func()) error {
	err := cmd.Wait()
	exited()
	killGroup(cmd.Process)
	return err
}
