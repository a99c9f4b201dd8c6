package ffmpeg

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts the subprocess into a group of its own, and has the kernel end it when the server dies,
// however suddenly.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the process, ends what it left behind in its group, and returns its status. exited is called
// between the two: the process has ended by then but is not yet reaped, so that its number, and with it the
// number of its group, is still its own.
func reap(cmd *exec.Cmd, exited func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	exited()
	killGroup(cmd.Process)
	return cmd.Wait()
}
