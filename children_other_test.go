//go:build !linux

package audioproxy

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// children lists the living subprocesses of this process.
func children(t *testing.T) []int {
	t.Helper()
	cmd := exec.Command("pgrep", "-P", strconv.Itoa(os.Getpid()))
	out, _ := cmd.Output() // it exits 1 when it finds none
	var pids []int
	for field := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil && pid != cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}
