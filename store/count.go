package store

import (
	"errors"
	"os"
	"path/filepath"
)

// Reading the folder from end to end. All of this is called with changing held, and none of it holds mu for
// longer than one small folder takes, so that hits go on.

// recount counts when the last count is old. A failure leaves the index as it was, for the next time.
func (s *FileSystem) recount() {
	if s.system.now().Sub(s.counted) >= recountAfter {
		_ = s.count()
	}
}

// count makes the index what is in the folder. It removes broken variants and empty folders on the way.
func (s *FileSystem) count() error {
	s.counted = s.system.now()
	s.mu.Lock()
	s.round++ // what is remembered from here on is not missed at the end
	s.mu.Unlock()
	var fresh []*entry
	scopes, err := readNames(s.dir)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		if !isHexOf(scope, scopeDigits) {
			continue
		}
		found, err := s.countScope(scope)
		if err != nil && !errors.Is(err, errNoFolder) {
			return err // nothing is forgotten because it could not be read
		}
		fresh = append(fresh, found...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.variants {
		if e.round != s.round {
			s.forget(e)
		}
	}
	s.merge(fresh)
	return nil
}

func (s *FileSystem) countScope(scope string) (fresh []*entry, err error) {
	dir := filepath.Join(s.dir, scope)
	fans, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	for _, fan := range fans {
		if !isHexOf(fan, fanDigits) {
			continue
		}
		names, err := readNames(filepath.Join(dir, fan))
		if errors.Is(err, errNoFolder) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			_ = os.Remove(filepath.Join(dir, fan)) // which fails where it is not empty any more
		}
		fresh = append(fresh, s.countFan(scope, fan, names)...)
	}
	if len(fans) == 0 { // at the next count after its last folder went
		_ = os.Remove(dir)
	}
	return fresh, nil
}

// countFan returns the variants among names that the index does not know. Where one variant has two files, since
// two processes put it at the same time, the later one stays.
func (s *FileSystem) countFan(scope, fan string, names []string) []*entry {
	latest := make(map[string]*entry, len(names))
	known := s.meet(scope, names)
	for i, name := range names {
		key, size, ok := parseName(name)
		if !ok || key[:fanDigits] != fan {
			continue
		}
		e := known[i]
		if e == nil {
			var err error
			if e, err = s.readEntry(ID{scope, key}, size); err != nil {
				if errors.Is(err, errBroken) {
					_ = os.Remove(s.path(ID{scope, key}, size))
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
	return s.fresh(latest)
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
