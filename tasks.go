package audioproxy

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// Linux counts processes and threads alike, as tasks. Where it has no more for us, renders fail, and the Go runtime ends
// the whole process when it cannot start a thread of its own.

// tasksOfSlot is how many tasks a render may have. Measured with ffmpeg 5.1: its main thread, a thread that reads the
// second input (the tags), and as many threads that decode as there are CPUs and one more, at most 16; and here the
// thread that waits for it. One is to spare.
func tasksOfSlot(cpus int) int { return min(cpus+1, 16) + 4 }

// taskLimit is a bound on the number of tasks, and how many there are.
type taskLimit struct {
	name      string
	change    string // where an operator changes it
	max, used int
}

// warnOfTasks warns of limits that leave less room than the slots need.
func (a *App) warnOfTasks() {
	if runtime.GOOS == "linux" {
		a.warnOfTaskLimits(taskLimits(os.DirFS("/")), tasksOfSlot(runtime.NumCPU()))
	}
}

func (a *App) warnOfTaskLimits(limits []taskLimit, ofSlot int) {
	for _, l := range limits {
		if left := l.max - l.used; left < a.Slots*ofSlot {
			a.logger.Warn("the system allows fewer processes and threads than the slots may need; renders will fail, and "+
				"Caddy may be ended: raise "+l.change+", or lower the global option audio_proxy > slots",
				zap.String("limit", l.name), zap.Int("max", l.max), zap.Int("used", l.used),
				zap.Int("slots", a.Slots), zap.Int("needed", a.Slots*ofSlot))
		}
	}
}

// taskLimits reads the limits from /proc and /sys below root. What cannot be read is no limit.
func taskLimits(root fs.FS) []taskLimit {
	var limits []taskLimit
	if limit, bound := processLimit(root); bound {
		limits = append(limits, taskLimit{"RLIMIT_NPROC", "LimitNPROC of the service (ulimit -u)", limit, tasksOfUser(root)})
	}
	for _, folder := range pidsFolders(root) {
		limit, bound := readNumber(root, path.Join(folder, "pids.max"))
		used, known := readNumber(root, path.Join(folder, "pids.current"))
		if bound && known {
			limits = append(limits, taskLimit{"/" + path.Join(folder, "pids.max"), "TasksMax of the service (the pids limit of its container)", limit, used})
		}
	}
	return limits
}

// processLimit is RLIMIT_NPROC, unless the kernel spares this process: root, and whoever has one of two capabilities.
func processLimit(root fs.FS) (limit int, bound bool) {
	const mayExceed = 1<<21 | 1<<24 // CAP_SYS_ADMIN, CAP_SYS_RESOURCE
	status := readFields(root, "proc/self/status")
	capabilities, err := strconv.ParseUint(first(status["CapEff"]), 16, 64)
	if err == nil && capabilities&mayExceed != 0 || first(status["Uid"]) == "0" {
		return 0, false
	}
	text, err := fs.ReadFile(root, "proc/self/limits")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if soft, found := strings.CutPrefix(line, "Max processes"); found {
			limit, err := strconv.Atoi(first(soft))
			return limit, err == nil // "unlimited" is none
		}
	}
	return 0, false
}

// tasksOfUser counts the tasks of this process's user, which is what RLIMIT_NPROC is about.
func tasksOfUser(root fs.FS) (tasks int) {
	user := first(readFields(root, "proc/self/status")["Uid"])
	processes, _ := fs.Glob(root, "proc/[0-9]*/status")
	for _, name := range processes {
		status := readFields(root, name) // empty where the process has ended meanwhile
		if first(status["Uid"]) == user {
			threads, _ := strconv.Atoi(first(status["Threads"]))
			tasks += threads
		}
	}
	return tasks
}

// pidsFolders are the control groups whose pids.max bounds this process: its own and those above it, in version 2's
// tree and in that of version 1's pids controller. In a container the path may be the host's, and leads nowhere; the
// container's own group is then the top of what it sees.
func pidsFolders(root fs.FS) (folders []string) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var top string
		switch parts[1] {
		case "":
			top = "sys/fs/cgroup"
		case "pids":
			top = "sys/fs/cgroup/pids"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			folders = append(folders, path.Join(top, group))
			if group == "/" {
				break
			}
		}
	}
	return folders
}

// readFields reads a file of lines such as "Threads:	8".
func readFields(root fs.FS, name string) map[string]string {
	fields := make(map[string]string)
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return fields
	}
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		if key, value, found := strings.Cut(scanner.Text(), ":"); found {
			fields[key] = value
		}
	}
	return fields
}

// readNumber reads a file that holds a number, and returns false for "max" and where there is none.
func readNumber(root fs.FS, name string) (int, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}

// first is the first word of a text.
func first(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
