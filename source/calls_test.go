//go:build unix

package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

func nothing(int) {}

// awaitWorkers lets the workers of a bubble go home.
func awaitWorkers() { time.Sleep(2 * idleWorker) }

// Case S1: a place that does not answer costs so many calls at once, and each caller no more than its time.
func TestCallsThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce, callers = 4, 100
		c := newCalls(atOnce)
		hang := make(chan struct{})
		var underWay, most, discarded atomic.Int32
		do := func() (int, error) {
			most.Store(max(most.Load(), underWay.Add(1)))
			<-hang
			underWay.Add(-1)
			return 1, nil
		}
		began := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if v, err := call(t.Context(), c, 10*time.Second, do, func(int) { discarded.Add(1) }); v != 0 || !errors.Is(err, ErrUnavailable) {
					t.Errorf("got %d and %v, want ErrUnavailable", v, err)
				}
			})
		}
		wg.Wait()
		if waited := time.Since(began); waited != 10*time.Second || most.Load() != atOnce {
			t.Errorf("%d calls at once, waited %v", most.Load(), waited)
		}
		began = time.Now()
		if _, err := call(t.Context(), c, 10*time.Second, do, nothing); !errors.Is(err, ErrUnavailable) || time.Since(began) != 0 {
			t.Errorf("while no call is answered: %v after %v, want ErrUnavailable at once", err, time.Since(began))
		}
		close(hang)
		synctest.Wait()
		if discarded.Load() != atOnce {
			t.Errorf("%d values that came late were given up, want %d", discarded.Load(), atOnce)
		}
		if v, err := call(t.Context(), c, time.Second, func() (int, error) { return 7, nil }, nothing); v != 7 || err != nil {
			t.Errorf("when it answers again: %d and %v", v, err)
		}
		awaitWorkers()
	})
}

func TestCallersGiveUpWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		do := func() (int, error) { <-hang; return 1, nil }
		left := errors.New("left")
		for name, test := range map[string]struct {
			ctx  func() (context.Context, context.CancelFunc)
			want error
		}{
			"cancelled": {func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(left) })
				return ctx, func() { cancel(nil) }
			}, left},
			"deadline": {func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }, ErrUnavailable},
			"over":     {func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 0) }, ErrUnavailable},
		} {
			c := newCalls(2)
			c.later(func() { <-hang })
			for _, what := range []string{"for the call", "for a place"} { // the first call takes the last place
				ctx, cancel := test.ctx()
				began := time.Now()
				_, err := call(ctx, c, time.Minute, do, nothing)
				if !errors.Is(err, test.want) || errors.Is(err, ErrUnavailable) != (test.want == ErrUnavailable) || time.Since(began) > time.Second {
					t.Errorf("%s, waiting %s: %v after %v", name, what, err, time.Since(began))
				}
				cancel()
			}
		}
		close(hang)
		awaitWorkers()
	})
}

// A place is neither lost nor given twice, whatever call and caller do at the same moment.
func TestCallsAndCallersThatPartAtOnce(t *testing.T) {
	c := newCalls(2)
	var got, discarded, closed atomic.Int32
	var wg sync.WaitGroup
	const callers = 2000
	for range callers {
		wg.Go(func() {
			_, err := call(t.Context(), c, 50*time.Microsecond, func() (int, error) { time.Sleep(50 * time.Microsecond); return 1, nil }, func(int) { discarded.Add(1) })
			if err == nil {
				got.Add(1)
			}
			c.later(func() { closed.Add(1) })
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(20 * time.Second); closed.Load() < callers || len(c.places) > 0 || c.late.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d closed, %d places taken, %d late", closed.Load(), callers, len(c.places), c.late.Load())
		}
	}
	if got.Load()+discarded.Load() > callers {
		t.Errorf("%d got a value and %d were given up", got.Load(), discarded.Load())
	}
}

func TestClosingNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(2)
		hang := make(chan struct{})
		var closed atomic.Int32
		for range 10 { // more than there are places
			c.later(func() { <-hang; closed.Add(1) })
		}
		synctest.Wait()
		if len(c.places) != 2 || closed.Load() != 0 {
			t.Fatalf("%d under way, %d closed", len(c.places), closed.Load())
		}
		close(hang)
		synctest.Wait()
		if closed.Load() != 10 || len(c.places) != 0 {
			t.Errorf("%d closed, %d places taken", closed.Load(), len(c.places))
		}
		awaitWorkers()
	})
}

// A panic is the error of that call; the place goes to the next.
func TestACallThatPanics(t *testing.T) {
	c := newCalls(1)
	for range 3 {
		_, err := call(t.Context(), c, time.Minute, func() (int, error) { panic("bug") }, nothing)
		if p, ok := errors.AsType[*guard.Panic](err); !ok || p.Value != "bug" {
			t.Fatalf("got %v", err)
		}
		c.later(func() { panic("bug") })
	}
	if v, err := call(t.Context(), c, time.Minute, func() (int, error) { return 1, nil }, nothing); v != 1 || err != nil {
		t.Errorf("and then: %d and %v", v, err)
	}
}

// Whatever system call it is that hangs, Open, Existing and Check come back, and what is opened late is closed.
func TestEverySystemCallMayHang(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "song.wav"), []byte("song"), 0o600); err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	for name, slow := range map[string]func(*system){
		"root": func(s *system) { s.openRoot = func(n string) (*os.Root, error) { <-hang; return os.OpenRoot(n) } },
		"file": func(s *system) {
			s.openFile = func(r *os.Root, p string) (*os.File, error) { <-hang; return r.Open(p) }
		},
		"folder": func(s *system) {
			s.openFolder = func(r *os.Root, p string) (*os.Root, error) { <-hang; return r.OpenRoot(p) }
		},
		"stat": func(s *system) { s.stat = func(r *os.Root) (os.FileInfo, error) { <-hang; return r.Stat(".") } },
		"list": func(s *system) { s.list = func(r *os.Root, n int) ([]string, error) { <-hang; return listNames(r, n) } },
		"lookup": func(s *system) {
			s.list = func(*os.Root, int) ([]string, error) { return nil, os.ErrPermission }
			s.lookUp = func(r *os.Root, n string) error { <-hang; _, err := r.Lstat(n); return err }
		},
	} {
		s := realSystem
		slow(&s)
		l := newLocal(root, s)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		failed := 0
		if err := l.Check(ctx); errors.Is(err, ErrUnavailable) {
			failed++
		}
		if in, err := l.Open(ctx, "song.wav"); errors.Is(err, ErrUnavailable) {
			failed++
		} else if err == nil {
			in.Close()
		}
		if _, err := l.Existing(ctx, []string{"sub/song.opus", "song.opus"}); errors.Is(err, ErrUnavailable) {
			failed++
		}
		if failed == 0 {
			t.Errorf("%s: nothing hung", name)
		}
		cancel()
	}
	close(hang)
}

// N04: trouble of the machine says nothing about the source, and what has run out can still be told.
func TestTroubleOfTheMachineIsUnavailable(t *testing.T) {
	root := t.TempDir()
	for _, errno := range []syscall.Errno{
		syscall.EIO, syscall.ESTALE, syscall.ENFILE, syscall.EMFILE, syscall.ENOMEM, syscall.ETIMEDOUT, syscall.EAGAIN, syscall.ENOTCONN,
		syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENXIO, syscall.ENODEV,
		syscall.EBUSY, syscall.EINTR, syscall.ENOBUFS, syscall.EPROTO, syscall.EPIPE, syscall.ENOSYS, syscall.ENOLCK, syscall.Errno(4242),
	} {
		s := realSystem
		s.openFile = func(_ *os.Root, p string) (*os.File, error) {
			return nil, &os.PathError{Op: "openat", Path: p, Err: errno}
		}
		s.list = func(*os.Root, int) ([]string, error) { return nil, errno }
		s.lookUp = func(*os.Root, string) error { return errno }
		l := newLocal(root, s)
		if _, err := l.Open(t.Context(), "song.wav"); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || !errors.Is(err, errno) {
			t.Errorf("opening, %v: got %v", errno, err)
		}
		if _, err := l.Existing(t.Context(), []string{"song.wav"}); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errno) {
			t.Errorf("looking up, %v: got %v", errno, err)
		}
		s = realSystem
		s.openRoot = func(string) (*os.Root, error) { return nil, errno }
		if _, err := newLocal(root, s).Open(t.Context(), "song.wav"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errno) {
			t.Errorf("opening the root, %v: got %v", errno, err)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL} {
		s := realSystem
		s.openFile = func(_ *os.Root, p string) (*os.File, error) {
			return nil, &os.PathError{Op: "openat", Path: p, Err: errno}
		}
		if _, err := newLocal(root, s).Open(t.Context(), "song.wav"); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%v: got %v, want ErrNotFound", errno, err)
		}
	}
}

// S1: closing an Input returns at once, although the place does not answer.
func TestClosingAnInputDoesNotWait(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "song.wav")
	l := newLocal(root, realSystem)
	in, err := l.Open(t.Context(), "song.wav")
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	for range maxCalls {
		l.calls.later(func() { <-hang })
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.File.Stat(); err != nil {
		t.Errorf("the caller has closed the file itself: %v", err)
	}
	close(hang)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := in.File.Stat(); errors.Is(err, os.ErrClosed) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the file is never closed")
		}
	}
}

// A caller that goes away leaves its call behind, and that is late when its time is over like any other.
func TestACallThatItsCallerLeftIsLateToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(2)
		hang := make(chan struct{})
		for range 2 {
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			_, err := call(ctx, c, 10*time.Second, func() (int, error) { <-hang; return 0, nil }, func(int) {})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left was told %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		start := time.Now()
		_, err := call(t.Context(), c, 10*time.Second, func() (int, error) { return 1, nil }, func(int) {})
		if !errors.Is(err, ErrUnavailable) || time.Since(start) > 0 {
			t.Errorf("told %v after %v", err, time.Since(start))
		}
		close(hang)
		synctest.Wait()
		if n, err := call(t.Context(), c, 10*time.Second, func() (int, error) { return 1, nil }, func(int) {}); n != 1 || err != nil {
			t.Errorf("when they are back: %d, %v", n, err)
		}
		if late := c.late.Load(); late != 0 {
			t.Errorf("%d are late", late)
		}
		time.Sleep(2 * idleWorker)
	})
}

// What this process reads of a source is bounded as its opening is.
func TestReadingAHangingSourceIsBounded(t *testing.T) {
	file, err := os.Open("calls_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := newInput(file, "a.gsm")
	if err != nil {
		t.Fatal(err)
	}
	in.calls, in.timeout = newCalls(1), 50*time.Millisecond
	start := make([]byte, 7)
	if n, err := in.Reader().ReadAt(start, 0); n != 7 || err != nil || string(start) != "//go:bu" {
		t.Fatalf("read %q, %v", start[:n], err)
	}
	hang := make(chan struct{})
	defer close(hang)
	in.calls.later(func() { <-hang }) // the only place is taken
	if _, err := in.Reader().ReadAt(start, 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("told %v", err)
	}
}
