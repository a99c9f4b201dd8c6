package coalesce_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// selfDriven is a job whose encoder needs no test to drive it.
type selfDriven struct{ *job }

func (j selfDriven) Render(ctx context.Context, spool *coalesce.Spool) error {
	j.site.encoderStarts(j.job)
	defer j.site.encoderEnds(j.job)
	live, err := os.OpenFile(filepath.Join(spool.Dir(), coalesce.LiveName), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer live.Close()
	spool.Release()
	for whole := wholeOf(j.id); whole != ""; {
		n := min(1+rand.IntN(100), len(whole))
		if _, err := io.WriteString(live, whole[:n]); err != nil {
			return err
		}
		whole = whole[n:]
		switch rand.IntN(20) {
		case 0:
			return errBroken
		case 1:
			return full
		}
		if ctx.Err() != nil {
			return errKilled
		}
		runtime.Gosched()
	}
	return nil
}

// TestStress has many listeners come, listen, leave and cancel in real time.
func TestStress(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := newSite(temp, admission.Limits{Slots: 2, Queue: 4})
	s.store.room = true
	until := time.Now().Add(1500 * time.Millisecond)
	var crowd sync.WaitGroup
	var complete, all counter
	for range 32 {
		crowd.Go(func() {
			for time.Now().Before(until) {
				id := []store.ID{a, b, c}[rand.IntN(3)]
				terms := s.terms()
				terms.Ended = nil
				terms.FinishAbandoned = rand.IntN(2) == 0
				l, _ := s.group.JoinOrStart(id, admission.Classes()[rand.IntN(4)], selfDriven{newJob(s, id)}, terms)
				all.add()
				if s.visit(t, l, id) {
					complete.add()
				}
				switch rand.IntN(30) {
				case 0:
					s.group.Cancel(id.Key)
				case 1, 2, 3, 4, 5, 6:
					_ = s.store.Delete(id)
				}
			}
		})
	}
	crowd.Wait()
	s.group.Close()
	if err := s.idle(); err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d listeners heard the whole", complete.n, all.n)
	if complete.n == 0 {
		t.Error("nobody heard the whole")
	}
}

// visit listens for a while, and reports whether that was to the end.
func (s *site) visit(t *testing.T, l *coalesce.Listener, id store.ID) (complete bool) {
	defer l.Close()
	ctx := context.Background()
	if rand.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	heard, err := hearUntil(ctx, l)
	_, refused := errors.AsType[*admission.Refusal](err)
	switch whole := wholeOf(id); {
	case err == nil && heard == whole:
		return true
	case err == nil, heard != whole[:min(len(heard), len(whole))]:
		t.Errorf("heard %q", heard)
	case refused, errors.Is(err, errBroken), errors.Is(err, coalesce.ErrNoSpace), errors.Is(err, coalesce.ErrStored),
		errors.Is(err, coalesce.ErrCancelled), errors.Is(err, context.DeadlineExceeded):
	default:
		t.Errorf("told %v", err)
	}
	return false
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}
