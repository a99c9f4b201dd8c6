package store

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// aLedger is a ledger that looks only when it is told to.
type aLedger struct {
	*Ledger
	t     *testing.T
	clock *clock
}

func testLedger(t *testing.T, limit int64) *aLedger {
	clock := newClock()
	return &aLedger{newLedger(limit, clock.Now, 24*time.Hour), t, clock}
}

// client reads one file.
type client struct {
	*Reader
	at    atomic.Int64
	toldN atomic.Int64 // how often it was told to go
}

func (l *aLedger) client(h *Holding) *client {
	c := new(client)
	c.Reader = h.Read(c.at.Load, func() { c.toldN.Add(1) })
	l.t.Cleanup(c.Close)
	return c
}

// held is a file that is held by one new client.
func (l *aLedger) held(size int64) *client {
	h := l.Holding(size)
	c := l.client(h)
	h.Hold()
	return c
}

// look does what time does.
func (l *aLedger) look(later time.Duration) {
	l.clock.advance(later)
	l.sample(func(*Reader) bool { return true })
	l.relieve()
}

// awaitGone waits until the ledger has let a client go by itself.
func (l *aLedger) awaitGone(c *client) {
	l.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !c.Gone(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatal("it was not let go")
		}
	}
}

func (l *aLedger) mustHold(want int64) {
	l.t.Helper()
	if held := l.Held(); held != want {
		l.t.Errorf("%d bytes are held, want %d", held, want)
	}
}

func TestOnlyWhatHasReadersAndNoOtherUseCounts(t *testing.T) {
	l := testLedger(t, 1000)
	h := l.Holding(100)
	first := l.client(h)
	l.mustHold(0) // it is kept anyway
	h.Hold()
	h.Hold()
	l.mustHold(100)
	second := l.client(h)
	l.mustHold(100)
	first.Close()
	first.Close()
	l.mustHold(100)
	second.Close()
	l.mustHold(0)

	late := l.Holding(70)
	late.Hold()
	l.mustHold(0)
	l.client(late)
	l.mustHold(70)
}

// Case S8.
func TestWhoHasStoodStillForLongestIsLetGo(t *testing.T) {
	l := testLedger(t, 300)
	var clients []*client
	for range 3 {
		clients = append(clients, l.held(100))
		l.look(time.Second)
	}
	clients[0].at.Add(1) // the oldest one moves
	l.look(time.Second)
	l.mustHold(300)

	fourth := l.held(100)
	l.awaitGone(clients[1])
	for i, c := range []*client{clients[0], clients[2], fourth} {
		if c.Gone() {
			t.Errorf("client %d of those that stay was let go", i)
		}
	}
	clients[1].Close()
	l.mustHold(300)
}

func TestWhoMovesBetweenTwoLooksHasMoved(t *testing.T) {
	l := testLedger(t, 200)
	mover, stalled := l.held(100), l.held(100)
	l.look(time.Minute)
	mover.at.Add(1)
	stalled.at.Add(1)
	l.look(time.Minute)
	mover.at.Add(1)
	l.clock.advance(time.Minute) // nobody has looked since
	l.held(100)
	l.awaitGone(stalled)
	if mover.Gone() {
		t.Error("one that moved was let go")
	}
}

func TestAFileIsAsStillAsTheReaderThatMoves(t *testing.T) {
	l := testLedger(t, 200)
	h := l.Holding(100)
	stalled, mover := l.client(h), l.client(h)
	h.Hold()
	l.look(time.Minute)
	alone := l.held(100)
	l.look(time.Second)
	mover.at.Add(1)
	l.look(time.Second)

	l.held(100)
	l.awaitGone(alone) // letting one of two go would give back nothing
	if stalled.Gone() || mover.Gone() {
		t.Error("readers of a file that stays anyway were let go")
	}
	l.SetLimit(100)
	l.awaitGone(stalled)
	l.awaitGone(mover)
}

func TestTheBoundIsKeptEvenWhereAllMove(t *testing.T) {
	l := testLedger(t, 100)
	first := l.held(60)
	l.look(time.Second)
	first.at.Add(1)
	second := l.held(60)
	second.at.Add(1)
	l.awaitGone(first)
	if second.Gone() {
		t.Error("both were let go, where one was enough")
	}
}

func TestWhatIsLargerThanTheBoundIsReadToItsEnd(t *testing.T) {
	l := testLedger(t, 100)
	var clients []*client
	for range 3 {
		clients = append(clients, l.held(1000))
	}
	l.look(movesWithin / 2)
	for _, c := range clients {
		if c.Gone() {
			t.Fatal("one was let go that had hardly begun")
		}
	}
	clients[1].at.Add(1)
	l.look(movesWithin / 2) // the others have stood still for longer than one who moves does
	l.awaitGone(clients[0])
	l.awaitGone(clients[2])
	for range 5 {
		clients[1].at.Add(1)
		l.look(patience - 1)
	}
	if clients[1].Gone() {
		t.Error("one that plays as it reads was let go")
	}
	l.look(1)
	l.look(patience)
	l.awaitGone(clients[1])
}

func TestWhoDoesNotGoIsToldAgainAndCostsNobodyElse(t *testing.T) {
	l := testLedger(t, 100)
	stuck := l.held(100)
	l.look(time.Second)
	other := l.held(100)
	l.awaitGone(stuck)
	told := stuck.toldN.Load()
	l.look(time.Second)
	if n := stuck.toldN.Load(); n != told+1 {
		t.Errorf("told %d times more, want once", n-told)
	}
	if other.Gone() {
		t.Error("another one went in its place")
	}
	stuck.Close()
	told = stuck.toldN.Load()
	l.look(time.Second)
	if stuck.toldN.Load() != told {
		t.Error("told after it was closed")
	}
}

func TestALedgerLooksWhileThereAreReaders(t *testing.T) {
	l := newLedger(1000, time.Now, time.Millisecond)
	h := l.Holding(100)
	var looks atomic.Int64
	r := h.Read(func() int64 { return looks.Add(1) }, func() {})
	for deadline := time.Now().Add(10 * time.Second); looks.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not look")
		}
	}
	r.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		ticking := l.ticking
		l.mu.Unlock()
		if !ticking {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it looks at nobody for ever")
		}
	}
}

// The position of a variant's reader is that of its file, whoever copies it.
func TestAStoreLetsGoOfWhoStandsStill(t *testing.T) {
	s, all := newStore(t, 300), ids(4)
	s.ledger = newLedger(300, s.clock.Now, 24*time.Hour)
	var told atomic.Int64
	open := func(id ID) *Variant {
		s.put(id, 300)
		v := s.open(id)
		v.Watch(nil, func() { told.Add(1) })
		return v
	}
	l := &aLedger{s.ledger, t, s.clock}
	stalled := open(all[0])
	mover := open(all[1]) // for which the first lost its name
	l.look(time.Minute)
	if _, err := io.CopyN(io.Discard, mover.Content, 10); err != nil {
		t.Fatal(err)
	}
	l.mustHold(300)
	must(t, s.Delete(all[1])) // now both are held
	for deadline := time.Now().Add(10 * time.Second); told.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was told")
		}
	}
	if _, err := io.Copy(io.Discard, mover.Content); err != nil {
		t.Errorf("the one that moves: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := stalled.Content.(*os.File).Stat(); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file of the one that stands still is open")
		}
	}
	stalled.Close()
	l.mustHold(300)
	mover.Close()
	l.mustHold(0)
}
