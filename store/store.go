// Package store keeps finished variants.
//
// A store knows nothing of audio: it takes complete files under an ID and gives them back until it needs the
// room. FileSystem keeps them in a folder; other kinds implement Store.
package store

import (
	"errors"
	"io"
	"sync"
	"time"
)

// Errors that callers act on.
var (
	// ErrNotFound: the store has no such variant.
	ErrNotFound = errors.New("no such variant in the store")
	// ErrTooLarge: the variant is larger than the store may be altogether.
	ErrTooLarge = errors.New("variant is larger than the whole store may be")
	// ErrBadID: the ID is not well-formed, and so cannot name anything.
	ErrBadID = errors.New("malformed variant ID")
)

// ID names a variant. Key is its cache key; Scope says which tree of sources the key's source is to be looked
// up in, since two sites may each have a local://song.wav of their own.
type ID struct {
	Scope string // 16 lower-case hex digits
	Key   string // 64 lower-case hex digits
}

// Valid reports whether the ID is well-formed. Nothing else ever becomes part of a path.
func (id ID) Valid() bool {
	return isHexOf(id.Scope, scopeDigits) && isHexOf(id.Key, keyDigits)
}

const (
	scopeDigits = 16
	keyDigits   = 64
)

func isHexOf(s string, digits int) bool {
	if len(s) != digits {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Info is what a store knows about a variant.
type Info struct {
	ID       ID
	Size     int64
	Stored   time.Time // when it was put here
	LastUsed time.Time // of what comes with an open variant: this use
}

// Variant is a finished variant, open for reading. Close it: what is open takes room, evicted or not. Several may
// be open of one ID, each with its own position.
type Variant struct {
	Info
	Content io.ReadSeeker // an *os.File where the store is a folder, so that it can be sent without copying
	close   func()
	watch   func(position func() int64, letGo func()) // nil where readers are never let go
}

// Close gives the variant back to the store. Closing twice is harmless.
func (v *Variant) Close() { v.close() }

// Watch has letGo called when the store cannot wait for this reader any more: its file was evicted, the reader has
// stood still, and the room is needed. Reading Content fails from then on, so letGo need only end what keeps the
// reader from reading. It is called from another goroutine, maybe more than once, and not after Close; it must not
// call the variant. position, where it is not nil, tells where the reader is, from 0; else it is where Content stands.
// Some stores let nobody go. Watch is called at most once.
func (v *Variant) Watch(position func() int64, letGo func()) {
	if v.watch != nil {
		v.watch(position, letGo)
	}
}

// NewVariant is for implementations of Store. release is called once.
func NewVariant(info Info, content io.ReadSeeker, release func()) *Variant {
	return &Variant{Info: info, Content: content, close: sync.OnceFunc(release)}
}

// Stats are what a store amounts to.
type Stats struct {
	Files, Bytes  int64
	MaxBytes      int64
	HeldBytes     int64 // what takes room beside Bytes, since somebody reads it still
	Evictions     int64 // since the process began
	WriteFailures int64 // variants that could not be put, since the process began
	ReadFailures  int64 // looks that failed, so that nobody knows what is there; since the process began
}

// Store keeps finished variants. Its methods may be called concurrently.
//
// ErrNotFound means that the store was asked and has no such variant. Any other error of Open, Stat or List means
// that it could not be asked. Whoever wanted the variant then renders it, and nobody sees the error: so the store
// counts it in its Stats and has it logged.
type Store interface {
	// Open opens a variant, or returns ErrNotFound. It counts as a use.
	Open(id ID) (*Variant, error)
	// Stat looks whether a variant is there and what is known about it, or returns ErrNotFound. It does not
	// count as a use.
	Stat(id ID) (Info, error)
	// Stage makes a private folder to render into. Put is cheap for files in it.
	Stage() (*Stage, error)
	// Put takes the finished file at path, which lies in a folder from Stage, and keeps it under id. From
	// then on the file is the store's; where Put fails it stays where it is. Only a complete file may be put,
	// and no empty one. One larger than the whole store may be is refused with ErrTooLarge.
	Put(id ID, path string) error
	// Delete forgets a variant, or returns ErrNotFound. Those who have it open read on.
	Delete(id ID) error
	// MakeRoom gives up least recently used variants until about n bytes are free on the medium, for somebody
	// who found it full. It reports whether to try again: that many are free now, or at least some were given up.
	MakeRoom(n int64) bool
	// List finds the variants with this key, whatever their scope. It returns what it has found even where it
	// could not look everywhere.
	List(key string) ([]Info, error)
	// Stats reads the totals.
	Stats() Stats
}
