package store

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// ErrLetGo is how a transfer ends whose file was needed no more but by its reader, when there was too much of that.
var ErrLetGo = errors.New("the reader stood still, and the room that its file took was needed")

// Ledger accounts for files that take room for their readers alone: variants that were evicted while somebody read
// them, and renders that no store took. It bounds them together. When there is more, the file goes whose readers
// have all stood still for longest, and another, until the rest is within the bound. A file goes by letting its
// readers go, who then close it.
//
// A reader that moves is the last to be let go, but the bound is kept: a client cannot hold a disk full by being slow.
// A file that is larger than the bound by itself could never be read to its end, though: such a one stays while its
// readers move, and one of them for a minute longer.
type Ledger struct {
	now   func() time.Time
	every time.Duration // between two looks at where readers are

	sampling sync.Mutex // held by whoever looks where readers are

	mu      sync.Mutex
	limit   int64
	held    int64
	files   map[*Holding]bool // those that are held
	readers map[*Reader]bool  // all of them
	ticking bool
}

// sampleInterval is how often the ledger looks where readers are. How long one has stood still is known as exactly.
const sampleInterval = time.Second

const (
	// movesWithin is how recently a reader was seen to move that moves.
	movesWithin = 2 * sampleInterval

	// patience is how long the last reader of what is larger than the bound may stand still: one that plays as it
	// reads, at 16 kB/s, takes that long to make room in its socket's buffers.
	patience = time.Minute
)

// NewLedger makes a ledger that allows readers limit bytes.
func NewLedger(limit int64) *Ledger { return newLedger(limit, time.Now, sampleInterval) }

func newLedger(limit int64, now func() time.Time, every time.Duration) *Ledger {
	return &Ledger{
		now: now, every: every, limit: limit,
		files: make(map[*Holding]bool), readers: make(map[*Reader]bool),
	}
}

// SetLimit changes the bound, and lets readers go where it has become too small.
func (l *Ledger) SetLimit(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
	l.keepBound()
}

// Held is how many bytes only readers hold.
func (l *Ledger) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Holding is one file, as the ledger knows it.
type Holding struct {
	ledger *Ledger
	size   int64

	// Guarded by the ledger's mu.
	held    bool // the file has no other use than for its readers
	counted bool // held, and there are readers
	going   bool // its readers have been told to go
	readers map[*Reader]bool
	begun   time.Time // when the latest reader came
}

// Holding enters a file of that size. It counts once it is held.
func (l *Ledger) Holding(size int64) *Holding {
	return &Holding{ledger: l, size: size, readers: make(map[*Reader]bool)}
}

// Hold says that the file is of no other use from now on than for its readers. It calls nobody, and so may be called
// with any lock held.
func (h *Holding) Hold() {
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	h.held = true
	h.count()
}

// count enters a file that is held and read. mu is held.
func (h *Holding) count() {
	if !h.held || h.counted || len(h.readers) == 0 {
		return
	}
	h.counted = true
	h.ledger.files[h] = true
	h.ledger.held += h.size
	h.ledger.keepBound()
}

// Reader is somebody who reads a file.
type Reader struct {
	holding  *Holding
	position func() int64

	at    int64     // where it was last; guarded by the ledger's sampling
	moved time.Time // when it was last seen to have moved; guarded by the ledger's mu

	gone   atomic.Bool
	ending sync.Mutex // held while letGo is called
	letGo  func()
	closed bool
}

// Read enters a reader. position tells where it is, from 0: a reader moves when that changes. letGo has it close the file
// soon; it may be called more than once, but not after Close. Both are called from other goroutines, and must call
// neither the ledger nor the reader.
func (h *Holding) Read(position func() int64, letGo func()) *Reader {
	l := h.ledger
	r := &Reader{holding: h, position: position, letGo: letGo, moved: l.now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[r], h.readers[r] = true, true
	h.begun = r.moved
	h.count()
	if !l.ticking {
		l.ticking = true
		l.tickLater()
	}
	return r
}

// Close takes a reader out that has closed the file. Closing twice is harmless.
func (r *Reader) Close() {
	r.ending.Lock()
	r.closed = true
	r.ending.Unlock()
	h, l := r.holding, r.holding.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
	delete(h.readers, r)
	if h.counted && len(h.readers) == 0 {
		h.counted = false
		delete(l.files, h)
		l.held -= h.size
	}
}

// Gone reports whether the reader was let go.
func (r *Reader) Gone() bool { return r.gone.Load() }

func (r *Reader) end() {
	r.ending.Lock()
	defer r.ending.Unlock()
	if !r.closed {
		r.gone.Store(true)
		r.letGo()
	}
}

func (l *Ledger) tickLater() { time.AfterFunc(l.every, guard.Func(l.tick)) }

// tick looks where readers are for as long as there are any. Those that were told to go and have not are told again:
// what keeps them may have begun since.
func (l *Ledger) tick() {
	defer func() { // whatever happens on the way
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ticking = len(l.readers) > 0; l.ticking {
			l.tickLater()
		}
	}()
	l.sample(func(*Reader) bool { return true })
	l.relieve()
}

// keepBound sees to it that there is no more than allowed. mu is held, so readers are told from another goroutine.
func (l *Ledger) keepBound() {
	if l.held > l.limit {
		guard.Go(func() {
			l.sample(func(r *Reader) bool { return r.holding.counted }) // the stillest is to be known
			l.relieve()
		})
	}
}

// sample notes who has moved since the last look.
func (l *Ledger) sample(which func(*Reader) bool) {
	l.sampling.Lock()
	defer l.sampling.Unlock()
	var looked []*Reader
	l.mu.Lock()
	for r := range l.readers {
		if which(r) {
			looked = append(looked, r)
		}
	}
	l.mu.Unlock()
	moved := looked[:0]
	for _, r := range looked { // without mu: hits must not wait for it
		if at := r.position(); at != r.at {
			r.at = at
			moved = append(moved, r)
		}
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range moved {
		r.moved = now
	}
}

// relieve lets go of what is too much, and of what was to go already.
func (l *Ledger) relieve() {
	for _, r := range l.excess() {
		guard.Func(r.end)()
	}
}

// excess chooses the files that go, and returns their readers.
func (l *Ledger) excess() (readers []*Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var staying []*Holding
	left := l.held
	for h := range l.files {
		if h.going {
			left -= h.size
		} else {
			staying = append(staying, h)
		}
	}
	now := l.now()
	slices.SortFunc(staying, func(a, b *Holding) int { return a.compare(b, now) })
	for i, h := range staying {
		if left <= l.limit {
			break
		}
		still, last := now.Sub(h.lastMoved()), i == len(staying)-1
		if h.size > l.limit && (still < movesWithin || last && still < patience) {
			continue
		}
		h.going = true
		left -= h.size
	}
	for h := range l.files {
		if h.going {
			for r := range h.readers {
				readers = append(readers, r)
			}
		}
	}
	return readers
}

// compare orders files by who is to go first: the readers of which have stood still for longest. Of those that move
// the last to come goes first: it may be about to stand still, and has got least. mu is held.
func (h *Holding) compare(other *Holding, now time.Time) int {
	moved, otherMoved := h.lastMoved(), other.lastMoved()
	if now.Sub(moved) < movesWithin && now.Sub(otherMoved) < movesWithin {
		return other.begun.Compare(h.begun)
	}
	return moved.Compare(otherMoved)
}

// lastMoved is when the last of a file's readers stopped, as far as is known. mu is held.
func (h *Holding) lastMoved() (latest time.Time) {
	for r := range h.readers {
		if r.moved.After(latest) {
			latest = r.moved
		}
	}
	return latest
}
