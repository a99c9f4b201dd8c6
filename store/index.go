package store

import (
	"container/list"
	"slices"
	"time"
)

// The index: what the store believes to be in its folder. It may be wrong where other processes, or people,
// change the folder too; everybody who meets such an error corrects it. All of this is called with mu held.

// entry is one variant. All but its id, size and time of storing, which never change, is guarded by mu.
type entry struct {
	id     ID
	size   int64
	stored time.Time

	used    time.Time
	marked  time.Time // the use that the disk knows about
	readers int
	holding *Holding      // nil until the first reader comes
	pinned  bool          // it was just put, and is not the one to go
	leaving bool          // its file is being removed
	round   int           // the count of the folder that last met it
	place   *list.Element // in byUse; nil once forgotten
}

func (e *entry) info() Info { return Info{ID: e.id, Size: e.size, Stored: e.stored, LastUsed: e.used} }

// remember adds an entry as the most recently used one, in place of one of the same ID.
func (s *FileSystem) remember(e *entry) {
	if old := s.variants[e.id]; old != nil {
		s.forget(old)
	}
	s.insert(e, nil)
}

// rememberPlaced adds the entry of a file that has just been placed, and returns the one to use: somebody who looked
// between the placing and this may have added it already, and be reading it.
func (s *FileSystem) rememberPlaced(e *entry) *entry {
	if known := s.variants[e.id]; known != nil && !known.leaving && known.size == e.size && known.stored.Equal(e.stored) {
		return known
	}
	s.remember(e)
	return e
}

// insert adds an entry of a new ID in front of next, or at the end.
func (s *FileSystem) insert(e *entry, next *list.Element) {
	if next == nil {
		e.place = s.byUse.PushBack(e)
	} else {
		e.place = s.byUse.InsertBefore(e, next)
	}
	e.round = s.round
	s.variants[e.id] = e
	s.bytes += e.size
}

// forget takes an entry out of the index.
func (s *FileSystem) forget(e *entry) {
	if e.place == nil {
		return
	}
	s.byUse.Remove(e.place)
	e.place = nil
	delete(s.variants, e.id)
	s.bytes -= e.size
	if e.holding != nil {
		e.holding.Hold() // whoever reads the file keeps it on the disk
	}
}

// insertUsed adds an entry of a new ID where its last use places it, which is near the end.
func (s *FileSystem) insertUsed(e *entry) {
	place := s.byUse.Back()
	for place != nil && place.Value.(*entry).used.After(e.used) {
		place = place.Prev()
	}
	next := s.byUse.Front()
	if place != nil {
		next = place.Next()
	}
	s.insert(e, next)
}

// merge adds entries where their last use places them. Those that somebody discovered meanwhile are known.
func (s *FileSystem) merge(entries []*entry) {
	entries = slices.DeleteFunc(entries, func(e *entry) bool { return s.variants[e.id] != nil })
	slices.SortFunc(entries, func(a, b *entry) int { return a.used.Compare(b.used) })
	place := s.byUse.Front()
	for _, e := range entries {
		for place != nil && !place.Value.(*entry).used.After(e.used) {
			place = place.Next()
		}
		s.insert(e, place)
	}
}

// usedElsewhere moves an entry to where a later use places it.
func (s *FileSystem) usedElsewhere(e *entry, used time.Time) {
	if e.place == nil {
		return
	}
	e.used, e.marked = used, used
	for place := s.byUse.Back(); place != nil; place = place.Prev() {
		if place == e.place {
			return
		}
		if !place.Value.(*entry).used.After(used) {
			s.byUse.MoveAfter(e.place, place)
			return
		}
	}
}
