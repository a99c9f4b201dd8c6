package coalesce

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// Names of the files in a spool's folder. Most formats are one file, which is completed at its end; one that is
// streamed in another form than it is kept in writes both.
const (
	LiveName  = "live"
	FinalName = "final"
)

// Spool is the folder a render writes into.
type Spool struct {
	stage *store.Stage
	live  *os.File // followers read it with ReadAt, all through this one descriptor

	unkept error // why the folder is not the store's, where there is one

	release  sync.Once
	released chan struct{} // closed when followers may see what is written

	mu      sync.Mutex
	written int64
	grown   chan struct{} // closed, and made anew, when written changes
}

func openSpool(place func() (*store.Stage, error)) (*Spool, error) {
	stage, err := place()
	if err != nil {
		return nil, spaceError(err)
	}
	// The file is there before the encoder is: what the encoder opens and truncates is what we follow.
	live, err := os.OpenFile(filepath.Join(stage.Dir(), LiveName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		_ = stage.Remove()
		return nil, spaceError(fmt.Errorf("making the spool: %w", err))
	}
	return &Spool{stage: stage, live: live, released: make(chan struct{}), grown: make(chan struct{})}, nil
}

// Dir is the folder, to be the working directory of the encoder. It holds nothing but LiveName at first.
func (s *Spool) Dir() string { return s.stage.Dir() }

// Release lets followers see what has been written so far, at once, and all that will be. Releasing twice is
// harmless.
func (s *Spool) Release() { s.release.Do(func() { close(s.released) }) }

// Live is the file that followers read.
func (s *Spool) Live() io.ReaderAt { return s.live }

// AwaitGrowth blocks until more than n bytes of the live file have been written, and returns how many; or until
// ctx ends.
func (s *Spool) AwaitGrowth(ctx context.Context, n int64) (int64, error) {
	for {
		s.mu.Lock()
		written, grown := s.written, s.grown
		s.mu.Unlock()
		if written > n {
			return written, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// measure notices growth. It returns what has been written and how much of it followers may see.
func (s *Spool) measure() (written, visible int64, err error) {
	info, err := s.live.Stat()
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.Size() != s.written {
		s.written = info.Size()
		close(s.grown)
		s.grown = make(chan struct{})
	}
	select {
	case <-s.released:
		visible = s.written
	default:
	}
	return s.written, visible, nil
}

// finalPath is the file to keep: the one that was streamed, unless the job wrote another.
func (s *Spool) finalPath() string {
	final := filepath.Join(s.stage.Dir(), FinalName)
	if _, err := os.Stat(final); err == nil {
		return final
	}
	return filepath.Join(s.stage.Dir(), LiveName)
}

// size is what the spool's files take.
func (s *Spool) size() (size int64) {
	entries, _ := os.ReadDir(s.stage.Dir()) // what cannot be listed counts as nothing
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

func (s *Spool) remove() {
	s.live.Close()
	_ = s.stage.Remove() // what stays is swept with the staging area
}
