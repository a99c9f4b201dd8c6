package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// gate is what the budget and what one could have taken instead have in common.
type gate struct {
	name    string
	acquire func(context.Context) (release func(), err error)
}

func gates(slots, waiters int) []gate {
	budget := admission.New(admission.Limits{Slots: slots, Queue: waiters + 1})
	weighted := semaphore.NewWeighted(int64(slots))
	permits := bulkhead.NewBuilder[any](uint(slots)).WithMaxWaitTime(time.Hour).Build()
	return []gate{
		{"budget", func(ctx context.Context) (func(), error) {
			lease, err := budget.Acquire(ctx, admission.Default)
			return lease.Release, err
		}},
		{"xsync semaphore", func(ctx context.Context) (func(), error) {
			return func() { weighted.Release(1) }, weighted.Acquire(ctx, 1)
		}},
		{"failsafe bulkhead", func(ctx context.Context) (func(), error) {
			return permits.ReleasePermit, permits.AcquirePermit(ctx)
		}},
	}
}

// BenchmarkUncontended is one ask and release with a slot free. The budget times
// how long the slot was held. In a loop like this it reads the clock for one
// time in eight; "exact clock" reads it twice each time, as the first ask after a
// pause does, and so does "xsync semaphore, timed".
func BenchmarkUncontended(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	limits := admission.Limits{Slots: 4}
	budget := func(options ...admission.Option) func(*testing.B) {
		return func(b *testing.B) {
			budget := admission.New(limits, options...)
			b.ReportAllocs()
			for b.Loop() {
				lease, _, _ := budget.Ask(ctx, admission.Default)
				lease.Release()
			}
		}
	}
	begin := time.Now()
	b.Run("budget", budget())
	b.Run("budget, exact clock", budget(admission.WithClock(func() time.Duration { return time.Since(begin) })))
	b.Run("budget, observed", budget(admission.WithObserver(func(admission.Event) {})))
	b.Run("xsync semaphore", func(b *testing.B) {
		weighted := semaphore.NewWeighted(4)
		b.ReportAllocs()
		for b.Loop() {
			_ = weighted.Acquire(ctx, 1)
			weighted.Release(1)
		}
	})
	b.Run("xsync semaphore, timed", func(b *testing.B) {
		weighted := semaphore.NewWeighted(4)
		start := time.Now()
		var held time.Duration
		b.ReportAllocs()
		for b.Loop() {
			_ = weighted.Acquire(ctx, 1)
			since := time.Since(start)
			held += time.Since(start) - since
			weighted.Release(1)
		}
	})
	b.Run("failsafe bulkhead", func(b *testing.B) {
		permits := bulkhead.New[any](4)
		b.ReportAllocs()
		for b.Loop() {
			_ = permits.AcquirePermit(ctx)
			permits.ReleasePermit()
		}
	})
}

var depths = []int{10, 1_000, 100_000}

// crowd is a budget whose slot is held and whose queue holds n waiters, each
// with a context of its own that is watched, as requests have.
type crowd struct {
	budget   *admission.Budget
	lease    admission.Lease
	contexts []context.Context
	tickets  []*admission.Ticket
	class    admission.Class
}

func newCrowd(b *testing.B, n int, c admission.Class) *crowd {
	w := &crowd{budget: admission.New(admission.Limits{Slots: 1, Queue: n}), class: c}
	w.lease, _, _ = w.budget.Ask(context.Background(), admission.Interactive)
	w.tickets = make([]*admission.Ticket, n)
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		b.Cleanup(cancel)
		w.contexts = append(w.contexts, ctx)
		w.ask(i)
	}
	// What it took to gather the crowd is no part of what is measured.
	runtime.GC()
	return w
}

// ask has waiter i ask.
func (w *crowd) ask(i int) {
	_, ticket, err := w.budget.Ask(w.contexts[i], w.class)
	if err != nil {
		panic(err)
	}
	w.tickets[i] = ticket
}

func atDepth(b *testing.B, run func(b *testing.B, n int)) {
	for _, n := range depths {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			run(b, n)
		})
	}
}

// BenchmarkGrantAtDepth is a release, the grant to the oldest waiter, and a new
// waiter in its stead.
func BenchmarkGrantAtDepth(b *testing.B) {
	atDepth(b, func(b *testing.B, n int) {
		w := newCrowd(b, n, admission.Default)
		for i := 0; b.Loop(); i++ {
			w.lease.Release()
			w.lease, _ = w.tickets[i%n].Lease()
			w.ask(i % n)
		}
	})
}

// BenchmarkGiveUpAtDepth is a waiter leaving, and a new one in its stead: from
// the middle on in the order in which they came, or anyone at random. At random
// in a deep queue it, its neighbours and its context have to come from memory
// first. That, and nothing the queue does, is the difference between the two:
// at random among the same thousand it is gone, however many others wait.
func BenchmarkGiveUpAtDepth(b *testing.B) {
	leave := func(next func(i, n int) int) func(b *testing.B, n int) {
		return func(b *testing.B, n int) {
			w := newCrowd(b, n, admission.Default)
			for i := 0; b.Loop(); i++ {
				leaver := next(i, n)
				w.tickets[leaver].GiveUp()
				w.ask(leaver)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	b.Run("in order", func(b *testing.B) {
		atDepth(b, leave(func(i, n int) int { return (n/2 + i) % n }))
	})
	b.Run("at random", func(b *testing.B) {
		atDepth(b, leave(func(_, n int) int { return random.IntN(n) }))
	})
	b.Run("at random among 1000", func(b *testing.B) {
		atDepth(b, leave(func(_, n int) int { return (n/2 + random.IntN(min(n, 1_000))) % n }))
	})
}

// BenchmarkPromoteAtDepth is a waiter moving from the middle of one class to
// the tail of another: a matter of a few pointers, nearly all of it memory.
func BenchmarkPromoteAtDepth(b *testing.B) {
	promote := func(among func(n int) int) func(*testing.B, int) {
		return func(b *testing.B, n int) {
			w := newCrowd(b, n, admission.Low)
			random := rand.New(rand.NewPCG(1, 1))
			for i := 0; b.Loop(); i++ {
				w.tickets[random.IntN(among(n))].SetClass(admission.Class(i) % admission.NumClasses)
			}
		}
	}
	b.Run("at random", func(b *testing.B) {
		atDepth(b, promote(func(n int) int { return n }))
	})
	b.Run("at random among 1000", func(b *testing.B) {
		atDepth(b, promote(func(n int) int { return min(n, 1_000) }))
	})
}

// BenchmarkDisplaceAtDepth is an arrival taking the place of the newest low
// waiter, and giving it to a low one again.
func BenchmarkDisplaceAtDepth(b *testing.B) {
	atDepth(b, func(b *testing.B, n int) {
		w := newCrowd(b, n, admission.Low)
		for b.Loop() {
			_, ticket, _ := w.budget.Ask(context.Background(), admission.High)
			ticket.GiveUp()
			w.ask(n - 1)
		}
	})
}

// BenchmarkHandOver passes one slot round among n goroutines that block for it:
// the form in which the three can be compared.
func BenchmarkHandOver(b *testing.B) {
	for _, n := range depths {
		for _, g := range gates(1, n) {
			b.Run(fmt.Sprintf("%s/%d", g.name, n), func(b *testing.B) {
				b.ReportAllocs()
				handOver(b, g, n)
			})
		}
	}
}

// handOver makes b.N turns, and as many more as there are waiters to see off.
// All turns are alike, so ns/turn is the figure to look at.
func handOver(b *testing.B, g gate, waiters int) {
	ctx := b.Context()
	release, err := g.acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var work sync.WaitGroup
	var arrived atomic.Int64
	turns := 0 // guarded by the slot itself
	for range waiters {
		work.Go(func() {
			arrived.Add(1)
			for over := false; !over; {
				release, err := g.acquire(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				turns++
				over = turns >= b.N
				release()
			}
		})
	}
	for arrived.Load() < int64(waiters) {
		runtime.Gosched()
	}
	start := time.Now()
	release()
	work.Wait()
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(turns), "ns/turn")
	b.ReportMetric(0, "ns/op")
}
