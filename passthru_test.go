package audioproxy

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// passing is a site that logs, and whose directive stands behind so many others that have no source and pass on.
func passing(t *testing.T, directives int, directive string) string {
	t.Helper()
	first := strings.Repeat("\taudio_proxy {\n\t\tsource local "+t.TempDir()+"\n\t\tinsecure\n\t\tpass_thru\n\t}\n", directives)
	return strings.Replace(logged("", directive), "\taudio_proxy {\n\t\tsource local {root}", first+"\taudio_proxy {\n\t\tsource local {root}", 1)
}

// R7: the log said "passed", and the placeholders nothing, of a variant that the second directive had rendered.
func TestTheDirectiveThatAnsweredIsTheOneThatIsLogged(t *testing.T) {
	for _, before := range []int{1, 2} {
		s := newSite(t, passing(t, before, "class high {\n\theader X-Class high\n}"))
		url := s.url("t:0:1/f:mp3", "speech.wav")
		passed := measuredRequests(t, "variant", outcomePassed)
		for n, cache := range []string{"miss", "hit"} {
			a := s.get(url, "X-Class", "high")
			if a.status != http.StatusOK || strings.ToLower(a.cache()) != cache {
				t.Fatalf("%d %s, want a %s", a.status, a.cache(), cache)
			}
			got := s.leftBy(n)
			for name, want := range map[string]any{
				"outcome": "complete", "cache": cache, "class": "high", "source": "local://speech.wav", "options": "f:mp3/t:0:1",
				"key": a.header.Get("X-Key"), "appended": "f:mp3/t:0:1", "status": 200.0,
			} {
				if got[name] != want {
					t.Errorf("%d before, %s: %s is %v, want %v", before, cache, name, got[name], want)
				}
			}
			if len(a.header.Get("X-Key")) != 64 {
				t.Errorf("%d before, %s: the placeholder is %q", before, cache, a.header.Get("X-Key"))
			}
		}
		waitFor(t, "all directives are counted", func() bool {
			return measuredRequests(t, "variant", outcomePassed) == passed+float64(2*before)
		})
	}
}

// Where none of ours answers, the last one tells what became of the request.
func TestWhatPassesAllDirectivesIsLoggedAsPassed(t *testing.T) {
	s := newSite(t, passing(t, 1, "pass_thru"))
	s.get(s.url("f:mp3", "missing.wav"))
	if got := s.leftBy(0); got["outcome"] != outcomePassed || got["source"] != "local://missing.wav" {
		t.Errorf("left %v", got)
	}
}

// An error route may serve something else in place of what failed.
func TestADirectiveInAnErrorRouteIsTheOneThatIsLogged(t *testing.T) {
	s := newSite(t, strings.Replace(passing(t, 0, "errors caddy"), "http://localhost:{port} {\n", `http://localhost:{port} {
	handle_errors {
		rewrite * /insecure/f:mp3/t:0:1/plain/local://speech.wav
		audio_proxy {
			source local {root}
			insecure
		}
	}
`, 1))
	s.get(s.url("f:mp3", "missing.wav"))
	if got := s.leftBy(0); got["outcome"] != outcomeComplete || got["cache"] != "miss" || got["source"] != "local://speech.wav" {
		t.Errorf("left %v", got)
	}
}

// measuredRequests is how many requests the metric has counted so far.
func measuredRequests(t *testing.T, endpoint, status string) float64 {
	t.Helper()
	var m dto.Metric
	if err := measured.requests.WithLabelValues(endpoint, status).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
