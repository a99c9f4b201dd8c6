package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// Stage is a private folder for one render.
type Stage struct {
	dir   string
	after func() error // what there is to do when the folder is gone; may be nil
}

// NewStage is for implementations of Store. dir is a folder that is empty, and this stage's alone: a render writes
// into it, and Put is given a file in it. The path must be absolute, since the programs that write there run
// elsewhere. after, where it is not nil, is called when the folder has been removed, to give back what the stage
// holds beside it; its error is Remove's.
func NewStage(dir string, after func() error) *Stage { return &Stage{dir: dir, after: after} }

// Dir is the folder's path. The folder is empty at first.
func (s *Stage) Dir() string { return s.dir }

// Remove deletes the folder with all that is left in it. It is called once.
func (s *Stage) Remove() error {
	err := removeAll(s.dir)
	if s.after != nil {
		err = errors.Join(err, s.after())
	}
	return err
}

// How long a removal that failed waits for its next try, at first and at most.
const (
	removeAgain     = time.Second
	removeAgainMost = time.Minute
)

// removeAll removes a folder: now or, where the system will not at the moment, as soon as it does. A process that has
// no descriptors left can list no folder, and the folder would stay for as long as the process lives.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err != nil {
		removeLater(dir, removeAgain)
	}
	return err
}

func removeLater(dir string, wait time.Duration) {
	time.AfterFunc(wait, guard.Func(func() {
		if os.RemoveAll(dir) != nil {
			removeLater(dir, min(2*wait, removeAgainMost))
		}
	}))
}

// tempPattern names what TempStage makes: so that nobody else's folder is ever taken for one of them.
const tempPattern = "audio_proxy-spool-*"

var sweepTemp = sync.OnceFunc(func() { sweep(os.TempDir(), tempPattern) })

// TempStage makes a private folder in the system's place for temporary files. The first call also removes what
// dead processes left of theirs.
func TempStage() (*Stage, error) {
	sweepTemp()
	area, err := newStagingArea(os.TempDir(), tempPattern)
	if err != nil {
		return nil, fmt.Errorf("making a folder to render into, among the temporary files (TMPDIR): %w", err)
	}
	stage, err := area.stage()
	if err != nil {
		return nil, errors.Join(err, area.close())
	}
	stage.after = area.close
	return stage, nil
}
