package ffmpeg

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memoryBounded: a subprocess that wants more memory than any audio needs is refused it.
const memoryBounded = true

// Bounds on a subprocess, since the bytes that it reads are anybody's: 5 kB of MP4 can make ffmpeg ask for gigabytes.
// Renders were measured to need 130 to 220 MB on two cores, stacks of 8 MB a thread included; a decoder starts at
// most 16 threads, whatever the machine has.
const (
	maxMemory      = 512 << 20 // of what it may write to: heap, stacks, private mappings
	maxDescriptors = 64
)

// bound limits a subprocess that has just been started, and says that it is the one to be killed where the machine
// runs out of memory. It reads nothing of the source before its libraries are loaded, which takes longer than this.
// Limits that cannot be set are left: the process runs all the same.
func bound(pid int, maxFile int64) {
	limit := func(resource int, n uint64) {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil)
	}
	limit(unix.RLIMIT_DATA, maxMemory)
	limit(unix.RLIMIT_CORE, 0)
	limit(unix.RLIMIT_NOFILE, maxDescriptors)
	if maxFile > 0 {
		limit(unix.RLIMIT_FSIZE, uint64(maxFile))
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("500"), 0)
}

// processorTime is how much of the processor a process has used, all its threads together.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is the name, in parentheses, and may hold anything; utime and stime are the 14th and 15th.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100 // USER_HZ is 100 on all of Linux's architectures
	return time.Duration(user+system) * tick
}
