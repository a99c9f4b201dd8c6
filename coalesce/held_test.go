package coalesce_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// accounted is a store with a ledger.
type accounted struct {
	*memoryStore
	ledger *store.Ledger
}

func (a accounted) Ledger() *store.Ledger { return a.ledger }

// refusing are the terms of a store that takes nothing, and lets listeners hold limit bytes.
func (s *site) refusing(limit int64) (coalesce.Terms, *store.Ledger) {
	s.store.putErr = store.ErrTooLarge
	terms := s.terms()
	kept := accounted{s.store, store.NewLedger(limit)}
	terms.Store = kept
	return terms, kept.ledger
}

// standStill renders a variant for a listener who has heard its beginning and then stands still.
func (s *site) standStill(t *testing.T, id store.ID, terms coalesce.Terms, ending error) *coalesce.Listener {
	t.Helper()
	l, j := s.start(t, id, admission.Interactive, terms)
	j.write("0123456789")
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var piece [1]byte
	if n, err := l.Read(piece[:]); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	j.end(ending)
	synctest.Wait()
	return l
}

// Case S8: spools that the store refused.
func TestWhatTheStoreRefusedCountsAsHeldByItsListeners(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms, ledger := s.refusing(25)
		told := make(map[store.ID]int)
		var all []*coalesce.Listener
		for i, id := range []store.ID{a, b, c} {
			ending := error(nil)
			if i == 1 {
				ending = errors.New("broken") // what there is of it is still to be heard
			}
			l := s.standStill(t, id, terms, ending)
			l.OnLetGo(func() { told[id]++ })
			defer l.Close()
			all = append(all, l)
			if want := 10 * min(int64(i)+1, 3); ledger.Held() != want {
				t.Errorf("%d listeners hold %d bytes, want %d", i+1, ledger.Held(), want)
			}
			time.Sleep(10 * time.Second)
			if i == 1 {
				var piece [1]byte
				if n, err := all[0].Read(piece[:]); n != 1 || err != nil { // it goes on, and is not the stillest
					t.Fatal(n, err)
				}
				time.Sleep(10 * time.Second)
			}
		}
		synctest.Wait()
		// Then the one that stood still for longest is told to go,
		if len(told) != 1 || told[b] == 0 {
			t.Fatalf("told to go: %v", told)
		}
		if _, err := hearRest(all[1]); !errors.Is(err, store.ErrLetGo) {
			t.Errorf("it is told %v", err)
		}
		// gives its files back by leaving,
		all[1].Close()
		before := told[b]
		if ledger.Held() != 20 || s.spools(t) != 2 {
			t.Errorf("%d bytes and %d spools are held", ledger.Held(), s.spools(t))
		}
		// and is not told when it has left; and the others hear all there is.
		time.Sleep(10 * time.Second)
		if len(told) != 1 || told[b] != before {
			t.Errorf("told to go: %v", told)
		}
		if rest, _ := hearRest(all[2]); rest != "123456789" {
			t.Errorf("the last one heard %q", rest)
		}
		if s.group.Held() != 0 {
			t.Errorf("the group accounts for %d bytes of the store's", s.group.Held())
		}
	})
}

func TestWhereNothingIsKeptTheGroupAccountsForWhatIsHeld(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l := s.standStill(t, a, s.unstored(), nil)
		if held := s.group.Held(); held != 10 {
			t.Errorf("%d bytes are held", held)
		}
		l.Close()
		time.Sleep(2 * time.Second) // it lingers
		if held := s.group.Held(); held != 0 {
			t.Errorf("%d bytes are held by nobody", held)
		}
	})
}

func TestWhatIsRenderingIsNotHeld(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms, ledger := s.refusing(1)
		l, j := s.start(t, a, admission.Interactive, terms)
		j.write("0123456789")
		time.Sleep(time.Minute / 2)
		if held := ledger.Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
		j.end(nil)
		time.Sleep(2 * time.Minute)
		wantEnding(t, l, store.ErrLetGo)
	})
}

// Nobody joins a flight whose files are given up.
func TestALateListenerDoesNotJoinWhatWasLetGo(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms, _ := s.refusing(15)
		l := s.standStill(t, a, terms, nil)
		defer l.Close()
		time.Sleep(time.Millisecond)
		other := s.standStill(t, b, terms, nil)
		defer other.Close()
		synctest.Wait()
		if _, err := hearRest(l); !errors.Is(err, store.ErrLetGo) {
			t.Fatalf("told %v", err)
		}
		if again, joined := s.group.Join(a, admission.Interactive); joined {
			again.Close()
			t.Error("joined")
		}
	})
}

// What the store took is the store's to account for: it takes no room twice.
func TestListenersOfWhatWasStoredAreReadersOfTheStore(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		dir := filepath.Join(s.temp, "store")
		kept, err := store.OpenFileSystem(dir, 15, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		defer kept.Close()
		terms := s.terms()
		terms.Store = kept
		// Given a listener of a variant that is stored, which nothing but the store holds,
		l := s.standStill(t, a, terms, nil)
		defer l.Close()
		if stats := kept.Stats(); stats.Bytes != 10 || stats.HeldBytes != 0 {
			t.Errorf("the store has %+v", stats)
		}
		if n := s.spools(t); n != 0 {
			t.Errorf("%d spools are left beside the store", n)
		}
		// when it is evicted, then the listener holds it, and reads on;
		second := s.standStill(t, b, terms, nil)
		defer second.Close()
		if stats := kept.Stats(); stats.Bytes != 10 || stats.HeldBytes != 10 {
			t.Errorf("the store has %+v", stats)
		}
		var piece [1]byte
		if n, err := l.Read(piece[:]); n != 1 || err != nil || piece[0] != '1' {
			t.Errorf("read %q, %v", piece[:n], err)
		}
		// and when there is too much of that, one has to go.
		third := s.standStill(t, c, terms, nil)
		defer third.Close()
		synctest.Wait()
		gone := 0
		for _, l := range []*coalesce.Listener{l, second, third} {
			if _, err := hearRest(l); errors.Is(err, store.ErrLetGo) {
				gone++
				l.Close()
			}
		}
		if stats := kept.Stats(); gone != 1 || stats.Bytes != 10 || stats.HeldBytes != 10 {
			t.Errorf("%d went; the store has %+v", gone, stats)
		}
	})
}

// A format that is stored in another form than it is streamed in takes room beside the store while it is heard.
func TestAStreamedFormCountsBesideTheStoredOne(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		dir := filepath.Join(s.temp, "store")
		kept, err := store.OpenFileSystem(dir, 100, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		defer kept.Close()
		terms := s.terms()
		terms.Store = kept
		l, j := s.start(t, a, admission.Interactive, terms)
		j.write("fragments")
		j.final("a proper file")
		j.end(nil)
		synctest.Wait()
		if stats := kept.Stats(); stats.Bytes != 13 || stats.HeldBytes != 9 {
			t.Errorf("the store has %+v", stats)
		}
		want(t, l, "fragments")
		if stats := kept.Stats(); stats.HeldBytes != 0 {
			t.Errorf("the store has %+v", stats)
		}
	})
}
