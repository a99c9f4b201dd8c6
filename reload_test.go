package audioproxy

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Admins reload all day. None of it may be felt by who listens, and nothing of an old config may stay.
func TestReloadsUnderLoadAreNotFelt(t *testing.T) {
	ffmpeg := counting(t)
	config := func(i int) string {
		return fmt.Sprintf(`{
	admin off
	persist_config off
	audio_proxy {
		store file_system {store}
		slots %d
		queue 100
		ffmpeg %s
	}
}
http://localhost:{port} {
	header X-Config %d
	audio_proxy {
		source local {root}
		insecure
	}
}
`, 2+i%2, ffmpeg.path, i)
	}
	s := newSite(t, config(0))
	stored := s.url("f:mp3/t:0:1", "speech.wav")
	s.get(stored)
	before := footprint(t)

	var cold atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 2 { // two clients that ask for the same cold variants at about the same time, and for a stored one
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := int64(i/2) + 1
				for old := cold.Load(); old < n && !cold.CompareAndSwap(old, n); old = cold.Load() {
				}
				url := s.url("f:wav/bd:16/sr:8000/t:0:1/cb:"+strconv.FormatInt(n, 10), "speech.wav")
				if a := s.get(url); a.status != http.StatusOK || a.err != nil || len(a.body) < 16000 {
					t.Errorf("cold %d: %d %s, %d bytes, %v", n, a.status, a.cache(), len(a.body), a.err)
				}
				if a := s.get(stored); a.cache() != "HIT" || a.err != nil {
					t.Errorf("stored: %d %s, %v", a.status, a.cache(), a.err)
				}
			}
		})
	}
	counted := 0.0
	for i := range reloads {
		served := cold.Load()
		waitFor(t, "requests have been served in between", func() bool { return cold.Load() > served || t.Failed() })
		if n := answered(t); n <= counted {
			t.Errorf("the requests were counted to %v, after %v", n, counted)
		} else {
			counted = n
		}
		if i%10 == 9 {
			if err := s.tryLoad(config(i) + "http://127.0.0.1:{port2} {\n\tbind 192.0.2.1\n\trespond hello\n}\n"); err == nil {
				t.Error("a config that cannot listen was loaded")
			}
			continue
		}
		s.load(config(i))
	}
	stop()
	clients.Wait()

	s.awaitIdle()
	if n, want := int64(len(ffmpeg.pids())), cold.Load()+1; n > want {
		t.Errorf("%d encoders ran for %d variants", n, want)
	}
	t.Logf("%d reloads, %d cold variants", reloads, cold.Load())
	var after [3]int
	if !eventually(20*time.Second, func() bool {
		after = footprint(t)
		return after[0] <= before[0]+10 && after[1] <= before[1]+10 && after[2] <= before[2]+20
	}) {
		t.Errorf("goroutines, descriptors and megabytes: %v before, %v after", before, after)
	}
}

// footprint is how many goroutines, descriptors and megabytes of live memory there are.
func footprint(t *testing.T) [3]int {
	t.Helper()
	runtime.GC() // which closes the folders of old configs, too
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	descriptors, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return [3]int{runtime.NumGoroutine(), len(descriptors), int(memory.HeapAlloc >> 20)}
}

// answered is how many requests the metrics have counted.
func answered(t *testing.T) (n float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(measured.requests)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			n += metric.GetCounter().GetValue()
		}
	}
	return n
}

// A stream that began before a reload plays to its end, and so does one that joins it through the new config.
func TestStreamsOutliveTheConfigTheyBeganUnder(t *testing.T) {
	ffmpeg, open := gated(t)
	config := func(root string) string {
		return `{
	admin off
	persist_config off
	audio_proxy {
		store file_system {store}
		ffmpeg ` + ffmpeg.path + `
	}
}
http://localhost:{port} {
	` + root + `
}
`
	}
	const proxy = "audio_proxy {\nsource local {root}\ninsecure\n}"
	s := newSite(t, config(proxy))
	url := s.url("f:mp3", "music.wav")
	first := s.started(url)
	s.reach(1, 0)

	// The module leaves the config altogether while it renders, and comes back.
	s.load("{\n\tadmin off\n\tpersist_config off\n}\nhttp://localhost:{port} {\n\trespond hello\n}\n")
	if a := s.get(url); string(a.body) != "hello" {
		t.Fatalf("the new config answers %q", a.body)
	}
	s.load(config(proxy))
	second := s.started(url)
	waitFor(t, "the second listener has joined", func() bool {
		flights := theEngine(t).flights.Flights()
		return len(flights) == 1 && flights[0].Listeners == 2
	})
	open()

	for name, c := range map[string]<-chan answer{"first": first, "second": second} {
		if a := <-c; a.status != http.StatusOK || a.err != nil || len(a.body) < 100_000 {
			t.Errorf("%s: %d, %d bytes, %v", name, a.status, len(a.body), a.err)
		}
	}
	s.awaitIdle()
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
	if a := s.get(url); a.cache() != "HIT" {
		t.Errorf("then it is a %s", a.cache())
	}
	if left, _ := filepath.Glob(filepath.Join(s.store, "staging", "*")); len(left) != 1 {
		t.Errorf("staging areas: %v, want the one of the store that is open", left)
	}
}
