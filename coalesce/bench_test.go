package coalesce_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

// plainJob writes a variant of so many bytes, as fast as it can.
type plainJob struct {
	size  int
	await bool // wait, as the gate of an encoder does, until the first byte has been noticed

	mu    sync.Mutex
	wrote time.Time // the first byte
}

func (j *plainJob) Prepare(context.Context) error { return nil }

func (j *plainJob) Render(ctx context.Context, spool *coalesce.Spool) error {
	live, err := os.OpenFile(filepath.Join(spool.Dir(), coalesce.LiveName), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer live.Close()
	piece := make([]byte, min(j.size, 64<<10))
	if j.await {
		time.Sleep(5 * time.Millisecond) // an encoder takes its time to start; ffmpeg takes ten times this
	}
	j.mu.Lock()
	j.wrote = time.Now()
	j.mu.Unlock()
	for written := 0; written < j.size; written += len(piece) {
		if _, err := live.Write(piece); err != nil {
			return err
		}
		if j.await {
			if _, err := spool.AwaitGrowth(ctx, 0); err != nil {
				return err
			}
		}
		spool.Release()
	}
	if j.await {
		<-ctx.Done() // the first byte is all that is asked of it
	}
	return nil
}

func (j *plainJob) Close() {}

func benchmarkGroup(b *testing.B) (*coalesce.Group, coalesce.Terms) {
	b.Setenv("TMPDIR", b.TempDir())
	g := coalesce.NewGroup(admission.New(admission.Limits{Slots: 1, Queue: 8}))
	b.Cleanup(g.Close)
	return g, coalesce.Terms{Timeout: time.Minute}
}

// BenchmarkFirstByte measures how long the first byte takes from the encoder to a listener: noticed, released,
// noticed again.
func BenchmarkFirstByte(b *testing.B) {
	g, terms := benchmarkGroup(b)
	var took time.Duration
	for n := range b.N {
		j := &plainJob{size: 1000, await: true}
		id := a
		id.Key = strconv.Itoa(n)
		l, _ := g.JoinOrStart(id, admission.Interactive, j, terms)
		if err := l.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		j.mu.Lock()
		took += time.Since(j.wrote)
		j.mu.Unlock()
		l.Close()
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/first-byte")
}

const variantSize = 4 << 20

// BenchmarkListeners has so many listeners on one flight, beside as many readers of a finished file, each with a
// descriptor of its own.
func BenchmarkListeners(b *testing.B) {
	for _, n := range []int{1, 200, 1000} {
		b.Run("flight/"+strconv.Itoa(n), func(b *testing.B) { benchmarkFlight(b, n) })
		b.Run("file/"+strconv.Itoa(n), func(b *testing.B) { benchmarkFile(b, n) })
	}
}

func benchmarkFlight(b *testing.B, n int) {
	g, terms := benchmarkGroup(b)
	b.SetBytes(int64(n) * variantSize)
	for b.Loop() {
		var everybody sync.WaitGroup
		for range n {
			l, _ := g.JoinOrStart(a, admission.Interactive, &plainJob{size: variantSize}, terms)
			everybody.Go(func() {
				defer l.Close()
				if heard := count(b, l); heard != variantSize {
					b.Errorf("heard %d bytes", heard)
				}
			})
		}
		everybody.Wait()
		g.Cancel(a.Key)
	}
}

// pieces are the buffers that listeners read into, as a handler's do.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func count(b *testing.B, l *coalesce.Listener) (heard int) {
	for {
		if err := l.More(b.Context()); err != nil {
			if err != io.EOF {
				b.Error(err)
			}
			return heard
		}
		piece := pieces.Get().(*[32 << 10]byte)
		for {
			n, err := l.Read(piece[:])
			heard += n
			if n == 0 || err != nil {
				break
			}
		}
		pieces.Put(piece)
	}
}

func benchmarkFile(b *testing.B, n int) {
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, variantSize), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(n) * variantSize)
	for b.Loop() {
		var everybody sync.WaitGroup
		for range n {
			everybody.Go(func() {
				f, err := os.Open(path)
				if err != nil {
					b.Error(err)
					return
				}
				defer f.Close()
				piece := pieces.Get().(*[32 << 10]byte)
				defer pieces.Put(piece)
				for {
					if _, err := f.Read(piece[:]); err != nil {
						break
					}
				}
			})
		}
		everybody.Wait()
	}
}

// BenchmarkRead has everybody read one flight byte by byte, which nobody does, to see what the lock costs.
func BenchmarkRead(b *testing.B) {
	g, terms := benchmarkGroup(b)
	first, _ := g.JoinOrStart(a, admission.Interactive, &plainJob{size: 1000, await: true}, terms)
	defer first.Close()
	if err := first.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		l, joined := g.Join(a, admission.Interactive)
		if !joined {
			b.Error("there is nothing to read")
			return
		}
		defer func() { l.Close() }()
		var piece [1]byte
		for n := 1; pb.Next(); n++ {
			_ = l.More(context.Background())
			_, _ = l.Read(piece[:])
			if n%1000 == 0 {
				l.Close()
				l, _ = g.Join(a, admission.Interactive)
			}
		}
	})
}
