package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// What goes when there is too much. All of this is called with changing held, but for what is exported and
// keepBound.

// unlinksOpen reports whether a file that is open can lose its name: then it is evicted like any other, and counts
// as held by its readers. On Windows it stays until they have closed it.
const unlinksOpen = runtime.GOOS != "windows"

func (s *FileSystem) keepBound() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.evict(s.bound(), unlinksOpen)
}

// evict removes least recently used variants until at most limit bytes are kept. What somebody in this process is
// reading goes last, if at all: even where it does, no room is gained before its readers have closed it. What
// cannot be removed stays.
func (s *FileSystem) evict(limit int64, alsoRead bool) {
	stuck := make(map[*entry]bool)
	for e := s.victim(limit, alsoRead, stuck); e != nil; e = s.victim(limit, alsoRead, stuck) {
		if !s.giveUp(e) {
			stuck[e] = true
		}
	}
}

// victim takes the least recently used variant out of use, or returns nil when there is no need.
func (s *FileSystem) victim(limit int64, alsoRead bool, stuck map[*entry]bool) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes <= limit {
		return nil
	}
	var read *entry
	for place := s.byUse.Front(); place != nil; place = place.Next() {
		e := place.Value.(*entry)
		switch {
		case e.pinned || stuck[e]:
		case e.readers == 0:
			e.leaving = true
			return e
		case read == nil:
			read = e
		}
	}
	if read == nil || !alsoRead {
		return nil
	}
	read.leaving = true
	return read
}

// giveUp removes a victim, unless another process has used it since. It reports whether there is any use in
// trying this one again.
func (s *FileSystem) giveUp(e *entry) bool {
	path := s.path(e.id, e.size)
	info, err := os.Lstat(path)
	if err == nil {
		// Within a minute it may have been our own reader: the file system may note that by itself.
		if used := lastUsed(info); used.Sub(e.used) >= usePrecision {
			s.mu.Lock()
			defer s.mu.Unlock()
			e.leaving = false
			s.usedElsewhere(e, used)
			return true
		}
		err = os.Remove(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.leaving = false
	switch {
	case err == nil:
		s.evictions++
		s.forget(e)
	case errors.Is(err, fs.ErrNotExist):
		s.forget(e)
	default:
		return false
	}
	return true
}

// MakeRoom gives up the least recently used variants until about n bytes are free on the medium. It reports
// whether there is reason to hope: that they are free now, or that something was given up.
func (s *FileSystem) MakeRoom(n int64) bool {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.makeRoom(n)
}

func (s *FileSystem) makeRoom(n int64) bool {
	sweep(filepath.Join(s.dir, stagingName), stagingPattern) // what died meanwhile goes before what is of use
	free, known := s.system.free(s.dir)
	if known && free >= n {
		return true
	}
	s.mu.Lock()
	before, limit := s.evictions, max(0, s.bytes-(n-free))
	s.mu.Unlock()
	// Once: a file system that gives space back late, or to somebody else, must not cost the whole store.
	s.evict(limit, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evictions > before
}
