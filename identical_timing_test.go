package audioproxy

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Nor does the time that a refusal takes: what is not allowed costs what is not there costs. All are asked for in
// turn, so that what else the machine does is shared, and over one connection, so that it is the handler that is timed.
func TestRefusedSourcesTakeAsLongAsMissingOnes(t *testing.T) {
	s := newSite(t, simple("", ""))
	sources := s.special()
	sources["missing"] = "missing.wav"
	ask := func(source string) time.Duration {
		started := time.Now()
		resp, err := http.Get(s.url("", source))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return time.Since(started)
	}
	times := make(map[string][]time.Duration)
	for range 60 {
		for name, source := range sources {
			times[name] = append(times[name], ask(source))
		}
	}
	median := func(name string) time.Duration {
		slices.Sort(times[name])
		return times[name][len(times[name])/2]
	}
	missing := median("missing")
	for name := range sources {
		if took := median(name); took > 3*missing || 3*took < missing {
			t.Errorf("%s takes %v, what is missing %v", name, took, missing)
		}
	}
}
