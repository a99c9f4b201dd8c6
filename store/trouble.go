package store

import (
	"fmt"
	"time"
)

// What nobody would notice: a variant that cannot be read is rendered again, and every request succeeds.

// observeInterval is how often the observer is told at most that the folder cannot be read: a dead mount fails
// every request.
const observeInterval = time.Minute

// unreadable counts a failure to look into the folder, and returns it.
func (s *FileSystem) unreadable(err error) error {
	err = fmt.Errorf("reading the store: %w", err)
	now := s.system.now()
	s.mu.Lock()
	s.readFailures++
	due := s.observed.IsZero() || now.Sub(s.observed) >= observeInterval
	if due {
		s.observed = now
	}
	s.mu.Unlock()
	if due && s.observe != nil {
		s.observe(err)
	}
	return err
}

// withoutAttributes notes that the folder's file system refuses modes or times.
func (s *FileSystem) withoutAttributes(err error) {
	s.mu.Lock()
	due := !s.observedOnce
	s.observedOnce = true
	s.mu.Unlock()
	if due && s.observe != nil {
		s.observe(fmt.Errorf("the store's file system does not take the mode or times of a file; variants are stored all the same: %w", err))
	}
}
