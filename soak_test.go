//go:build soak

package audioproxy

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// What takes minutes, much disk or a quiet machine: `make soak` runs it. Memory is the server's own, which is a
// process of its own.

// peakMemory is the most resident memory that the process has had, in bytes.
func (s *server) peakMemory() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return kB << 10
}

// heard is what a listener got.
type heard struct {
	bytes int64
	sum   uint32
	took  time.Duration
	err   error
}

// listen reads a variant to its end, at most so many bytes a second (0 = as fast as it comes).
func (s *server) listen(ctx context.Context, url string, rate int64) heard {
	started := time.Now()
	resp, err := s.open(ctx, http.MethodGet, url)
	if err != nil {
		return heard{err: err}
	}
	defer resp.Body.Close()
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli)) // in hardware: the clients share the server's CPUs
	n, err := io.CopyBuffer(hash, &throttled{resp.Body, rate, started, 0}, make([]byte, 64<<10))
	return heard{bytes: n, sum: hash.Sum32(), took: time.Since(started), err: err}
}

type throttled struct {
	io.Reader
	rate    int64
	started time.Time
	n       int64
}

func (r *throttled) Read(p []byte) (int, error) {
	if r.rate > 0 {
		due := r.started.Add(time.Duration(float64(r.n) / float64(r.rate) * float64(time.Second)))
		time.Sleep(time.Until(due))
		p = p[:min(len(p), 16<<10)]
	}
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// crowd has n listeners read the same variant at once, and returns what they heard and how long all of it took.
func (s *server) crowd(url string, n int) ([]heard, time.Duration) {
	all := make([]heard, n)
	started := time.Now()
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = s.listen(s.t.Context(), url, 0) })
	}
	wg.Wait()
	return all, time.Since(started)
}

func TestSoakAnHourOfWavForFiftyListeners(t *testing.T) {
	s := newServer(t, strings.Replace(simple("slots 1\nqueue 0\nmax_source_size 3GB", ""), "admin off", "admin localhost:{port2}", 1))
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:r=44100:d=3600", "-ac", "2", filepath.Join(s.root, "hour.wav"))
	url := s.url("f:wav/bd:16", "hour.wav")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go s.listen(ctx, url, 100_000)
	first, err := s.open(t.Context(), http.MethodGet, url) // so that all others join
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, first.Body) }()

	all, took := s.crowd(url, 48)

	for i, h := range all {
		if h.err != nil || h.bytes < 635_000_000 || h.sum != all[0].sum {
			t.Errorf("listener %d: %d bytes, %v", i, h.bytes, h.err)
		}
	}
	memory := s.peakMemory()
	t.Logf("48 fast listeners of 635 MB beside one at 100 kB/s: %v, peak memory %d MB", took, memory>>20)
	if memory > 150<<20 {
		t.Errorf("peak memory %d MB, want less than 150", memory>>20)
	}
	// The slow one is far from its end, and the only slot is free.
	if a := s.get(s.url("f:mp3/t:0:1", "speech.wav")); a.status != http.StatusOK {
		t.Errorf("another render got %d", a.status)
	}
}

func TestSoakManyListenersOfOneColdVariant(t *testing.T) {
	s := newServer(t, simple("slots 1\nqueue 10", ""))
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:r=44100:d=600", "-ac", "2", filepath.Join(s.root, "long.wav"))
	n := 0
	timeOf := func(listeners int) time.Duration {
		n++
		all, took := s.crowd(s.url("f:mp3/br:128/cb:"+strconv.Itoa(n), "long.wav"), listeners)
		for i, h := range all {
			if h.err != nil || h.bytes < 9_000_000 || h.sum != all[0].sum {
				t.Errorf("listener %d of %d: %d bytes, %v", i, listeners, h.bytes, h.err)
			}
		}
		return took
	}
	timeOf(1) // warms the page cache
	var ratios [2][]float64
	for range 3 {
		one := timeOf(1)
		for i, listeners := range []int{200, 1000} {
			took := timeOf(listeners)
			ratios[i] = append(ratios[i], float64(took)/float64(one))
			t.Logf("%d listeners: %v, one: %v, ratio %.2f", listeners, took, one, float64(took)/float64(one))
		}
	}
	t.Logf("peak memory %d MB", s.peakMemory()>>20)
	for i, bound := range []float64{1.15, 2.2} {
		if best := min(ratios[i][0], ratios[i][1], ratios[i][2]); best > bound {
			t.Errorf("at best %.2f times as long as one listener, want at most %.2f", best, bound)
		}
	}
}

// A player that reads nothing for a minute and a half, half again as long as Caddy itself would bear, goes on.
func TestSoakAPausedListenerGoesOn(t *testing.T) {
	s := newServer(t, simple("", ""))
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:r=44100:d=600", "-ac", "2", filepath.Join(s.root, "long.wav"))
	url := s.url("f:wav/bd:16", "long.wav") // more than any socket's buffer holds
	resp, err := s.open(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}

	time.Sleep(90 * time.Second)

	rest, err := io.Copy(io.Discard, resp.Body)
	if err != nil || rest+64<<10 < 600*44100*4 {
		t.Errorf("after the pause came %d bytes and then %v", rest, err)
	}
}

// Peaks of two hours take no more of the server's memory than those of two seconds.
func TestSoakPeaksOfTwoHours(t *testing.T) {
	s := newServer(t, simple("max_source_size 3GB", ""))
	for name, seconds := range map[string]string{"short.wav": "2", "long.wav": "7200"} {
		run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:r=22050:d="+seconds, filepath.Join(s.root, name))
	}
	get := func(name string) int64 {
		if a := s.get(s.url("f:peaks/pk_fmt:dat", name)); a.status != http.StatusOK || len(a.body) != 24+800*2*2 {
			t.Errorf("%s: %d, %d bytes", name, a.status, len(a.body))
		}
		return s.peakMemory()
	}
	short, long := get("short.wav"), get("long.wav")
	t.Logf("peak memory after two seconds: %d MB, after two hours: %d MB", short>>20, long>>20)
	if long > short+16<<20 {
		t.Errorf("two hours took %d MB more", (long-short)>>20)
	}
}

// A cold variant's first byte against that of ffmpeg alone with the same arguments: the median of twenty pairs.
func TestSoakFirstByteBesideFfmpegAlone(t *testing.T) {
	s := newServer(t, simple("slots 1", ""))
	options, err := urlapi.ParseOptions("f:mp3")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ffmpeg.NewPlan(options, ffmpeg.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	alone := func() time.Duration {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.Command("ffmpeg", plan.Args("file:"+filepath.Join(s.root, "music.wav"), "file:"+out.Name(), "")...)
		started := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Wait() }()
		for {
			info, err := out.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if held, err := ffmpeg.HoldsAudio(options.Format, out, info.Size()); err != nil || held {
				return time.Since(started)
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
	served := func(n int) time.Duration {
		started := time.Now()
		resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3/cb:"+strconv.Itoa(n), "music.wav"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(started)
		_, _ = io.Copy(io.Discard, resp.Body)
		return took
	}
	var ratios []float64
	alone()
	served(0)
	for i := range 20 {
		a, b := alone(), served(i+1)
		ratios = append(ratios, float64(b)/float64(a))
	}
	slices.Sort(ratios)
	median := (ratios[9] + ratios[10]) / 2
	t.Logf("the first byte comes after %.2f times as long as from ffmpeg alone (%.2f to %.2f)", median, ratios[0], ratios[19])
	if median > 1.15 {
		t.Errorf("%.2f times as long as ffmpeg alone, want at most 1.15", median)
	}
}
