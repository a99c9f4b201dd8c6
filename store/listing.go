package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What a miss costs. Anybody may ask for what is not there, as often as they like; so a folder is listed once, and
// not again before it has changed: until then the index knows all that is in it.

// fanID names one of the folders that variants lie in.
type fanID struct{ scope, fan string }

func (id ID) fan() fanID { return fanID{id.Scope, id.Key[:fanDigits]} }

func (s *FileSystem) dirOf(f fanID) string { return filepath.Join(s.dir, f.scope, f.fan) }

// listing is when a folder was last listed, with everything in it added to the index.
type listing struct {
	modified time.Time // the folder's own time, read before
	seen     time.Time // when that time was first seen, by our clock
	listed   time.Time // by our clock
}

const (
	// timeGranularity is how coarse the times of folders may be: 2 s on FAT. A folder that changes twice within
	// that keeps its time.
	timeGranularity = 2 * time.Second

	// clockSkew is how far a file server's clock may be from ours.
	clockSkew = time.Minute
)

// holds reports whether a folder that was modified last at that time is still as it was listed. A change after the
// listing would show if the folder's time was too old by then to be given again: as it had been seen for a while,
// or lies further back than the clocks may differ. (Where a file system does not keep the times of folders, what
// another process puts is known at the next count.)
func (l listing) holds(modified time.Time) bool {
	return l.modified.Equal(modified) &&
		(l.listed.Sub(l.seen) >= timeGranularity || l.listed.Sub(l.modified) >= clockSkew)
}

// modified is when a folder last changed. One that is not there is fs.ErrNotExist, and what is no folder errNoFolder.
func (s *FileSystem) modified(f fanID) (time.Time, error) {
	info, err := os.Stat(s.dirOf(f))
	switch {
	case err != nil:
		return time.Time{}, err
	case !info.IsDir():
		return time.Time{}, errNoFolder
	}
	return info.ModTime(), nil
}

// list lists a folder of variants. The listing is to be kept when all of them are in the index.
func (s *FileSystem) list(f fanID) (names []string, l listing, err error) {
	modified, err := s.modified(f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, listing{}, nil // which holds for no folder
	}
	if err != nil {
		return nil, listing{}, err
	}
	now := s.system.wall()
	l = listing{modified: modified, seen: now, listed: now}
	names, err = s.system.list(s.dirOf(f))
	return names, l, err
}

// remembered is the listing with what is known from the one before. mu is held.
func (s *FileSystem) remembered(f fanID, l listing) listing {
	if before := s.listings[f]; before.modified.Equal(l.modified) {
		l.seen = before.seen
	}
	return l
}

// discover looks on the disk for a variant that another process put there, and reports whether the index knows it
// now. That costs one look at its folder, unless the folder has changed.
func (s *FileSystem) discover(id ID) (bool, error) {
	modified, err := s.modified(id.fan())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	known, holds := s.knows(id), s.listings[id.fan()].holds(modified)
	s.mu.Unlock()
	if known || holds {
		return known, nil
	}
	names, l, err := s.list(id.fan())
	if err != nil {
		return false, err
	}
	all, err := s.adopt(id, names)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		s.listings[id.fan()] = s.remembered(id.fan(), l)
	}
	return s.knows(id), nil
}

// knows reports whether the index has a variant that is not just being removed. mu is held.
func (s *FileSystem) knows(id ID) bool {
	e := s.variants[id]
	return e != nil && !e.leaving
}

// adopt adds to the index what the folder of a variant holds. all means that the index knows everything that is in
// it; the error is of looking at the variant itself.
func (s *FileSystem) adopt(id ID, names []string) (all bool, err error) {
	known, all := s.meet(id.Scope, names), true
	for i, name := range names {
		key, size, ok := parseName(name)
		if !ok || known[i] != nil || key[:fanDigits] != id.Key[:fanDigits] {
			continue
		}
		found := ID{id.Scope, key}
		err := s.adoptOne(found, size)
		switch {
		case err == nil:
		case errors.Is(err, errBroken) && found == id:
			s.discard(id, size)
		case errors.Is(err, errBroken), errors.Is(err, fs.ErrNotExist):
		case found == id && !errors.Is(err, errTwice):
			return false, err
		default:
			all = false
		}
	}
	return all, nil
}

// errTwice: the index knows another file of the variant, which may be gone.
var errTwice = errors.New("the variant has another file")

// adoptOne looks at a file with mu held, so that a variant that is just being evicted is not remembered for ever.
func (s *FileSystem) adoptOne(id ID, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.variants[id]; {
	case known == nil:
	case known.size == size:
		return nil
	default:
		return errTwice
	}
	e, err := s.readEntry(id, size)
	if err != nil {
		return err
	}
	s.insertUsed(e)
	return nil
}
