package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// observer notes what a store tells.
type observer struct{ told []error }

func (o *observer) note(err error) { o.told = append(o.told, err) }

func (s *testStore) observed() *observer {
	o := new(observer)
	s.observe = o.note
	return o
}

// Case R15: that a store cannot be read is not that it does not have the variant.
func TestTroubleIsNotAMiss(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *testStore, id ID){
		"no descriptor is left": func(_ *testing.T, s *testStore, id ID) {
			s.system.list = func(string) ([]string, error) { return nil, syscall.EMFILE }
		},
		"the disk fails": func(_ *testing.T, s *testStore, id ID) {
			s.system.list = func(string) ([]string, error) { return nil, syscall.EIO }
		},
		"the folder is a loop": func(t *testing.T, s *testStore, id ID) {
			must(t, os.Rename(s.fanDir(id), filepath.Join(t.TempDir(), "aside")))
			must(t, os.Symlink(filepath.Base(s.fanDir(id)), s.fanDir(id)))
		},
		"the folder is a file": func(t *testing.T, s *testStore, id ID) {
			must(t, os.RemoveAll(s.fanDir(id)))
			write(t, s.fanDir(id), nil)
		},
		"the scope is a file": func(t *testing.T, s *testStore, id ID) {
			must(t, os.RemoveAll(filepath.Dir(s.fanDir(id))))
			write(t, filepath.Dir(s.fanDir(id)), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := newStore(t, 1<<20), ids(1)[0]
			s.put(id, 100)
			told := s.observed()
			harm(t, s, id)
			other := unknown(id, 1)[0]

			_, openErr := s.Open(other)
			_, statErr := s.Stat(other)
			for _, err := range []error{openErr, statErr} {
				if err == nil || errors.Is(err, ErrNotFound) {
					t.Errorf("error is %v", err)
				}
			}
			if n := s.Stats().ReadFailures; n != 2 {
				t.Errorf("%d failures were counted, want 2", n)
			}
			if len(told.told) != 1 {
				t.Errorf("told %v, want one error", told.told)
			}
		})
	}
}

func TestAListThatFailsSaysSo(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	elsewhere := ID{"ffffffffffffffff", id.Key}
	s.put(id, 100)
	s.put(elsewhere, 100)
	must(t, os.RemoveAll(s.fanDir(elsewhere)))
	write(t, s.fanDir(elsewhere), nil)
	infos, err := s.List(id.Key)
	if err == nil || len(infos) != 1 {
		t.Errorf("found %v, %v", infos, err)
	}
	s.system.list = func(string) ([]string, error) { return nil, syscall.EIO }
	if infos, err := s.List(id.Key); !errors.Is(err, syscall.EIO) || len(infos) != 0 {
		t.Errorf("found %v, %v", infos, err)
	}
	if n := s.Stats().ReadFailures; n != 2 {
		t.Errorf("%d failures were counted, want 2", n)
	}
}

func TestTroubleIsToldOnceAMinute(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	told, list := s.observed(), s.system.list
	failing := fmt.Errorf("reading: %w", syscall.EIO)
	s.system.list = func(string) ([]string, error) { return nil, failing }
	for range 3 {
		for range 10 {
			_, err := s.Open(unknown(id, 1)[0])
			mustBe(t, err, failing)
		}
		s.clock.advance(observeInterval - time.Second)
		_, err := s.Open(unknown(id, 1)[0])
		mustBe(t, err, failing)
		s.clock.advance(time.Second)
	}
	if len(told.told) != 3 || !errors.Is(told.told[0], failing) {
		t.Errorf("told %d times: %v", len(told.told), told.told)
	}
	if n := s.Stats().ReadFailures; n != 33 {
		t.Errorf("%d failures were counted, want 33", n)
	}
	s.system.list = list
	mustNotFind(t, s, unknown(id, 1)...)
	if n := s.Stats().ReadFailures; n != 33 {
		t.Errorf("a miss was counted as a failure")
	}
}

func TestACountThatFailsIsTrouble(t *testing.T) {
	s, all := newStore(t, 1<<20), ids(2)
	s.put(all[0], 100)
	told, list := s.observed(), s.system.list
	s.system.list = func(dir string) ([]string, error) {
		if dir == s.dir {
			return nil, syscall.EIO
		}
		return list(dir)
	}
	s.clock.advance(recountAfter)
	s.put(all[1], 100)
	if n := s.Stats().ReadFailures; n != 1 || len(told.told) != 1 {
		t.Errorf("%d failures were counted, told %v", n, told.told)
	}
}

// Case N20: file systems that have no modes, or whose files belong to somebody else (CIFS, FAT).
func TestAFileSystemWithoutModesAndTimesCanKeepVariants(t *testing.T) {
	for name, refusal := range map[string]error{
		"not permitted": &os.PathError{Op: "chmod", Err: syscall.EPERM},
		"no access":     &os.PathError{Op: "chmod", Err: syscall.EACCES},
		"not supported": &os.PathError{Op: "chmod", Err: syscall.ENOTSUP},
		"invalid":       &os.PathError{Op: "chmod", Err: syscall.EINVAL},
		"read-only":     &os.PathError{Op: "chmod", Err: syscall.EROFS},
	} {
		for _, what := range []string{"modes", "times", "both"} {
			t.Run(name+" "+what, func(t *testing.T) {
				s, all := newStore(t, 1<<20), ids(3)
				told := s.observed()
				if what != "times" {
					s.system.chmod = func(*os.File, os.FileMode) error { return refusal }
				}
				if what != "modes" {
					s.system.chtimes = func(string, time.Time, time.Time) error { return refusal }
				}
				for _, id := range all {
					s.put(id, 100)
					checkWhole(t, s.open(id))
				}
				s.checkAccounts()
				if len(told.told) != 1 || !errors.Is(told.told[0], refusal) {
					t.Errorf("told %v, want one note of %v", told.told, refusal)
				}
				if stats := s.Stats(); stats.WriteFailures != 0 || stats.ReadFailures != 0 {
					t.Errorf("counted %+v", stats)
				}
			})
		}
	}
}
