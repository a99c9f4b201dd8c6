package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestWhatIsNoVariantIsNeverServed(t *testing.T) {
	id := ids(1)[0]
	in := func(s *testStore, name string) string { return filepath.Join(s.fanDir(id), name) }
	file := func(name string, size int) func(*testing.T, *testStore) {
		return func(t *testing.T, s *testStore) { write(t, in(s, name), contentOf(id, size)) }
	}
	for name, test := range map[string]struct {
		make  func(t *testing.T, s *testStore)
		stays bool // since it has not the name of a variant, and is none of the store's business
	}{
		"cut short":           {make: file(id.Key+".5000", 4999)},
		"too long":            {make: file(id.Key+".5000", 5001)},
		"empty":               {make: file(id.Key+".5000", 0)},
		"empty, and says so":  {make: file(id.Key+".0", 0)},
		"no size":             {make: file(id.Key, 5000), stays: true},
		"an odd size":         {make: file(id.Key+".05000", 5000), stays: true},
		"a suffix":            {make: file(id.Key+".5000.mp3", 5000), stays: true},
		"a longer key":        {make: file(id.Key+"0.5000", 5000), stays: true},
		"a link":              {make: func(t *testing.T, s *testStore) { link(t, in(s, id.Key)) }},
		"a folder":            {make: func(t *testing.T, s *testStore) { must(t, os.MkdirAll(in(s, id.Key+".5000"), 0o700)) }},
		"in the wrong folder": {make: func(t *testing.T, s *testStore) { write(t, wrongFan(s, id), contentOf(id, 5000)) }, stays: true},
		"a file for a fan":    {make: func(t *testing.T, s *testStore) { write(t, s.fanDir(id), nil) }, stays: true},
		"a file for a scope":  {make: func(t *testing.T, s *testStore) { write(t, filepath.Join(s.dir, id.Scope), nil) }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			for moment, look := range map[string]func(*testStore){
				"a request":  func(s *testStore) { _, _ = s.Open(id) },
				"a count":    func(s *testStore) { s.recounted() },
				"an opening": func(s *testStore) { s.other() },
			} {
				s := newStore(t, 1<<20)
				test.make(t, s)
				look(s)
				if files, _ := onDisk(t, s.dir); test.stays != (files > 0) {
					t.Errorf("after %s there are %d files; it is ours to remove: %v", moment, files, !test.stays)
				}
				if _, err := s.Stat(id); err == nil {
					t.Errorf("after %s it was found", moment)
				}
				if _, err := s.Open(id); err == nil {
					t.Errorf("after %s it was opened", moment)
				}
				if stats := s.recounted(); stats.Files != 0 || stats.Bytes != 0 {
					t.Errorf("after %s it counts as %+v", moment, stats)
				}
			}
		})
	}
}

func TestWhatIsNoVariantDoesNoHarmToThoseBesideIt(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	write(t, filepath.Join(s.fanDir(id), id.Key+".0100"), contentOf(id, 100))
	write(t, filepath.Join(s.fanDir(id), id.Key), contentOf(id, 100))
	for i := range 256 { // wherever the folder is listed first
		if fan := fmt.Sprintf("%02x", i); fan != id.Key[:fanDigits] {
			write(t, filepath.Join(s.dir, id.Scope, fan), []byte("in the way"))
		}
	}
	for _, s := range []*testStore{s, s.other()} {
		if stats := s.recounted(); stats.Files != 1 || stats.Bytes != 100 {
			t.Errorf("the store believes in %+v", stats)
		}
		checkWhole(t, s.open(id))
	}
}

// inTheWay puts a folder that cannot be removed in a variant's place, and returns what puts the variant back.
func inTheWay(t *testing.T, path string) (undo func()) {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "aside")
	must(t, os.Rename(path, aside))
	write(t, filepath.Join(path, "file"), nil)
	return func() {
		must(t, os.RemoveAll(path))
		must(t, os.Rename(aside, path))
	}
}

func TestWhatCannotBeRemovedStaysKnown(t *testing.T) {
	s, all := newStore(t, 300), ids(3)
	for _, id := range all {
		s.put(id, 100)
		s.clock.advance(1)
	}
	undo := inTheWay(t, s.path(all[0], 100))
	if err := s.Delete(all[0]); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("deleting it: %v", err)
	}
	undo()
	checkWhole(t, s.open(all[0]))
	s = s.restart() // so that nobody reads it, and it is the next to go
	undo = inTheWay(t, s.path(all[0], 100))
	s.SetMaxBytes(200) // another one goes in its place
	undo()
	if kept := s.kept(all...); kept != "0 2" {
		t.Errorf("kept %s, want 0 2", kept)
	}
	checkWhole(t, s.open(all[0]))
	s.checkAccounts()
}

// link makes a link that is as long as what it leads to: the size in its name is right in either way.
func link(t *testing.T, path string) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, contentOf(ids(1)[0], len(target)))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.Symlink(target, path+"."+strconv.Itoa(len(target))))
}

func wrongFan(s *testStore, id ID) string {
	return filepath.Join(s.dir, id.Scope, "00", id.Key+".5000")
}

func TestAVariantThatIsCutShortLaterIsRemoved(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 5000)
	must(t, os.Truncate(s.path(id, 5000), 4999))

	_, err := s.Open(id)
	mustBe(t, err, ErrNotFound)
	if exists(s.path(id, 5000)) {
		t.Error("it is still there")
	}
	s.checkAccounts()
	s.put(id, 5000)
	checkWhole(t, s.open(id))
}

func TestPutTakesThePlaceOfWhatIsNoVariant(t *testing.T) {
	for name, obstruct := range map[string]func(t *testing.T, path string){
		"a folder": func(t *testing.T, path string) { must(t, os.MkdirAll(path, 0o700)) },
		"a link": func(t *testing.T, path string) {
			write(t, path, nil)
			must(t, os.Remove(path))
			must(t, os.Symlink(t.TempDir(), path))
		},
		"cut short": func(t *testing.T, path string) { write(t, path, []byte("short")) },
	} {
		t.Run(name, func(t *testing.T) {
			s, id := newStore(t, 1<<20), ids(1)[0]
			obstruct(t, s.path(id, 100))
			write(t, s.path(id, 101), []byte("another attempt"))
			s.put(id, 100)
			checkWhole(t, s.open(id))
			s.checkAccounts()
		})
	}
}

func TestOfTwoFilesOfOneVariantTheLaterStays(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	// Two processes put it at the same time, and neither saw the other's.
	for size, later := range map[int]time.Duration{300: 0, 100: time.Second, 200: 0} {
		path, at := s.path(id, int64(size)), s.clock.Now().Add(later)
		write(t, path, contentOf(id, size))
		must(t, os.Chtimes(path, at, at))
	}
	s.recounted()
	s.checkAccounts()
	if v := s.open(id); v.Size != 100 {
		t.Errorf("the one of %d bytes stayed", v.Size)
	}
}

func TestEmptyFoldersDoNotPileUp(t *testing.T) {
	s, all := newStore(t, 1<<20), ids(20)
	for _, id := range all {
		s.put(id, 10)
	}
	for _, id := range all {
		must(t, s.Delete(id))
	}
	s.recounted()
	s.recounted()
	if names, _ := readNames(s.dir); len(names) != 1 || names[0] != stagingName {
		t.Errorf("there are still %v", names)
	}
}
