package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// placeAttempts is how often the folder may vanish between making it and renaming into it: empty ones are
	// removed by every count, of any process.
	placeAttempts = 5

	// placeRoom is how much space is made where there is none left for a folder or a name.
	placeRoom = 64 << 10
)

// Put makes the file at path the variant id, in place of one that is kept under that ID already.
func (s *FileSystem) Put(id ID, path string) error {
	if !id.Valid() {
		return ErrBadID
	}
	err := s.put(id, path)
	if err == nil || errors.Is(err, ErrTooLarge) {
		return err
	}
	s.mu.Lock()
	s.writeFailures++
	s.mu.Unlock()
	return fmt.Errorf("storing a variant: %w", err)
}

func (s *FileSystem) put(id ID, path string) error {
	e, err := s.seal(id, path)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	older, err := s.namesOf(id)
	if err != nil {
		_ = s.unreadable(err) // what cannot be listed stays for the next count
	}
	target := s.path(id, e.size)
	if err := s.place(path, target); err != nil {
		return err
	}
	for _, name := range older {
		if name != filepath.Base(target) {
			_ = os.Remove(filepath.Join(filepath.Dir(target), name))
		}
	}

	s.mu.Lock()
	e = s.rememberPlaced(e)
	e.pinned = true // the newest of all is not the one to go
	s.mu.Unlock()
	s.recount()
	s.evict(s.bound(), unlinksOpen)
	s.mu.Lock()
	e.pinned = false
	s.mu.Unlock()
	return nil
}

// seal makes a file what it will be for ever, and brings it to the disk: after a crash, a name without its
// contents would be a lie. A name that has not reached the disk itself costs the variant, and no more.
func (s *FileSystem) seal(id ID, path string) (*entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !isWhole(info, info.Size()) {
		return nil, fmt.Errorf("%s is empty, or no file", path)
	}
	if info.Size() > s.bound() {
		return nil, ErrTooLarge
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	now := s.system.now()
	if err := errors.Join(s.system.chmod(f, 0o600), s.system.chtimes(path, now, now)); err != nil {
		// CIFS, FAT and mounts of another user's refuse this. The folders keep others out, and the times are
		// nearly right as they are; a disk that fails altogether says so when it is synced.
		s.withoutAttributes(err)
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err != nil { // the times as the disk has rounded them, and others will read them
		return nil, err
	}
	return &entry{id: id, size: info.Size(), stored: info.ModTime(), used: now, marked: now}, nil
}

// place renames a file to its final name, making the folder for it.
func (s *FileSystem) place(path, target string) error {
	var err error
	for range placeAttempts {
		if err = os.MkdirAll(filepath.Dir(target), 0o700); err == nil {
			if err = s.system.rename(path, target); err == nil {
				return nil
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case isFull(err) && s.makeRoom(placeRoom):
		case isBlocked(target):
			_ = os.Remove(target)
		default:
			return err
		}
	}
	return err
}

// isBlocked reports whether something that is no file has a variant's name.
func isBlocked(target string) bool {
	info, err := os.Lstat(target)
	return err == nil && !info.Mode().IsRegular()
}

// Delete forgets a variant, and removes its file. Those who have it open read on.
func (s *FileSystem) Delete(id ID) error {
	if !id.Valid() {
		return ErrBadID
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	e := s.variants[id]
	if e != nil {
		e.leaving = true
	}
	s.mu.Unlock()
	found, err := s.removeFiles(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e != nil {
		e.leaving = false
		if err == nil {
			s.forget(e)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("deleting a variant: %w", err)
	case !found:
		return ErrNotFound
	}
	return nil
}

// removeFiles removes whatever has the name of this variant, and reports whether any of it was whole.
func (s *FileSystem) removeFiles(id ID) (found bool, err error) {
	names, err := s.namesOf(id)
	for _, name := range names {
		_, size, _ := parseName(name)
		_, broken := s.readEntry(id, size)
		removeErr := os.Remove(s.path(id, size))
		if removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		found = found || broken == nil && removeErr == nil
	}
	return found, err
}

// discard removes what has a variant's name and is none.
func (s *FileSystem) discard(id ID, size int64) {
	s.changing.Lock()
	defer s.changing.Unlock()
	// Looked at again: since then it may have been put, and whole.
	if _, err := s.readEntry(id, size); errors.Is(err, errBroken) {
		_ = os.Remove(s.path(id, size))
	}
}

func (s *FileSystem) bound() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxBytes
}
