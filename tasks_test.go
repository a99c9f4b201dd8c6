package audioproxy

import (
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// linux is what /proc and /sys tell of a process of an ordinary user, and of others of his and of root.
func linux(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"proc/self/status": "Name:\tcaddy\nUid:\t1000\t1000\t1000\t1000\nThreads:\t9\nCapEff:\t0000000000000400\n",
		"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max cpu time              unlimited            unlimited            seconds   \n" +
			"Max processes             25                   50                   processes \n",
		"proc/1/status":    "Name:\tinit\nUid:\t0\t0\t0\t0\nThreads:\t40\n",
		"proc/10/status":   "Name:\tcaddy\nUid:\t1000\t1000\t1000\t1000\nThreads:\t9\n",
		"proc/11/status":   "Name:\tshell\nUid:\t1000\t1000\t1000\t1000\nThreads:\t2\n",
		"proc/self/cgroup": "0::/system.slice/caddy.service\n",
	}
	maps.Copy(all, files)
	system := fstest.MapFS{}
	for name, content := range all {
		if content != "" {
			system[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return system
}

// S4: below 25 tasks with 8 slots the Go runtime aborts.
func TestTaskLimitsAreRead(t *testing.T) {
	const service = "TasksMax of the service (the pids limit of its container)"
	nproc := taskLimit{"RLIMIT_NPROC", "LimitNPROC of the service (ulimit -u)", 25, 11}
	for name, tc := range map[string]struct {
		files map[string]string
		want  []taskLimit
	}{
		"a user's":       {nil, []taskLimit{nproc}},
		"root is spared": {map[string]string{"proc/self/status": "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\n"}, nil},
		"a capability spares": {
			map[string]string{"proc/self/status": "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000001000000\n"}, nil,
		},
		"unlimited": {map[string]string{"proc/self/limits": "Max processes             unlimited            unlimited            processes \n"}, nil},
		"no proc":   {map[string]string{"proc/self/status": "", "proc/self/limits": "", "proc/self/cgroup": ""}, nil},
		"version 2": {map[string]string{
			"proc/self/limits": "",
			"sys/fs/cgroup/system.slice/caddy.service/pids.max": "30\n", "sys/fs/cgroup/system.slice/caddy.service/pids.current": "12\n",
			"sys/fs/cgroup/system.slice/pids.max": "4000\n", "sys/fs/cgroup/system.slice/pids.current": "3990\n",
		}, []taskLimit{
			{"/sys/fs/cgroup/system.slice/caddy.service/pids.max", service, 30, 12},
			{"/sys/fs/cgroup/system.slice/pids.max", service, 4000, 3990},
		}},
		"version 2 without a limit": {map[string]string{
			"proc/self/limits": "",
			"sys/fs/cgroup/system.slice/caddy.service/pids.max": "max\n", "sys/fs/cgroup/system.slice/caddy.service/pids.current": "12\n",
		}, nil},
		"version 1 in a container": {map[string]string{
			"proc/self/limits": "", "proc/self/cgroup": "9:name=systemd:/x\n8:pids:/docker/0123:4\n0::/\n",
			"sys/fs/cgroup/pids/pids.max": "20\n", "sys/fs/cgroup/pids/pids.current": "10\n",
		}, []taskLimit{{"/sys/fs/cgroup/pids/pids.max", service, 20, 10}}},
		"a path that climbs": {map[string]string{
			"proc/self/limits": "", "proc/self/cgroup": "0::/../../caddy\nnonsense\n",
			"sys/fs/cgroup/caddy/pids.max": "20\n", "sys/fs/cgroup/caddy/pids.current": "10\n",
		}, []taskLimit{{"/sys/fs/cgroup/caddy/pids.max", service, 20, 10}}},
	} {
		if diff := cmp.Diff(tc.want, taskLimits(linux(tc.files)), cmp.AllowUnexported(taskLimit{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTooFewTasksForTheSlotsAreWarnedOf(t *testing.T) {
	for slots, warned := range map[int]bool{1: false, 2: false, 3: true, 8: true} {
		core, logs := observer.New(zap.InfoLevel)
		a := &App{Slots: slots, logger: zap.New(core)}

		a.warnOfTaskLimits([]taskLimit{{"RLIMIT_NPROC", "LimitNPROC of the service (ulimit -u)", 25, 11}}, tasksOfSlot(2))

		entries := logs.All()
		if (len(entries) == 1) != warned {
			t.Errorf("%d slots with 14 tasks left: %d warnings", slots, len(entries))
		}
		for _, e := range entries {
			if fields := e.ContextMap(); !strings.Contains(e.Message, "LimitNPROC") || !strings.Contains(e.Message, "slots") || fields["needed"] != int64(7*slots) {
				t.Errorf("%q %v", e.Message, fields)
			}
		}
	}
}

// The files of the machine that this runs on are read without an error, whatever its limits are.
func TestTheTaskLimitsOfThisMachineAreSensible(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	system := os.DirFS("/")
	if n := tasksOfUser(system); n < 1 {
		t.Errorf("this user has %d tasks", n)
	}
	for _, l := range taskLimits(system) {
		if l.max < 1 || l.used < 1 {
			t.Errorf("%+v", l)
		}
	}
}
