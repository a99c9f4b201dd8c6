package store

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileSystem keeps variants in a folder. A variant is one file,
//
//	<dir>/<scope>/<first two digits of the key>/<key>.<size in bytes>
//
// which is renamed to that name when it is complete and on the disk, and is never written again. That the size
// is part of the name lets a file that was cut short, or put there by hand, be told from a whole one. The time
// of a file's last use is its access time, so that use survives a restart.
//
// Several processes may share the folder. Each knows the files it wrote or met, looks again on the disk for
// what it does not know, and counts the folder anew before it evicts.
type FileSystem struct {
	dir     string
	staging *stagingArea

	mu            sync.Mutex
	maxBytes      int64
	bytes         int64
	variants      map[ID]*entry
	byUse         *list.List // of *entry, least recently used first
	counted       time.Time  // when the folder was last read from end to end
	evictions     int64
	writeFailures int64
}

// entry is one variant in the folder. Its fields are guarded by the store's mutex.
type entry struct {
	id      ID
	size    int64
	stored  time.Time
	used    time.Time
	marked  time.Time // the use that the disk knows about
	readers int
	place   *list.Element // in byUse; nil once forgotten
}

const (
	stagingName = "staging"

	// usePrecision is how exactly the disk knows when a variant was last used: a popular one is not touched
	// on every request.
	usePrecision = time.Minute

	// recountAfter is how long a count of the folder stands before an eviction takes another.
	recountAfter = time.Minute
)

// CheckDir reports why dir cannot hold a store, without making anything: the nearest folder that exists must
// be one, and must be writable.
func CheckDir(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		case err == nil:
			if err := writable(dir); err != nil {
				return fmt.Errorf("folder %s is not writable: %w", dir, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// OpenFileSystem opens the store in dir, making the folder when it is missing, and sweeps what dead processes
// left behind. maxBytes bounds what is kept.
func OpenFileSystem(dir string, maxBytes int64) (*FileSystem, error) {
	staging, err := newStagingArea(filepath.Join(dir, stagingName))
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &FileSystem{
		dir:      dir,
		staging:  staging,
		maxBytes: maxBytes,
		variants: make(map[ID]*entry),
		byUse:    list.New(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count()
	s.evict(s.maxBytes)
	return s, nil
}

// Close gives up the staging area. Variants stay.
func (s *FileSystem) Close() error { return s.staging.close() }

// SetMaxBytes changes the bound, evicting at once where it has become too small.
func (s *FileSystem) SetMaxBytes(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxBytes = n
	s.evict(n)
}

// Stage makes a private folder in the store's own file system, so that Put is a rename.
func (s *FileSystem) Stage() (*Stage, error) { return s.staging.stage() }

// Open opens a variant.
func (s *FileSystem) Open(id ID) (*Variant, error) {
	e, err := s.use(id)
	if err != nil {
		return nil, err
	}
	f, err := s.openFile(e)
	if err != nil {
		s.mu.Lock()
		e.readers--
		s.forget(e)
		s.mu.Unlock()
		return nil, err
	}
	s.markUse(e, f.Name())
	closeOnce := sync.OnceFunc(func() {
		f.Close()
		s.mu.Lock()
		e.readers--
		s.mu.Unlock()
	})
	return NewVariant(Info{ID: id, Size: e.size, Stored: e.stored, LastUsed: e.used}, f, closeOnce), nil
}

// use finds a variant, moves it to the recently used end, and counts a reader on it.
func (s *FileSystem) use(id ID) (*entry, error) {
	if !id.Valid() {
		return nil, ErrBadID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(id)
	if e == nil {
		return nil, ErrNotFound
	}
	e.readers++
	e.used = time.Now()
	s.byUse.MoveToBack(e.place)
	return e, nil
}

// openFile opens an entry's file. One that has not the size of its name is no variant, and is removed.
func (s *FileSystem) openFile(e *entry) (*os.File, error) {
	path := s.path(e.id, e.size)
	f, err := os.Open(path)
	if err != nil {
		return nil, ErrNotFound
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.size {
		f.Close()
		_ = os.Remove(path)
		return nil, ErrNotFound
	}
	return f, nil
}

// markUse writes the time of use to the disk, at most once a minute.
func (s *FileSystem) markUse(e *entry, path string) {
	s.mu.Lock()
	due := e.used.Sub(e.marked) >= usePrecision
	used, stored := e.used, e.stored
	if due {
		e.marked = used
	}
	s.mu.Unlock()
	if due {
		_ = os.Chtimes(path, used, stored) // where it fails, the variant is evicted somewhat early
	}
}

// Stat tells what is known about a variant.
func (s *FileSystem) Stat(id ID) (Info, error) {
	if !id.Valid() {
		return Info{}, ErrBadID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(id)
	if e == nil {
		return Info{}, ErrNotFound
	}
	return e.info(), nil
}

func (e *entry) info() Info {
	return Info{ID: e.id, Size: e.size, Stored: e.stored, LastUsed: e.used}
}

// List finds the variants with this key in every scope.
func (s *FileSystem) List(key string) []Info {
	var infos []Info
	scopes, _ := os.ReadDir(s.dir)
	for _, scope := range scopes {
		if info, err := s.Stat(ID{Scope: scope.Name(), Key: key}); err == nil {
			infos = append(infos, info)
		}
	}
	return infos
}

// Put makes the file at path the variant id.
func (s *FileSystem) Put(id ID, path string) error {
	if !id.Valid() {
		return ErrBadID
	}
	err := s.put(id, path)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		s.mu.Lock()
		s.writeFailures++
		s.mu.Unlock()
	}
	return err
}

func (s *FileSystem) put(id ID, path string) error {
	size, err := syncFile(path)
	if err != nil {
		return fmt.Errorf("storing a variant: %w", err)
	}
	s.mu.Lock()
	tooLarge := size > s.maxBytes
	s.mu.Unlock()
	if tooLarge {
		return ErrTooLarge
	}
	target := s.path(id, size)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("storing a variant: %w", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.find(id); old != nil {
		s.remove(old) // another process was quicker, or an older version is being replaced
	}
	if err := os.Rename(path, target); err != nil {
		return fmt.Errorf("storing a variant: %w", err)
	}
	now := time.Now()
	e := s.remember(entry{id: id, size: size, stored: now, used: now})
	_ = os.Chtimes(target, now, now)
	e.marked = now
	e.readers++ // the newest of all is not the one to go
	s.evict(s.maxBytes)
	e.readers--
	return syncDir(filepath.Dir(target))
}

// syncFile brings a file's bytes to the disk: after a crash, a name without its contents would be a lie.
func syncFile(path string) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Sync()
}

// syncDir makes a rename last. Some file systems cannot, and lose at worst the whole variant by it.
func syncDir(dir string) error {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}

// Delete forgets a variant.
func (s *FileSystem) Delete(id ID) error {
	if !id.Valid() {
		return ErrBadID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(id)
	if e == nil {
		return ErrNotFound
	}
	return s.remove(e)
}

// Stats reads the totals.
func (s *FileSystem) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Files:         int64(len(s.variants)),
		Bytes:         s.bytes,
		MaxBytes:      s.maxBytes,
		Evictions:     s.evictions,
		WriteFailures: s.writeFailures,
	}
}
