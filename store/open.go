package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// openAttempts is how often a file may be gone, replaced by another process, between our looking and opening.
const openAttempts = 3

// Open opens a variant. One that this process knows costs no more than opening its file; for one that it does
// not know, the folder it would lie in is listed.
func (s *FileSystem) Open(id ID) (*Variant, error) {
	if !id.Valid() {
		return nil, ErrBadID
	}
	for range openAttempts {
		e, info, markDue := s.use(id)
		if e == nil {
			if !s.discover(id) {
				return nil, ErrNotFound
			}
			continue
		}
		f, err := openWhole(s.path(id, info.Size), info.Size)
		if err != nil {
			if err := s.useFailed(e, err); err != nil {
				return nil, fmt.Errorf("opening a variant: %w", err)
			}
			continue
		}
		if markDue {
			// Only the access time: the other one says when it was stored. Where it fails, the variant is
			// evicted somewhat early.
			_ = os.Chtimes(f.Name(), info.LastUsed, time.Time{})
		}
		return NewVariant(info, f, func() { s.release(e, f) }), nil
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
	if now := s.system.now(); now.After(e.used) { // the clock may have been set back
		e.used = now
	}
	s.byUse.MoveToBack(e.place)
	if markDue = e.used.Sub(e.marked) >= usePrecision; markDue {
		e.marked = e.used
	}
	return e, e.info(), markDue
}

// useFailed takes a reader back whose file could not be opened. It forgets the variant when it is not there any
// more, and returns the error of any other failure: that the process has no descriptor left, say, is no reason to
// forget what the disk holds. A broken file is removed by the look at the disk that follows.
func (s *FileSystem) useFailed(e *entry, err error) error {
	gone := errors.Is(err, errBroken) || errors.Is(err, fs.ErrNotExist)
	s.mu.Lock()
	e.readers--
	if gone {
		s.forget(e)
	}
	s.mu.Unlock()
	if gone {
		return nil
	}
	return err
}

func (s *FileSystem) release(e *entry, f *os.File) {
	f.Close()
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

// discover looks on the disk for a variant that another process put there, and adds it to the index.
func (s *FileSystem) discover(id ID) bool {
	names, _ := s.namesOf(id) // a folder that cannot be listed has nothing to offer
	for _, name := range names {
		_, size, _ := parseName(name)
		s.mu.Lock()
		known := s.variants[id]
		if known != nil {
			s.mu.Unlock()
			return !known.leaving
		}
		// Looked at with mu held, so that a variant that is just being evicted is not remembered for ever.
		e, err := s.readEntry(id, size)
		if err == nil {
			s.remember(e)
		}
		s.mu.Unlock()
		if err == nil {
			return true
		}
		if errors.Is(err, errBroken) {
			s.discard(id, size)
		}
	}
	return false
}

// Stat tells what is known about a variant.
func (s *FileSystem) Stat(id ID) (Info, error) {
	if !id.Valid() {
		return Info{}, ErrBadID
	}
	s.mu.Lock()
	e := s.variants[id]
	if e != nil {
		defer s.mu.Unlock()
		if e.leaving {
			return Info{}, ErrNotFound
		}
		return e.info(), nil
	}
	s.mu.Unlock()
	names, _ := s.namesOf(id)
	for _, name := range names {
		_, size, _ := parseName(name)
		if e, err := s.readEntry(id, size); err == nil {
			return e.info(), nil
		}
	}
	return Info{}, ErrNotFound
}

// List finds the variants with this key in every scope.
func (s *FileSystem) List(key string) []Info {
	var infos []Info
	scopes, _ := readNames(s.dir)
	for _, scope := range scopes {
		if info, err := s.Stat(ID{Scope: scope, Key: key}); err == nil {
			infos = append(infos, info)
		}
	}
	return infos
}
