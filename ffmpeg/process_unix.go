//go:build unix

package ffmpeg

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func terminateGroup(leader *os.Process) { _ = unix.Kill(-leader.Pid, unix.SIGTERM) }

func killGroup(leader *os.Process) { _ = unix.Kill(-leader.Pid, unix.SIGKILL) }

// lowerPriority makes way for more important work. It is a courtesy: where it fails, the encoder just runs as
// everything else does.
func lowerPriority(pid, nice int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, nice) }

// endedBySize says that the kernel ended the process because a file of its grew past the limit.
func endedBySize(err error) bool { return endedBy(err, syscall.SIGXFSZ) }

// killed says that somebody killed the process: the kernel, short of memory, or an operator.
func killed(err error) bool { return endedBy(err, syscall.SIGKILL) }

func endedBy(err error, signal syscall.Signal) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}
