package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Case N19: TMPDIR may lead nowhere.
func TestAPlaceForTemporaryFilesThatIsNoneIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, nil)
	for name, temp := range map[string]string{"missing": filepath.Join(dir, "missing"), "a file": file, "below a file": filepath.Join(file, "x")} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", temp)
			_, stageErr := TempStage()
			for what, err := range map[string]error{"TempStage": stageErr, "CheckTemp": CheckTemp()} {
				if err == nil || !strings.Contains(err.Error(), temp) || !strings.Contains(err.Error(), "TMPDIR") {
					t.Errorf("%s: the error does not say where to look: %v", what, err)
				}
			}
		})
	}
	t.Setenv("TMPDIR", dir)
	must(t, CheckTemp())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the check left %v, %v", left, err)
	}
}
