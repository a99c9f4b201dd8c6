package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatWasPutIsOpened(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 5000)
	put := s.clock.Now()
	s.clock.advance(3 * time.Hour)

	for name, s := range map[string]*testStore{"the same process": s, "another process": s.other(), "the next": s.restart()} {
		t.Run(name, func(t *testing.T) {
			v := s.open(id)
			checkWhole(t, v)
			if v.ID != id || v.Size != 5000 || !v.Stored.Equal(put) || !v.LastUsed.Equal(s.clock.Now()) {
				t.Errorf("what is known of it is %+v", v.Info)
			}
			if _, isFile := v.Content.(*os.File); !isFile {
				t.Error("it cannot be sent without copying")
			}
			v.Close()
			v.Close() // harmless
			s.checkAccounts()
		})
	}
}

func TestOnlyWellFormedIDsNameAnything(t *testing.T) {
	s, good := newStore(t, 1<<20), ids(1)[0]
	before := len(filesIn(t, s.dir))
	for name, id := range map[string]ID{
		"nothing":          {},
		"no scope":         {Key: good.Key},
		"upper case":       {good.Scope, strings.ToUpper(good.Key)},
		"too short":        {good.Scope, good.Key[1:]},
		"too long":         {good.Scope, good.Key + "0"},
		"dots in the key":  {good.Scope, "../" + good.Key[3:]},
		"dots for a scope": {"../../../../../..", good.Key},
		"a zero byte":      {good.Scope[:15] + "\x00", good.Key},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Open(id)
			mustBe(t, err, ErrBadID)
			_, err = s.Stat(id)
			mustBe(t, err, ErrBadID)
			mustBe(t, s.Delete(id), ErrBadID)
			mustBe(t, tryPut(s, id, 100), ErrBadID)
		})
	}
	if infos, _ := s.List("../" + good.Key[3:]); len(infos) != 0 {
		t.Errorf("List found %v", infos)
	}
	if after := len(filesIn(t, s.dir)); after != before {
		t.Errorf("%d files were left", after-before)
	}
}

func TestUnknownVariantsAreNotFound(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	_, err := s.Open(id)
	mustBe(t, err, ErrNotFound)
	_, err = s.Stat(id)
	mustBe(t, err, ErrNotFound)
	mustBe(t, s.Delete(id), ErrNotFound)
}

func TestListFindsEveryScope(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	elsewhere := ID{"ffffffffffffffff", id.Key}
	s.put(id, 10)
	s.put(elsewhere, 20)
	write(t, filepath.Join(s.dir, "a folder of somebody's", "file"), nil)
	if infos, err := s.List(id.Key); err != nil || len(infos) != 2 || infos[0].Size+infos[1].Size != 30 {
		t.Errorf("List found %v, %v", infos, err)
	}
}

func TestDeletedIsGoneButReadOn(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 5000)
	v := s.open(id)
	must(t, s.Delete(id))
	s.checkAccounts()
	_, err := s.Open(id)
	mustBe(t, err, ErrNotFound)
	checkWhole(t, v)
	v.Close()
	s.checkAccounts()
}

func TestPutReplaces(t *testing.T) {
	for name, size := range map[string]int{"same size": 5000, "other size": 6000} {
		t.Run(name, func(t *testing.T) {
			s, id := newStore(t, 1<<20), ids(1)[0]
			s.put(id, 5000)
			before := s.open(id)
			s.put(id, size)

			checkWhole(t, s.open(id))
			checkWhole(t, before)
			s.checkAccounts()
			if files, _ := onDisk(t, s.dir); files != 1 {
				t.Errorf("%d files for one variant", files)
			}
		})
	}
}

func TestWhatCannotBePutStaysWhereItIs(t *testing.T) {
	s, id := newStore(t, 1000), ids(1)[0]
	s.put(id, 900)
	failing := errors.New("some failure")
	for name, test := range map[string]struct {
		size   int
		rename func(from, to string) error
		want   error // nil: any
		counts int64
	}{
		"too large":       {size: 1001, want: ErrTooLarge},
		"empty":           {size: 0, counts: 1},
		"rename fails":    {size: 10, rename: func(string, string) error { return failing }, want: failing, counts: 1},
		"folder vanishes": {size: 10, rename: func(string, string) error { return os.ErrNotExist }, want: os.ErrNotExist, counts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			stage, err := s.Stage()
			must(t, err)
			defer stage.Remove()
			path := filepath.Join(stage.Dir(), "final")
			write(t, path, contentOf(id, test.size))
			if test.rename != nil {
				s.system.rename = test.rename
				defer func() { s.system.rename = os.Rename }()
			}
			failures := s.Stats().WriteFailures

			err = s.Put(id, path)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if !exists(path) {
				t.Error("the file is gone")
			}
			if counted := s.Stats().WriteFailures - failures; counted != test.counts {
				t.Errorf("%d write failures were counted, want %d", counted, test.counts)
			}
			checkWhole(t, s.open(id)) // what was kept before is still there
			s.checkAccounts()
		})
	}
}

func TestPutMakesItsFolderAgain(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	crossings := 0
	s.system.rename = func(from, to string) error {
		if crossings++; crossings < placeAttempts {
			must(t, os.Remove(filepath.Dir(to))) // another process counted, and found it empty
		}
		return os.Rename(from, to)
	}
	s.put(id, 100)
	checkWhole(t, s.open(id))
	s.checkAccounts()
}

func TestAFolderThatIsRemovedIsMadeAgain(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	must(t, os.RemoveAll(s.dir))
	_, err := s.Open(id)
	mustBe(t, err, ErrNotFound)
	s.put(id, 100)
	checkWhole(t, s.open(id))
	s.checkAccounts()
}

func TestNobodyElseMayReadWhatIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by us")
	s, id := openStore(t, dir, 1<<20, newClock()), ids(1)[0]
	s.put(id, 100)
	for _, path := range []string{s.dir, filepath.Join(s.dir, stagingName), s.fanDir(id), filepath.Dir(s.fanDir(id)), s.path(id, 100)} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

func TestHitsNeverWaitForChanges(t *testing.T) {
	s, all := newStore(t, 1<<20), ids(3)
	s.put(all[0], 100)
	s.other().put(all[1], 100)

	s.changing.Lock() // somebody is renaming, removing or counting, and the disk is slow
	defer s.changing.Unlock()
	checkWhole(t, s.open(all[0]))
	checkWhole(t, s.open(all[1]))
	_, err := s.Open(all[2])
	mustBe(t, err, ErrNotFound)
	s.Stats()
	_, err = s.Stat(all[0])
	must(t, err)
}

func TestAFailureToOpenIsNoReasonToForget(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	aside := filepath.Join(t.TempDir(), "aside")
	must(t, os.Rename(s.fanDir(id), aside))
	write(t, s.fanDir(id), []byte("in the way")) // now opening fails otherwise than by not being there

	_, err := s.Open(id)
	if err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("error is %v, want that of the system", err)
	}
	must(t, os.Remove(s.fanDir(id)))
	must(t, os.Rename(aside, s.fanDir(id)))
	v := s.open(id)
	checkWhole(t, v)
	s.checkAccounts()

	v.Close()
	s.SetMaxBytes(1) // nobody is reading it
	s.checkAccounts()
	if stats := s.Stats(); stats.Files != 0 {
		t.Error("the attempt still counts as a reader")
	}
}
