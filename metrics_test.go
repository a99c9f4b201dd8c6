package audioproxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// scrape reads Caddy's /metrics: the values of ours, by name and labels as they are written in queries.
// Histograms are there by their count.
func (s *site) scrape() map[string]float64 {
	s.t.Helper()
	a := s.admin(http.MethodGet, "/metrics", "")
	if a.status != http.StatusOK {
		s.t.Fatalf("scraping: %d %s", a.status, a.body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(a.body)))
	if err != nil {
		s.t.Fatal(err)
	}
	values := make(map[string]float64)
	for name, family := range families {
		if name, ours := strings.CutPrefix(name, "caddy_audio_proxy_"); ours {
			for _, m := range family.GetMetric() {
				values[name+labelsOf(m)] = valueOf(m)
			}
		}
	}
	return values
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	if labels == nil {
		return ""
	}
	return "{" + strings.Join(labels, ",") + "}"
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// moved is what has changed between two scrapes.
func moved(before, after map[string]float64) map[string]float64 {
	changes := make(map[string]float64)
	for name, value := range after {
		if value != before[name] {
			changes[name] = value - before[name]
		}
	}
	return changes
}

// wantMoved compares what has changed with what should have, but for the size of what is stored.
func wantMoved(t *testing.T, what string, before, after, want map[string]float64) {
	t.Helper()
	got := moved(before, after)
	delete(got, "store_bytes")
	if !maps.Equal(got, want) {
		t.Errorf("%s: moved %v, want %v", what, got, want)
	}
}

// requests adds up what was counted of requests.
func requests(metrics map[string]float64) (sum float64) {
	for name, value := range metrics {
		if strings.HasPrefix(name, "requests_total{") {
			sum += value
		}
	}
	return sum
}

func TestEachMetricMovesAsItShould(t *testing.T) {
	s := newSite(t, observed("slots 1\nqueue 5", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	var before map[string]float64
	step := func(what string, do func(), want map[string]float64) {
		t.Helper()
		before = s.scrape()
		do()
		waitFor(t, "nothing renders", s.isIdle)
		// A request is counted when its handler has left, which may be after its client has read the answer.
		eventually(5*time.Second, func() bool { return requests(s.scrape())-requests(before) >= requests(want) })
		wantMoved(t, what, before, s.scrape(), want)
	}

	step("a miss", func() { s.get(url) }, map[string]float64{
		"requests_total{endpoint=variant,status=200}":          1,
		"cache_lookups_total{format=mp3,outcome=miss}":         1,
		"first_byte_seconds{cache=miss,format=mp3}":            1,
		"renders_total{format=mp3,outcome=complete}":           1,
		"render_duration_seconds{format=mp3,outcome=complete}": 1,
		"queue_wait_seconds{class=interactive}":                1,
		"store_files":                                          1,
	})
	step("a hit, a range of it, and its revalidation", func() {
		tag := s.get(url).header.Get("ETag")
		s.get(url, "Range", "bytes=0-9")
		s.get(url, "If-None-Match", tag)
		s.do(t.Context(), http.MethodHead, url)
	}, map[string]float64{
		"requests_total{endpoint=variant,status=200}": 2,
		"requests_total{endpoint=variant,status=206}": 1,
		"requests_total{endpoint=variant,status=304}": 1,
		"cache_lookups_total{format=mp3,outcome=hit}": 2,
		"first_byte_seconds{cache=hit,format=mp3}":    2,
	})
	step("other endpoints", func() {
		base := fmt.Sprintf("http://localhost:%d", s.port)
		s.get(base + "/health")
		s.get(base + "/ready")
		s.get(base + "/insecure/info/plain/local://speech.wav")
		s.get(base + "/nowhere")
		s.get(base + "/forged/plain/local://speech.wav")
		s.do(t.Context(), "BREW", base+"/health")
	}, map[string]float64{
		"requests_total{endpoint=health,status=200}":  1,
		"requests_total{endpoint=ready,status=200}":   1,
		"requests_total{endpoint=info,status=200}":    1,
		"requests_total{endpoint=other,status=404}":   2,
		"requests_total{endpoint=variant,status=401}": 1,
		"probes_total{outcome=complete}":              1,
	})
	if err := os.WriteFile(s.root+"/text.wav", []byte(strings.Repeat("This is no audio.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	step("a source that is no audio", func() { s.get(s.url("f:opus", "text.wav")) }, map[string]float64{
		"requests_total{endpoint=variant,status=415}":              1,
		"cache_lookups_total{format=opus,outcome=miss}":            1,
		"renders_total{format=opus,outcome=undecodable}":           1,
		"render_duration_seconds{format=opus,outcome=undecodable}": 1,
		"queue_wait_seconds{class=interactive}":                    1,
	})
}

func TestQueueMetricsMoveAsTheyShould(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, observed("slots 1\nqueue 2\nffmpeg "+ffmpeg.path, `class low /insecure/f:mp3/t:0:2/*
		class high /insecure/f:mp3/t:0:3/*
		class high /insecure/f:mp3/t:0:5/*`))
	trim := func(n int) string { return s.url(fmt.Sprintf("f:mp3/t:0:%d", n), "speech.wav") }
	queued := func(n int) func() bool { return func() bool { return theEngine(t).budget.Stats().Queued == n } }
	before := s.scrape()

	running := s.started(trim(1))
	waitFor(t, "a render holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	joined := s.started(trim(1))
	low := s.started(trim(2))
	waitFor(t, "one waits", queued(1))
	high := s.started(trim(3))
	waitFor(t, "two wait", queued(2))
	waitFor(t, "the second listener is there", func() bool {
		for _, f := range theEngine(t).flights.Flights() {
			if f.Listeners == 2 {
				return true
			}
		}
		return false
	})

	wantMoved(t, "under load", before, s.scrape(), map[string]float64{
		"slots{state=held}":                     1,
		"renders_running":                       1,
		"queue_depth{class=low}":                1,
		"queue_depth{class=high}":               1,
		"queue_wait_seconds{class=interactive}": 1,
	})
	if now := s.scrape(); now["slots{state=capacity}"] != 1 || now["queue_capacity"] != 2 {
		t.Errorf("capacities: %v and %v, want 1 and 2", now["slots{state=capacity}"], now["queue_capacity"])
	}

	better := s.started(trim(4)) // displaces the low one
	if a := <-low; a.status != http.StatusTooManyRequests {
		t.Errorf("the displaced one got %d", a.status)
	}
	if a := s.get(trim(5)); a.status != http.StatusTooManyRequests { // outranks nothing
		t.Errorf("the last one got %d", a.status)
	}
	open()
	for _, c := range []<-chan answer{running, joined, high, better} {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("got %d", a.status)
		}
	}
	waitFor(t, "nothing is left", s.isIdle)
	wantMoved(t, "all in all", before, s.scrape(), map[string]float64{
		"queue_rejections_total{class=low,reason=displaced}":   1,
		"queue_rejections_total{class=high,reason=full}":       1,
		"queue_wait_seconds{class=interactive}":                2,
		"queue_wait_seconds{class=high}":                       1,
		"requests_total{endpoint=variant,status=200}":          4,
		"requests_total{endpoint=variant,status=429}":          2,
		"cache_lookups_total{format=mp3,outcome=miss}":         5,
		"cache_lookups_total{format=mp3,outcome=coalesced}":    1,
		"first_byte_seconds{cache=miss,format=mp3}":            3,
		"first_byte_seconds{cache=coalesced,format=mp3}":       1,
		"renders_total{format=mp3,outcome=complete}":           3,
		"render_duration_seconds{format=mp3,outcome=complete}": 3,
		"store_files": 3,
	})
}

func TestMetricsGoOnAcrossReloads(t *testing.T) {
	s := newSite(t, observed("slots 2", ""))
	s.get(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "nothing renders", s.isIdle)
	before := s.scrape()

	s.load(observed("slots 3", ""))
	wantMoved(t, "a reload", before, s.scrape(), map[string]float64{"slots{state=capacity}": 1})

	before = s.scrape()
	if err := s.tryLoad(observed("slots 4", "insecure maybe")); err == nil {
		t.Fatal("a bad Caddyfile was loaded")
	}
	// The apps of this one start, or don't, before its listener turns out to be impossible.
	if err := s.tryLoad(observed("slots 5", "") + "http://192.0.2.1:{port} {\n\trespond hello\n\tbind 192.0.2.1\n}\n"); err == nil {
		t.Fatal("a config was loaded that cannot listen")
	}
	// This one is refused before our app is made, and leaves its admin endpoint behind.
	if err := caddy.Load([]byte(s.fill(`{"admin":{"listen":"localhost:{port2}"},"apps":{"no_such_app":{}}}`)), true); err == nil {
		t.Fatal("a config with an unknown app was loaded")
	}
	wantMoved(t, "failed reloads", before, s.scrape(), map[string]float64{})
	s.get(s.url("f:mp3/t:0:2", "speech.wav"))
	waitFor(t, "nothing renders", s.isIdle)
	if got := moved(before, s.scrape())["renders_total{format=mp3,outcome=complete}"]; got != 1 {
		t.Errorf("a render after a failed reload counts %v", got)
	}

	s.load("{\n\tadmin localhost:{port2}\n\tpersist_config off\n}\n")
	s.load(observed("slots 3", ""))
	for name, value := range s.scrape() {
		if value < before[name] && !strings.HasPrefix(name, "store_files") && !strings.HasPrefix(name, "store_bytes") {
			t.Errorf("%s fell from %v to %v", name, before[name], value)
		}
	}
}

func TestStoreCountersSurviveTheStore(t *testing.T) {
	s := newSite(t, strings.Replace(observed("", ""), "store file_system {store}", "store file_system {store} {\n\tmax_size 40KB\n}", 1))
	before := s.scrape()
	for i := range 5 { // of 16 kB each
		s.get(s.url(fmt.Sprintf("f:mp3/t:0.%d:1", i), "speech.wav"))
	}
	waitFor(t, "nothing renders", s.isIdle)
	evicted := s.scrape()["store_evictions_total"] - before["store_evictions_total"]
	if evicted < 3 {
		t.Fatalf("%v variants were evicted, want 3 or more", evicted)
	}

	s.load(strings.Replace(observed("", ""), "store file_system {store}", "store off", 1))

	waitFor(t, "the store is closed", func() bool { return len(pooled[*pooledStore](storePool)) == 0 })
	after := s.scrape()
	if got := after["store_evictions_total"] - before["store_evictions_total"]; got != evicted || after["store_files"] != 0 {
		t.Errorf("after the store is closed: %v evictions and %v files, want %v and 0", got, after["store_files"], evicted)
	}
}

// Whatever clients send, each label has a value of its own set.
func TestLabelValuesComeFromFixedSets(t *testing.T) {
	s := newSite(t, observed("", "class high {\n\theader X-Class high\n}"))
	for _, path := range []string{
		"/insecure/f:mp3/plain/local://speech.wav", "/insecure/f:exe/plain/local://speech.wav", "/%00/%ff", "/insecure/plain/x://y",
		"/insecure/f:mp3/t:0:1/br:17/plain/local://speech.wav", "/health/../ready", "/insecure/info/f:mp3/plain/local://speech.wav",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "OPTIONS", "X"} {
			s.do(t.Context(), method, fmt.Sprintf("http://localhost:%d%s", s.port, path), "Range", "bytes=999999999-")
		}
	}
	formats, classes := "", ""
	for _, f := range urlapi.Formats() {
		formats += string(f) + "|"
	}
	for _, c := range admission.Classes() {
		classes += c.String() + "|"
	}
	allowed := map[string]string{
		"format": formats, "class": classes, "cache": "hit|miss|coalesced",
		"outcome": strings.Join(outcomes(), "|") + "|hit|miss|coalesced",
		"reason":  "full|displaced|timeout|shutdown", "endpoint": "variant|info|health|ready|other", "state": "held|capacity",
		"status": "200|204|206|304|401|404|410|412|413|415|416|422|429|499|500|502|503|504|passed",
	}
	for name := range s.scrape() {
		_, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if labels == "" {
			continue
		}
		for label := range strings.SplitSeq(labels, ",") {
			label, value, _ := strings.Cut(label, "=")
			if !strings.Contains("|"+allowed[label]+"|", "|"+value+"|") {
				t.Errorf("%s: %s is none of %s", name, label, allowed[label])
			}
		}
	}
}

// registered gathers the metrics as a registry of Caddy's would.
func registered(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for range 2 { // Caddy's apps and its admin endpoint register them each
		if err := measured.register(registry); err != nil {
			t.Fatal(err)
		}
	}
	// Vectors are there with their first value only.
	measured.firstByte.WithLabelValues("mp3", "hit")
	measured.renderDuration.WithLabelValues("mp3", "complete")
	measured.requests.WithLabelValues("variant", "200")
	holdEngine(admission.Limits{}, admission.Limits{Slots: 1})
	defer releaseEngine()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestMetricsAreThoseOfTheContractAndPleaseTheLinter(t *testing.T) {
	families := registered(t)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var got []string
	for _, f := range families {
		got = append(got, strings.TrimPrefix(f.GetName(), "caddy_audio_proxy_"))
	}
	want := "cache_lookups_total first_byte_seconds leases_leaked_total panics_total probes_total queue_capacity queue_depth queue_rejections_total " +
		"queue_wait_seconds render_duration_seconds renders_running renders_total requests_total slots store_bytes store_evictions_total " +
		"store_files store_held_bytes store_read_failures_total store_write_failures_total"
	if strings.Join(got, " ") != want {
		t.Errorf("exported: %s\nwant:     %s", strings.Join(got, " "), want)
	}
}

// Every metric that the dashboard and the alerts use is exported.
func TestDashboardAndAlertsUseMetricsThatExist(t *testing.T) {
	exported := make(map[string]bool)
	for _, f := range registered(t) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			exported[f.GetName()+suffix] = suffix == "" || f.GetType() == dto.MetricType_HISTOGRAM
		}
	}
	for _, file := range []string{"docs/grafana-dashboard.json", "docs/alerts.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		used := regexp.MustCompile(`caddy_audio_proxy_\w+`).FindAllString(string(text), -1)
		if len(used) < 4 {
			t.Errorf("%s uses %d metrics", file, len(used))
		}
		for _, name := range used {
			if !exported[name] {
				t.Errorf("%s uses %s, which is not exported", file, name)
			}
		}
	}
}

func TestForgottenSlotIsCounted(t *testing.T) {
	before := dtoCounter(measured.leaked)
	measured.observe(admission.Event{Kind: admission.EventLeaked})
	if got := dtoCounter(measured.leaked) - before; got != 1 {
		t.Errorf("counted %v, want 1", got)
	}
}

func dtoCounter(c prometheus.Counter) float64 {
	m := new(dto.Metric)
	if err := c.Write(m); err != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}
