package store

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestCheckDirRefusesWhatCannotBeWritten asks as a user who is not root: root may write everywhere.
func TestCheckDirRefusesWhatCannotBeWritten(t *testing.T) {
	root := t.TempDir()
	for dir := root; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	for name, test := range map[string]struct {
		mode, staging os.FileMode
		want          bool
	}{
		"writable":               {mode: 0o777, want: true},
		"not writable":           {mode: 0o555},
		"not to be listed":       {mode: 0o333},
		"staging is another's":   {mode: 0o777, staging: 0o555},
		"staging is ours to use": {mode: 0o777, staging: 0o777, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			must(t, os.Mkdir(dir, 0o700))
			if test.staging != 0 {
				staging := filepath.Join(dir, stagingName)
				must(t, os.Mkdir(staging, 0o700))
				must(t, os.Chmod(staging, test.staging))
			}
			must(t, os.Chmod(dir, test.mode))
			if err := checkAsNobody(t, dir); (err == nil) != test.want {
				t.Errorf("error is %v", err)
			}
			if err := checkAsNobody(t, filepath.Join(dir, "new")); (err == nil) != (test.mode == 0o777) {
				t.Errorf("for a new folder in it, error is %v", err)
			}
		})
	}
}

func checkAsNobody(t *testing.T, dir string) error {
	t.Helper()
	if os.Getuid() != 0 {
		return CheckDir(dir)
	}
	// The test binary lies in a folder that is root's own: hand it over as a descriptor.
	binary, err := os.Open(os.Args[0])
	must(t, err)
	defer binary.Close()
	cmd := child(t, "check", dir)
	cmd.Path = "/proc/self/fd/3"
	cmd.ExtraFiles = []*os.File{binary}
	cmd.Stderr = nil
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd.Run()
}
