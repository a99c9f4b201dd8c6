package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Reading the folder from end to end. All of this is called with changing held, and none of it holds mu for
// longer than one small folder takes, so that hits go on.

// recount counts when the last count is old. A failure leaves the index as it was, for the next time.
func (s *FileSystem) recount() {
	if s.system.now().Sub(s.counted) < recountAfter {
		return
	}
	if err := s.count(); err != nil {
		_ = s.unreadable(err)
	}
}

// tally is what a count finds.
type tally struct {
	fresh    []*entry // what the index does not know
	listings map[fanID]listing
}

// count makes the index what is in the folder. It removes broken variants and empty folders on the way.
func (s *FileSystem) count() error {
	s.counted = s.system.now()
	s.mu.Lock()
	s.round++ // what is remembered from here on is not missed at the end
	s.mu.Unlock()
	found := tally{listings: make(map[fanID]listing)}
	scopes, err := s.system.list(s.dir)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		if !isHexOf(scope, scopeDigits) {
			continue
		}
		if err := s.countScope(scope, &found); err != nil && !errors.Is(err, errNoFolder) {
			return err // nothing is forgotten because it could not be read
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.variants {
		if e.round != s.round {
			s.forget(e)
		}
	}
	s.merge(found.fresh)
	for fan, l := range found.listings {
		found.listings[fan] = s.remembered(fan, l)
	}
	s.listings = found.listings
	return nil
}

func (s *FileSystem) countScope(scope string, found *tally) error {
	dir := filepath.Join(s.dir, scope)
	fans, err := s.system.list(dir)
	if err != nil {
		return err
	}
	for _, name := range fans {
		if !isHexOf(name, fanDigits) {
			continue
		}
		fan := fanID{scope, name}
		names, l, err := s.list(fan)
		if errors.Is(err, errNoFolder) {
			continue
		}
		if err != nil {
			return err
		}
		if len(names) == 0 {
			_ = os.Remove(s.dirOf(fan)) // which fails where it is not empty any more
		}
		fresh, all := s.countFan(fan, names)
		found.fresh = append(found.fresh, fresh...)
		if all {
			found.listings[fan] = l
		}
	}
	if len(fans) == 0 { // at the next count after its last folder went
		_ = os.Remove(dir)
	}
	return nil
}

// countFan returns the variants among names that the index does not know. Where one variant has two files, since
// two processes put it at the same time, the later one stays. all means that every name was looked at.
func (s *FileSystem) countFan(fan fanID, names []string) (fresh []*entry, all bool) {
	latest, all := make(map[string]*entry, len(names)), true
	known := s.meet(fan.scope, names)
	for i, name := range names {
		key, size, ok := parseName(name)
		if !ok || key[:fanDigits] != fan.fan {
			continue
		}
		e := known[i]
		if e == nil {
			var err error
			id := ID{fan.scope, key}
			if e, err = s.readEntry(id, size); err != nil {
				if errors.Is(err, errBroken) {
					_ = os.Remove(s.path(id, size))
				} else if !errors.Is(err, fs.ErrNotExist) {
					all = false
				}
				continue
			}
		}
		if other := latest[key]; other != nil {
			if other.stored.After(e.stored) {
				e, other = other, e
			}
			_ = os.Remove(s.path(other.id, other.size))
		}
		latest[key] = e
	}
	return s.fresh(latest), all
}

// meet finds what the index knows of names, which all lie in one folder.
func (s *FileSystem) meet(scope string, names []string) []*entry {
	known := make([]*entry, len(names))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range names {
		key, size, _ := parseName(name)
		if e := s.variants[ID{scope, key}]; e != nil && e.size == size {
			known[i] = e
		}
	}
	return known
}

// fresh notes that the entries were met, and returns those that are new.
func (s *FileSystem) fresh(met map[string]*entry) (fresh []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range met {
		e.round = s.round
		if e.place == nil {
			fresh = append(fresh, e)
		}
	}
	return fresh
}
