package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	s, all := newStore(t, 300), ids(5)
	for _, id := range all[:3] {
		s.put(id, 100)
		s.clock.advance(time.Second)
	}
	s.open(all[0]).Close()
	_, err := s.Stat(all[1]) // which is no use
	must(t, err)

	s.put(all[3], 100)
	if kept := s.kept(all...); kept != "0 2 3" {
		t.Errorf("kept %s, want 0 2 3", kept)
	}
	s.put(all[4], 250)
	if kept := s.kept(all...); kept != "4" {
		t.Errorf("kept %s, want 4", kept)
	}
	s.checkAccounts()
	if stats := s.Stats(); stats.Evictions != 4 {
		t.Errorf("%d evictions were counted, want 4", stats.Evictions)
	}
}

func TestUseSurvivesARestart(t *testing.T) {
	s, all := newStore(t, 300), ids(4)
	for _, id := range all[:3] {
		s.put(id, 100)
		s.clock.advance(time.Second)
	}
	stored := s.open(all[0]).Stored // less than a minute later: the disk is not told
	s.clock.advance(usePrecision)
	s.open(all[1]).Close()
	s.clock.advance(time.Second)
	s.open(all[0]).Close()

	s = s.restart()
	s.put(all[3], 100)
	if kept := s.kept(all...); kept != "0 1 3" {
		t.Errorf("kept %s, want 0 1 3", kept)
	}
	if again := s.open(all[0]).Stored; !again.Equal(stored) {
		t.Errorf("use changed the time of storing from %v to %v", stored, again)
	}
}

func TestAPopularVariantIsNotMarkedOnEveryUse(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	marked := func() time.Time {
		info, err := os.Stat(s.path(id, 100))
		must(t, err)
		return lastUsed(info)
	}
	put := marked()
	s.clock.advance(usePrecision - 1)
	s.open(id).Close()
	if !marked().Equal(put) {
		t.Error("it was marked within a minute")
	}
	s.clock.advance(1)
	s.open(id).Close()
	if !marked().Equal(s.clock.Now()) {
		t.Error("it was not marked after a minute")
	}
}

func TestWhatIsReadGoesLast(t *testing.T) {
	s, all := newStore(t, 300), ids(3)
	s.put(all[0], 100)
	s.put(all[1], 200)
	s.open(all[0])
	s.open(all[1]).Close() // used later, but nobody reads it
	s.put(all[2], 150)
	if kept := s.kept(all...); kept != "0 2" {
		t.Errorf("kept %s, want 0 2", kept)
	}
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held beside the store, which has them all", held)
	}
}

func TestWhatIsReadLosesItsNameAndCountsUntilItIsClosed(t *testing.T) {
	s, all := newStore(t, 300), ids(3)
	s.put(all[0], 100)
	s.put(all[1], 200)
	first, again := s.open(all[0]), s.open(all[0])

	s.put(all[2], 250) // beside which nothing else can stay
	if kept := s.kept(all...); kept != "2" {
		t.Errorf("kept %s, want 2", kept)
	}
	s.checkAccounts()
	checkWhole(t, first)
	first.Close()
	if held := s.Stats().HeldBytes; held != 100 {
		t.Errorf("with one of two readers left, %d bytes are held, want 100", held)
	}
	checkWhole(t, again)
	again.Close()
	again.Close()
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("when nobody reads it any more, %d bytes are held", held)
	}
}

func TestWhatIsDeletedOrReplacedCountsWhileItIsRead(t *testing.T) {
	s, all := newStore(t, 1<<20), ids(3)
	other := s.other()
	for _, id := range all {
		s.put(id, 100)
		s.open(id)
	}
	must(t, s.Delete(all[0]))
	s.put(all[1], 150)
	must(t, other.Delete(all[2]))
	if _, err := s.Stat(all[2]); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if held := s.Stats().HeldBytes; held != 300 {
		t.Errorf("%d bytes are held, want those of three files", held)
	}
}

func TestASmallerBoundHoldsAtOnce(t *testing.T) {
	s, all := newStore(t, 300), ids(3)
	for _, id := range all {
		s.put(id, 100)
	}
	s.SetMaxBytes(150)
	if kept := s.kept(all...); kept != "2" {
		t.Errorf("kept %s, want 2", kept)
	}
	if again := openStore(t, s.dir, 50, s.clock); again.Stats().Files != 0 {
		t.Error("a store opened with a smaller bound keeps more")
	}
}

func TestWhatOthersPutCountsAfterAMinute(t *testing.T) {
	s, all := newStore(t, 300), ids(6)
	other := s.other()
	s.put(all[0], 100)
	s.clock.advance(1)
	other.put(all[1], 100)
	s.clock.advance(1)
	other.put(all[2], 100)
	counted := s.counted
	s.clock.advance(recountAfter - 3)
	s.put(all[3], 100)
	if !s.counted.Equal(counted) {
		t.Error("it was counted again within a minute")
	}
	s.clock.advance(3)
	s.put(all[4], 100)
	if kept := s.kept(all...); kept != "2 3 4" {
		t.Errorf("kept %s, want 2 3 4", kept)
	}
	s.checkAccounts()
}

func TestWhatOthersUseStays(t *testing.T) {
	s, all := newStore(t, 300), ids(4)
	other := s.other()
	for _, id := range all[:3] {
		s.put(id, 100)
	}
	s.clock.advance(usePrecision)
	other.open(all[0]).Close()
	s.clock.advance(time.Second)
	s.put(all[3], 100)
	if kept := s.kept(all...); kept != "0 2 3" {
		t.Errorf("kept %s, want 0 2 3", kept)
	}
	s.put(all[1], 200)
	if kept := s.kept(all...); kept != "1 3" {
		t.Errorf("then kept %s, want 1 3", kept)
	}
}

func TestWhatOthersRemovedOrReplacedIsNoticed(t *testing.T) {
	s, all := newStore(t, 1000), ids(3)
	other := s.other()
	for _, id := range all {
		s.put(id, 100)
	}
	must(t, other.Delete(all[0]))
	other.put(all[1], 150)

	_, err := s.Open(all[0])
	mustBe(t, err, ErrNotFound)
	if v := s.open(all[1]); v.Size != 150 {
		t.Errorf("opened the one of %d bytes, which is gone", v.Size)
	}
	s.checkAccounts()

	must(t, other.Delete(all[2])) // and s does not look before it evicts
	s.SetMaxBytes(150)
	if stats := s.Stats(); stats.Evictions != 0 {
		t.Errorf("%d evictions were counted of what others had removed", stats.Evictions)
	}
}

func TestACountThatFailsForgetsNothing(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	aside := filepath.Join(t.TempDir(), "aside")
	must(t, os.Rename(s.fanDir(id), aside))
	must(t, os.Symlink(filepath.Base(s.fanDir(id)), s.fanDir(id))) // a loop: opening it fails, even for root
	s.clock.advance(recountAfter)
	s.recount()
	if stats := s.Stats(); stats.Files != 1 {
		t.Error("what could not be listed was forgotten")
	}
	must(t, os.Remove(s.fanDir(id)))
	must(t, os.Rename(aside, s.fanDir(id)))
	s.checkAccounts()
}

func TestMakeRoomGivesUpAboutAsMuchAsIsMissing(t *testing.T) {
	all := ids(5)
	for name, test := range map[string]struct {
		free  int64
		known bool
		n     int64
		kept  string
		hope  bool
	}{
		"enough is free":            {free: 500, known: true, n: 500, kept: "0 1 2 3 4", hope: true},
		"some is missing":           {free: 500, known: true, n: 501, kept: "0 2 3 4", hope: true},
		"as much as two":            {free: 100, known: true, n: 300, kept: "0 3 4", hope: true},
		"more than there is":        {free: 0, known: true, n: 1 << 40, kept: "0", hope: true},
		"nobody knows what is free": {known: false, n: 150, kept: "0 3 4", hope: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, 1<<20)
			for _, id := range all {
				s.put(id, 100)
			}
			s.system.free = func(string) (int64, bool) { return test.free, test.known } // whatever is given up
			s.open(all[0])                                                              // which is why it stays
			if hope := s.MakeRoom(test.n); hope != test.hope {
				t.Errorf("it says %v", hope)
			}
			if kept := s.kept(all...); kept != test.kept {
				t.Errorf("kept %s, want %s", kept, test.kept)
			}
			s.checkAccounts()
		})
	}
	t.Run("there is nothing to give up", func(t *testing.T) {
		s := newStore(t, 1<<20)
		s.system.free = func(string) (int64, bool) { return 0, true }
		if s.MakeRoom(1) {
			t.Error("it gives hope")
		}
	})
}

func TestClosingTwiceIsHarmless(t *testing.T) {
	s, id := newStore(t, 300), ids(1)[0]
	s.put(id, 100)
	v, other := s.open(id), s.open(id)
	v.Close()
	v.Close() // and not for the other reader
	must(t, s.Delete(id))
	if held := s.Stats().HeldBytes; held != 100 {
		t.Errorf("%d bytes are held by the one that is open", held)
	}
	other.Close()
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
	s.checkAccounts()
}
