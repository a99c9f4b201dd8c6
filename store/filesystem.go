package store

import (
	"container/list"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// FileSystem keeps variants in a folder. A variant is one file,
//
//	<dir>/<scope>/<first two digits of the key>/<key>.<size in bytes>
//
// which is renamed to that name when it is complete and on the disk, and is never written again. That the size
// is part of the name lets a file that was cut short, or put there by hand, be told from a whole one: it is never
// served, and is removed. What has another name than a variant's is let be. The time of a file's last use is its
// access time, to the minute, so that use survives a restart.
//
// Several processes may share the folder. Each looks on the disk for what it does not know, asks the disk whether
// another has used what it is about to evict, and reads the folder from end to end once a minute while it stores:
// so together they keep to the bound, but for what they put within a minute. What one process is reading another
// may evict; its readers read on, since a file without a name stays as long as somebody has it open.
type FileSystem struct {
	dir     string
	observe func(error)
	ledger  *Ledger
	staging *stagingArea
	sweeper *time.Timer
	system  system

	// changing is held by whoever puts, removes or counts files, for as long as that takes. Those who only read
	// never wait for it. It is locked before mu.
	changing sync.Mutex
	counted  time.Time // when the folder was last read from end to end

	// mu guards the index. It is never held while files are put, removed or listed.
	mu            sync.Mutex
	maxBytes      int64
	bytes         int64
	variants      map[ID]*entry
	byUse         *list.List // of *entry, least recently used first
	listings      map[fanID]listing
	round         int // how often the folder was counted
	evictions     int64
	writeFailures int64
	readFailures  int64
	observed      time.Time // when the observer was last told of a failure to read
	observedOnce  bool      // whether it was told that the folder has no attributes
}

// system is what the store asks of the world, for tests to answer otherwise.
type system struct {
	now     func() time.Time
	wall    func() time.Time // to compare with the times that files have; the same as now but in tests
	free    func(path string) (n int64, known bool)
	rename  func(from, to string) error
	list    func(dir string) ([]string, error)
	chmod   func(f *os.File, mode os.FileMode) error
	chtimes func(path string, used, stored time.Time) error

	sweepAgain time.Duration
}

const (
	stagingName = "staging"

	// usePrecision is how exactly the disk knows when a variant was last used: a popular one is not touched
	// on every request.
	usePrecision = time.Minute

	// recountAfter is how long a count of the folder stands.
	recountAfter = time.Minute

	// sweepAgain is when a store that was just opened looks again for what dead processes left: the lock of one
	// that was killed can outlive it for a moment, in a child that was about to become an encoder.
	sweepAgain = 5 * time.Second
)

// OpenFileSystem opens the store in dir, making the folder when it is missing, and sweeps what dead processes
// left behind. maxBytes bounds what is kept, counted in bytes of content.
//
// observe is told of what nobody else reports, for the log: that the folder cannot be read, at most once a minute,
// and once that it takes no modes or times of files. It is called from the goroutine that noticed, without a lock
// held. It may be nil.
func OpenFileSystem(dir string, maxBytes int64, observe func(error)) (*FileSystem, error) {
	return openFileSystem(dir, maxBytes, observe, theSystem)
}

var theSystem = system{
	now: time.Now, wall: time.Now, free: freeBytes, rename: os.Rename, list: readNames,
	chmod: (*os.File).Chmod, chtimes: os.Chtimes, sweepAgain: sweepAgain,
}

func openFileSystem(dir string, maxBytes int64, observe func(error), system system) (*FileSystem, error) {
	s := &FileSystem{
		dir:      dir,
		observe:  observe,
		ledger:   NewLedger(maxBytes),
		system:   system,
		maxBytes: maxBytes,
		variants: make(map[ID]*entry),
		byUse:    list.New(),
		listings: make(map[fanID]listing),
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return s, nil
}

func (s *FileSystem) open() error {
	parent := filepath.Join(s.dir, stagingName)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	sweep(parent, stagingPattern)
	sweepUnlocked(parent)
	s.sweeper = time.AfterFunc(s.system.sweepAgain, guard.Func(func() { sweep(parent, stagingPattern) }))

	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.count(); err != nil {
		return err
	}
	s.evict(s.maxBytes, unlinksOpen)
	s.staging = &stagingArea{parent: parent, pattern: stagingPattern}
	if err := s.staging.renew(); err != nil && !isFull(err) {
		return err // on a full disk what is kept can still be served, and the first stage tries again
	}
	return nil
}

// Close gives up the staging area with all stages in it. Variants stay, and can still be opened.
func (s *FileSystem) Close() error {
	s.sweeper.Stop()
	return s.staging.close()
}

// Stage makes a private folder in the store's own file system, so that Put is a rename.
func (s *FileSystem) Stage() (*Stage, error) { return s.staging.stage() }

// SetMaxBytes changes the bound, evicting at once where it has become too small.
func (s *FileSystem) SetMaxBytes(n int64) {
	s.mu.Lock()
	s.maxBytes = n
	s.mu.Unlock()
	s.ledger.SetLimit(n)
	s.keepBound()
}

// Ledger accounts for what readers hold beside what is kept: at most as much again.
func (s *FileSystem) Ledger() *Ledger { return s.ledger }

// Stats reads the totals.
func (s *FileSystem) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Files:         int64(len(s.variants)),
		Bytes:         s.bytes,
		MaxBytes:      s.maxBytes,
		HeldBytes:     s.ledger.Held(),
		Evictions:     s.evictions,
		WriteFailures: s.writeFailures,
		ReadFailures:  s.readFailures,
	}
}

var _ Store = (*FileSystem)(nil)
