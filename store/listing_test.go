package store

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// countListings counts how often the store lists a folder from now on.
func (s *testStore) countListings() *atomic.Int64 {
	n, list := new(atomic.Int64), s.system.list
	s.system.list = func(dir string) ([]string, error) {
		n.Add(1)
		return list(dir)
	}
	return n
}

// age makes the folder of a variant one that changed last a while ago.
func (s *testStore) age(id ID, ago time.Duration) {
	s.t.Helper()
	at := time.Now().Add(-ago)
	must(s.t, os.Chtimes(s.fanDir(id), at, at))
}

// unknown are IDs that lie in the folder of one that is stored, and are not.
func unknown(id ID, n int) []ID {
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = ID{id.Scope, id.Key[:fanDigits] + fmt.Sprintf("%062x", i)}
	}
	return ids
}

// Case R12: whoever asks for what is not there must not have us read folders.
func TestMissesListNothingInAFolderThatHasNotChanged(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	nowhere := ID{Scope: "ffffffffffffffff", Key: id.Key}
	for name, s := range map[string]*testStore{"of a process that counted": s.other(), "of one that wrote": s} {
		t.Run(name, func(t *testing.T) {
			s.age(id, 2*clockSkew)
			mustNotFind(t, s, unknown(id, 1)...)
			listings := s.countListings()
			mustNotFind(t, s, append(unknown(id, 100), nowhere)...)
			if n := listings.Load(); n != 0 {
				t.Errorf("%d misses listed %d folders", 101, n)
			}
			checkWhole(t, s.open(id))
		})
	}
}

func TestAStoreThatWasJustOpenedListsNothingForMisses(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	s.age(id, 2*clockSkew)
	s = s.restart()
	listings := s.countListings()
	mustNotFind(t, s, unknown(id, 100)...)
	if n := listings.Load(); n != 0 {
		t.Errorf("it listed %d folders, all of which it had just counted", n)
	}
}

func mustNotFind(t *testing.T, s *testStore, all ...ID) {
	t.Helper()
	for _, id := range all {
		_, err := s.Open(id)
		mustBe(t, err, ErrNotFound)
		_, err = s.Stat(id)
		mustBe(t, err, ErrNotFound)
	}
}

func TestWhatAnotherProcessPutsIsFoundAtOnce(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	other := s.other()
	for round, ago := range []time.Duration{0, 2 * timeGranularity, 2 * clockSkew} {
		s.age(id, ago)
		mustNotFind(t, s, unknown(id, 10)...) // so that the folder has been listed, as it is
		for i, put := range unknown(id, 20)[10:] {
			put.Scope = fmt.Sprintf("%016x", round)
			if i == 0 {
				mustNotFind(t, s, put)
			}
			other.put(put, 100)
			v, err := s.Open(put)
			if err != nil {
				t.Fatalf("variant %d in a folder %v old: %v", i, ago, err)
			}
			v.Close()
		}
	}
	s.checkAccounts()
}

// A folder that changes twice within the granularity of its file system's times shows that only once.
func TestAListingIsTrustedOnceTheFoldersTimeCannotComeAgain(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		modified, seen time.Duration // before the listing
		want           bool
	}{
		"just changed":                          {0, 0, false},
		"changed a while ago by another clock":  {timeGranularity, 0, false},
		"older than the clocks differ":          {clockSkew, 0, true},
		"seen to be so for a while":             {time.Millisecond, timeGranularity, true},
		"of a clock that is ahead":              {-time.Hour, 0, false},
		"of a clock that is ahead, for a while": {-time.Hour, timeGranularity, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := listing{modified: now.Add(-test.modified), seen: now.Add(-test.seen), listed: now}
			if l.holds(l.modified) != test.want {
				t.Errorf("it holds: %v", !test.want)
			}
			if l.holds(l.modified.Add(1)) {
				t.Error("it holds for a folder that has changed")
			}
		})
	}
}

func TestAFolderWithANewTimeIsListedUntilThatIsOld(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	wall := newClock()
	wall.now = time.Now()
	s.system.wall = wall.Now
	s.put(id, 100)
	s.age(id, 0)
	listings := s.countListings()
	mustNotFind(t, s, unknown(id, 3)...)
	if n := listings.Load(); n != 6 {
		t.Errorf("within the granularity, 6 looks listed %d times", n)
	}
	wall.advance(timeGranularity)
	mustNotFind(t, s, unknown(id, 3)...)
	if n := listings.Load(); n != 7 {
		t.Errorf("after that, once more was enough, and not %d times", n-6)
	}
}

// What cannot be told from the listing alone must not make it one to trust.
func TestAListingOfWhatTheIndexDoesNotKnowIsNotKept(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	// Another process replaced the variant. Until it is opened, the index believes in the file that is gone.
	must(t, os.Remove(s.path(id, 100)))
	write(t, s.path(id, 50), contentOf(id, 50))
	s.age(id, 2*clockSkew)
	mustNotFind(t, s, unknown(id, 1)...)
	v := s.open(id)
	checkWhole(t, v)
	if v.Size != 50 {
		t.Errorf("opened one of %d bytes", v.Size)
	}
	s.checkAccounts()
}

// Case R6: warm answered "hit" for a variant whose file was deleted.
func TestStatAndListLookAtTheDisk(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *testStore, id ID){
		"deleted":   func(t *testing.T, s *testStore, id ID) { must(t, os.Remove(s.path(id, 100))) },
		"cut short": func(t *testing.T, s *testStore, id ID) { must(t, os.Truncate(s.path(id, 100), 99)) },
		"all gone":  func(t *testing.T, s *testStore, id ID) { must(t, os.RemoveAll(s.dir)) },
	} {
		for _, ask := range []string{"Stat", "List"} {
			t.Run(name+" "+ask, func(t *testing.T) {
				s, id := newStore(t, 1<<20), ids(1)[0]
				s.put(id, 100)
				harm(t, s, id)
				switch ask {
				case "Stat":
					_, err := s.Stat(id)
					mustBe(t, err, ErrNotFound)
				case "List":
					if infos, err := s.List(id.Key); err != nil || len(infos) != 0 {
						t.Errorf("List found %v, %v", infos, err)
					}
				}
				if stats := s.Stats(); ask == "Stat" && (stats.Files != 0 || stats.Bytes != 0) {
					t.Errorf("the index still has it: %+v", stats)
				}
				if stats := s.Stats(); stats.ReadFailures != 0 {
					t.Errorf("that it is gone is no failure: %+v", stats)
				}
				s.put(id, 100)
				checkWhole(t, s.open(id))
			})
		}
	}
}

func TestStatFindsAReplacedVariant(t *testing.T) {
	s, id := newStore(t, 1<<20), ids(1)[0]
	s.put(id, 100)
	s.other().put(id, 70)
	if info, err := s.Stat(id); err != nil || info.Size != 70 {
		t.Errorf("Stat says %+v, %v", info, err)
	}
	s.checkAccounts()
}

func TestAStatIsNoUse(t *testing.T) {
	s, all := newStore(t, 300), ids(4)
	other := s.other()
	for _, id := range all[:3] {
		other.put(id, 100) // so that Stat is what discovers it
		s.clock.advance(2 * usePrecision)
	}
	for _, i := range []int{2, 1, 0} {
		if info, err := s.Stat(all[i]); err != nil || !strings.HasPrefix(info.ID.Key, all[i].Key) {
			t.Fatal(info, err)
		}
	}
	s.put(all[3], 100)
	if kept := s.kept(all...); kept != "1 2 3" {
		t.Errorf("kept %s, want 1 2 3", kept)
	}
}
