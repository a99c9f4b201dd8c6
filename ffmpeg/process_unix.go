//go:build unix

package ffmpeg

import (
	"os"

	"golang.org/x/sys/unix"
)

func terminateGroup(leader *os.Process) { _ = unix.Kill(-leader.Pid, unix.SIGTERM) }

func killGroup(leader *os.Process) { _ = unix.Kill(-leader.Pid, unix.SIGKILL) }

// lowerPriority makes way for more important work. It is a courtesy: where it fails, the encoder just runs as
// everything else does.
func lowerPriority(pid, nice int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, nice) }
