package store

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// openAttempts is how often a file may be gone, replaced by another process, between our looking and opening.
const openAttempts = 3

// Open opens a variant. One that this process knows costs no more than opening its file; one that it does not
// know costs a look at the folder it would lie in, which is listed when it has changed.
func (s *FileSystem) Open(id ID) (*Variant, error) {
	if !id.Valid() {
		return nil, ErrBadID
	}
	for range openAttempts {
		e, info, markDue := s.use(id)
		if e == nil {
			found, err := s.discover(id)
			if err != nil {
				return nil, s.unreadable(err)
			}
			if !found {
				return nil, ErrNotFound
			}
			continue
		}
		f, err := openWhole(s.path(id, info.Size), info.Size)
		if err != nil {
			s.unuse(e)
			if err := s.missed(e, err); err != nil {
				return nil, s.unreadable(err)
			}
			continue
		}
		if markDue {
			// Only the access time: the other one says when it was stored. Where it fails, the variant is
			// evicted somewhat early.
			_ = os.Chtimes(f.Name(), info.LastUsed, time.Time{})
		}
		return s.opened(e, info, f), nil
	}
	return nil, ErrNotFound
}

// use counts a reader on a known variant and makes it the most recently used one. markDue says that the disk
// should be told.
func (s *FileSystem) use(id ID) (e *entry, info Info, markDue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.variants[id]
	if e == nil || e.leaving {
		return nil, Info{}, false
	}
	e.readers++
	if e.holding == nil {
		e.holding = s.ledger.Holding(e.size)
	}
	if now := s.system.now(); now.After(e.used) { // the clock may have been set back
		e.used = now
	}
	s.byUse.MoveToBack(e.place)
	if markDue = e.used.Sub(e.marked) >= usePrecision; markDue {
		e.marked = e.used
	}
	return e, e.info(), markDue
}

// unuse takes a reader back that use counted.
func (s *FileSystem) unuse(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.readers--
}

// missed takes a variant out of the index whose file is gone or broken, and returns the error of any other failure:
// that the process has no descriptor left, say, is no reason to forget what the disk holds.
func (s *FileSystem) missed(e *entry, err error) error {
	broken := errors.Is(err, errBroken)
	if !broken && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	s.forget(e)
	s.mu.Unlock()
	if broken {
		s.discard(e.id, e.size)
	}
	return nil
}

// opened is a variant whose reader has been counted.
func (s *FileSystem) opened(e *entry, info Info, f *os.File) *Variant {
	r := &reading{file: f}
	reader := e.holding.Read(r.at, r.end)
	v := NewVariant(info, f, func() {
		f.Close()
		reader.Close()
		s.release(e)
	})
	v.watch = r.watch
	return v
}

func (s *FileSystem) release(e *entry) {
	s.mu.Lock()
	e.readers--
	over := e.readers == 0 && s.bytes > s.maxBytes
	s.mu.Unlock()
	if over {
		s.keepBound() // it could not go while it was read
	}
}

// openWhole opens a variant's file, or returns errBroken where that has not the size of its name.
func openWhole(path string, size int64) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !isWhole(info, size) {
		err = errBroken
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Known reports whether the index has the variant. It does not look at the disk, and so knows nothing of what another
// process put there since the folder was last read.
func (s *FileSystem) Known(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.variants[id]
	return e != nil && !e.leaving
}

// Stat tells what is known about a variant whose file is there.
func (s *FileSystem) Stat(id ID) (Info, error) {
	if !id.Valid() {
		return Info{}, ErrBadID
	}
	for range openAttempts {
		s.mu.Lock()
		e := s.variants[id]
		if e == nil || e.leaving {
			s.mu.Unlock()
			found, err := s.discover(id)
			if err != nil {
				return Info{}, s.unreadable(err)
			}
			if !found {
				return Info{}, ErrNotFound
			}
			continue
		}
		info := e.info()
		s.mu.Unlock()
		file, err := os.Lstat(s.path(id, info.Size))
		if err == nil && !isWhole(file, info.Size) {
			err = errBroken
		}
		if err == nil {
			return info, nil
		}
		if err := s.missed(e, err); err != nil {
			return Info{}, s.unreadable(err)
		}
	}
	return Info{}, ErrNotFound
}

// List finds the variants with this key in every scope.
func (s *FileSystem) List(key string) (infos []Info, err error) {
	scopes, err := s.system.list(s.dir)
	if err != nil {
		return nil, s.unreadable(err)
	}
	for _, scope := range scopes {
		id := ID{Scope: scope, Key: key}
		if !id.Valid() {
			continue
		}
		info, statErr := s.Stat(id)
		switch {
		case statErr == nil:
			infos = append(infos, info)
		case !errors.Is(statErr, ErrNotFound):
			err = errors.Join(err, statErr)
		}
	}
	return infos, err
}
