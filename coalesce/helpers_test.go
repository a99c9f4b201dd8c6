package coalesce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a group with all that it needs, in a test of its own.
type site struct {
	budget *admission.Budget
	group  *coalesce.Group
	store  *memoryStore
	temp   string // where spools are

	mu       sync.Mutex
	encoding map[store.ID]*job
	wrong    []string // what jobs saw that should never be
	endings  []coalesce.Summary
}

func newSite(temp string, limits admission.Limits, options ...admission.Option) *site {
	budget := admission.New(limits, options...)
	return &site{
		budget:   budget,
		group:    coalesce.NewGroup(budget),
		store:    &memoryStore{variants: map[store.ID][]byte{}},
		temp:     temp,
		encoding: map[store.ID]*job{},
	}
}

// inBubble runs a test in fake time, with its own place for spools. Afterwards nothing may be left.
func inBubble(t *testing.T, limits admission.Limits, test func(t *testing.T, s *site)) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(temp, limits)
		test(t, s)
		s.group.Close()
		synctest.Wait()
		if err := s.idle(); err != nil {
			t.Error(err)
		}
	})
}

// one and two are how many slots there are, with room to wait.
var (
	one = admission.Limits{Slots: 1, Queue: 8}
	two = admission.Limits{Slots: 2, Queue: 8}
)

// idle says what is left of flights when there should be nothing.
func (s *site) idle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, what := range s.wrong {
		errs = append(errs, errors.New(what))
	}
	if stats := s.budget.Stats(); stats.Held != 0 || stats.Queued != 0 || stats.Yielding != 0 || stats.Leaked != 0 {
		errs = append(errs, fmt.Errorf("the budget is left with %+v", stats))
	}
	if flights := s.group.Flights(); len(flights) > 0 {
		errs = append(errs, fmt.Errorf("flights are left: %v", flights))
	}
	if len(s.encoding) > 0 {
		errs = append(errs, fmt.Errorf("%d encoders are left", len(s.encoding)))
	}
	if left, err := os.ReadDir(s.temp); err != nil || len(left) > 0 {
		errs = append(errs, fmt.Errorf("spools are left: %v %v", left, err))
	}
	for _, name := range descriptors(s.temp) {
		errs = append(errs, fmt.Errorf("a descriptor is left: %s", name))
	}
	return errors.Join(errs...)
}

// spools counts the spools there are on the disk.
func (s *site) spools(t *testing.T) (n int) {
	t.Helper()
	err := filepath.WalkDir(s.temp, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == coalesce.LiveName {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// descriptors lists what this process has open below a folder, where the system tells.
func descriptors(dir string) (names []string) {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range open {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, dir) {
			names = append(names, name)
		}
	}
	return names
}

func (s *site) terms() coalesce.Terms {
	return coalesce.Terms{Store: s.store, Timeout: time.Minute, Ended: s.ended}
}

// unstored are the terms where the store is off.
func (s *site) unstored() coalesce.Terms {
	terms := s.terms()
	terms.Store = nil
	return terms
}

func (s *site) ended(sum coalesce.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endings = append(s.endings, sum)
}

func (s *site) lastEnding(t *testing.T) coalesce.Summary {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endings) == 0 {
		t.Fatal("no flight has ended")
	}
	return s.endings[len(s.endings)-1]
}

// start starts a flight, waits until it stands still, and has its listener closed in the end.
func (s *site) start(t *testing.T, id store.ID, class admission.Class, terms coalesce.Terms) (*coalesce.Listener, *job) {
	t.Helper()
	return s.startJob(t, newJob(s, id), class, terms)
}

func (s *site) startJob(
	t *testing.T, j *job, class admission.Class, terms coalesce.Terms,
) (*coalesce.Listener, *job) {
	t.Helper()
	l, started := s.group.JoinOrStart(j.id, class, j, terms)
	if !started {
		t.Fatal("joined a flight where one should have been started")
	}
	synctest.Wait()
	return l, j
}

// join joins a flight that must be there.
func (s *site) join(t *testing.T, id store.ID, class admission.Class) *coalesce.Listener {
	t.Helper()
	l, joined := s.group.Join(id, class)
	if !joined {
		t.Fatal("there is no flight to join")
	}
	return l
}

func (s *site) check(t *testing.T, held, queued int) {
	t.Helper()
	synctest.Wait()
	if stats := s.budget.Stats(); stats.Held != held || stats.Queued != queued {
		t.Errorf("held %d, queued %d; want %d and %d", stats.Held, stats.Queued, held, queued)
	}
}

// idOf names a variant by a letter.
func idOf(letter string) store.ID {
	return store.ID{Scope: strings.Repeat("0", 16), Key: strings.Repeat(letter, 64)}
}

var (
	a = idOf("a")
	b = idOf("b")
	c = idOf("c")
)

// hear listens to the end.
func hear(l *coalesce.Listener) (string, error) {
	return hearUntil(context.Background(), l)
}

func hearUntil(ctx context.Context, l *coalesce.Listener) (string, error) {
	var heard bytes.Buffer
	if err := l.Ready(ctx); err != nil {
		return "", err
	}
	for {
		if err := l.More(ctx); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return heard.String(), err
		}
		var piece [100]byte
		n, err := l.Read(piece[:])
		if err != nil {
			return heard.String(), err
		}
		heard.Write(piece[:n])
	}
}

// want checks that a listener hears all of this, and closes it.
func want(t *testing.T, l *coalesce.Listener, whole string) {
	t.Helper()
	defer l.Close()
	if heard, err := hear(l); err != nil || heard != whole {
		t.Errorf("heard %q and %v, want %q", heard, err, whole)
	}
}

// wantEnding checks that a listener is told this error, and closes it.
func wantEnding(t *testing.T, l *coalesce.Listener, ending error) {
	t.Helper()
	defer l.Close()
	if heard, err := hear(l); !errors.Is(err, ending) {
		t.Errorf("heard %q and was told %v, want %v", heard, err, ending)
	}
}
