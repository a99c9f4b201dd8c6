package admission_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// stressTime is how long the stress lasts: a moment, or ADMISSION_STRESS
// (a duration, such as 20s).
func stressTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ADMISSION_STRESS")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ADMISSION_STRESS: %v", err)
	}
	return d
}

// A wake-up that is lost between looking and going to sleep lets waiters sleep
// beside a free slot. Eight slots, four classes, two hundred goroutines that
// acquire, hold up to 2 ms, release and cancel at random.
func TestNoWakeUpIsLost(t *testing.T) {
	const slots, workers = 8, 200
	var broken atomic.Pointer[admission.Event]
	b := admission.New(admission.Limits{Slots: slots, Queue: workers},
		admission.WithObserver(func(e admission.Event) {
			if e.Kind != admission.EventAcquired {
				return
			}
			for c := admission.Interactive; c.Outranks(e.Class); c++ {
				if e.Depths[c] > 0 {
					broken.Store(&e) // granted while a better class waited
				}
			}
		}))
	ctx, stop := context.WithTimeout(t.Context(), stressTime(t))
	defer stop()
	var running, most atomic.Int64
	var work sync.WaitGroup
	for seed := range uint64(workers) {
		work.Go(func() {
			random := rand.New(rand.NewPCG(1, seed))
			for ctx.Err() == nil {
				patience := time.Duration(random.IntN(200)) * time.Millisecond
				mine, cancel := context.WithTimeout(ctx, patience)
				lease, err := b.Acquire(mine, admission.Class(random.IntN(admission.NumClasses)))
				if err == nil {
					raise(&most, running.Add(1))
					time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond) // the work
					running.Add(-1)
					lease.Release()
				}
				cancel()
			}
		})
	}
	// Nobody waits beside a free slot, not even for the time it takes to wake.
	for ctx.Err() == nil {
		if s := b.Stats(); s.Held < slots && s.Queued > 0 || s.Held > slots {
			t.Errorf("held %d, queued %d", s.Held, s.Queued)
			stop()
		}
		runtime.Gosched()
	}
	work.Wait()
	if e := broken.Load(); e != nil {
		t.Errorf("granted to %s while better ones waited: %+v", e.Class, *e)
	}
	if n := most.Load(); n > slots {
		t.Errorf("%d ran at once in %d slots", n, slots)
	}
	until(t, "all have left", func() bool { s := b.Stats(); return s.Held == 0 && s.Queued == 0 })
}

// raise keeps the highest value.
func raise(highest *atomic.Int64, n int64) {
	for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
	}
}

// TestEveryExitAtOnce has thousands of goroutines leave by every exit there is,
// while the limits change. Then nothing is held and nobody waits.
func TestEveryExitAtOnce(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 4, Queue: 1000}, admission.WithObserver(func(admission.Event) {}))
	var work sync.WaitGroup
	for seed := range uint64(4000) {
		work.Go(func() { visit(t, b, rand.New(rand.NewPCG(2, seed))) })
	}
	work.Go(func() {
		random := rand.New(rand.NewPCG(3, 0))
		for range 500 {
			limits := admission.Limits{Slots: 1 + random.IntN(8), Queue: random.IntN(2000)}
			limits.ClassLimits[admission.Low] = random.IntN(3)
			b.SetLimits(limits)
			if random.IntN(100) == 0 {
				b.Drain()
			}
			runtime.Gosched()
		}
		b.SetLimits(admission.Limits{Slots: 4, Queue: 1000})
	})
	allLeft := make(chan struct{})
	go func() { work.Wait(); close(allLeft) }()
	// Some goroutines end without releasing: others wait for what the runtime
	// finds, so it must look.
	until(t, "all have left", func() bool {
		runtime.GC()
		select {
		case <-allLeft:
			s := b.Stats()
			return s.Held == 0 && s.Queued == 0 && s.Yielding == 0 && s.Stopping == 0
		default:
			return false
		}
	})
	for range 4 {
		held(t, b, admission.Low)
	}
}

// visit asks once and leaves by a random exit.
func visit(t *testing.T, b *admission.Budget, random *rand.Rand) {
	class := func() admission.Class { return admission.Class(random.IntN(admission.NumClasses)) }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lease, ticket, err := b.Ask(ctx, class())
	if err != nil {
		return
	}
	if ticket != nil {
		var ok bool
		if lease, ok = waitOrLeave(t, ticket, cancel, class, random); !ok {
			return
		}
	}
	switch random.IntN(8) {
	case 0:
		return // forgotten
	case 1:
		defer lease.Release() // twice
	case 2:
		lease.SetClass(class())
	case 3, 4:
		stopped := make(chan struct{})
		lease.Yield(sync.OnceFunc(func() { close(stopped) }))
		if random.IntN(2) == 0 && !lease.Unyield() {
			<-stopped
		}
	}
	runtime.Gosched()
	lease.Release()
}

// waitOrLeave waits for a decision, or leaves while it may be under way.
func waitOrLeave(t *testing.T, ticket *admission.Ticket, cancel func(), class func() admission.Class, random *rand.Rand) (admission.Lease, bool) {
	switch random.IntN(8) {
	case 0:
		cancel()
	case 1:
		ticket.GiveUp()
	case 2:
		ticket.Expire()
	case 3:
		return admission.Lease{}, false // forgotten, in the queue or granted
	case 4, 5:
		ticket.SetClass(class())
	}
	<-ticket.Done()
	lease, err := ticket.Lease()
	if err != nil {
		var refusal *admission.Refusal
		if !errors.As(err, &refusal) && !errors.Is(err, context.Canceled) && !errors.Is(err, admission.ErrGivenUp) {
			t.Errorf("a ticket ended with %v", err)
		}
		return admission.Lease{}, false
	}
	return lease, true
}
