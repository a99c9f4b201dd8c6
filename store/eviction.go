package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What is in the folder, and what has to go. Everything here is called with the mutex held.

func (s *FileSystem) path(id ID, size int64) string {
	return filepath.Join(s.dir, id.Scope, id.Key[:2], id.Key+"."+strconv.FormatInt(size, 10))
}

// parseName is the inverse of the last element of path.
func parseName(name string) (key string, size int64, ok bool) {
	key, digits, found := strings.Cut(name, ".")
	size, err := strconv.ParseInt(digits, 10, 64)
	return key, size, found && err == nil && size > 0 && digits == strconv.FormatInt(size, 10)
}

// find returns the entry of a variant, looking on the disk for one that another process may have put there.
func (s *FileSystem) find(id ID) *entry {
	if e := s.variants[id]; e != nil {
		return e
	}
	files, err := os.ReadDir(filepath.Join(s.dir, id.Scope, id.Key[:2]))
	if err != nil {
		return nil
	}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), id.Key) {
			if e, ok := readEntry(id.Scope, file); ok {
				return s.remember(e)
			}
		}
	}
	return nil
}

func readEntry(scope string, file fs.DirEntry) (entry, bool) {
	key, size, ok := parseName(file.Name())
	id := ID{Scope: scope, Key: key}
	if !ok || !id.Valid() {
		return entry{}, false
	}
	info, err := file.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return entry{}, false
	}
	used := lastUsed(info)
	return entry{id: id, size: size, stored: info.ModTime(), used: used, marked: used}, true
}

func (s *FileSystem) remember(e entry) *entry {
	known := &e
	known.place = s.byUse.PushBack(known)
	s.variants[e.id] = known
	s.bytes += e.size
	return known
}

// forget takes an entry out of the index. The file may be gone already, or go later.
func (s *FileSystem) forget(e *entry) {
	if e.place == nil {
		return
	}
	s.byUse.Remove(e.place)
	e.place = nil
	delete(s.variants, e.id)
	s.bytes -= e.size
}

func (s *FileSystem) remove(e *entry) error {
	err := os.Remove(s.path(e.id, e.size))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.forget(e)
	return nil
}

// evict removes least recently used variants until at most limit bytes are kept. What somebody is reading
// stays, and so does what cannot be removed.
func (s *FileSystem) evict(limit int64) {
	if s.bytes > limit && time.Since(s.counted) > recountAfter {
		s.count()
	}
	for place := s.byUse.Front(); place != nil && s.bytes > limit; {
		e := place.Value.(*entry)
		place = place.Next()
		if e.readers == 0 && s.remove(e) == nil {
			s.evictions++
		}
	}
}

// MakeRoom gives up variants until n more bytes are free in the file system.
func (s *FileSystem) MakeRoom(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.evictions
	for {
		free, known := freeBytes(s.dir)
		if known && free >= n {
			break
		}
		evicted := s.evictions
		s.evict(max(0, s.bytes-max(1, n-free)))
		if s.evictions == evicted || !known {
			break
		}
	}
	return s.evictions > before
}

// count reads the folder from end to end, and makes the index what is there.
func (s *FileSystem) count() {
	s.counted = time.Now()
	found := make(map[ID]bool)
	var fresh []entry
	for e := range s.walk() {
		found[e.id] = true
		if known := s.variants[e.id]; known == nil {
			fresh = append(fresh, e)
		} else if e.used.After(known.used) {
			known.used = e.used // another process's readers
		}
	}
	for id, e := range s.variants {
		if !found[id] {
			s.forget(e)
		}
	}
	for _, e := range fresh {
		s.remember(e)
	}
	s.sortByUse()
}

func (s *FileSystem) sortByUse() {
	entries := make([]*entry, 0, len(s.variants))
	for _, e := range s.variants {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		s.byUse.MoveToBack(e.place)
	}
}

// walk visits every variant in the folder.
func (s *FileSystem) walk() func(yield func(entry) bool) {
	return func(yield func(entry) bool) {
		scopes, _ := os.ReadDir(s.dir)
		for _, scope := range scopes {
			fans, _ := os.ReadDir(filepath.Join(s.dir, scope.Name()))
			if scope.Name() == stagingName {
				continue
			}
			for _, fan := range fans {
				files, _ := os.ReadDir(filepath.Join(s.dir, scope.Name(), fan.Name()))
				for _, file := range files {
					if e, ok := readEntry(scope.Name(), file); ok && !yield(e) {
						return
					}
				}
			}
		}
	}
}
