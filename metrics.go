package audioproxy

import (
	"errors"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// measured is what the process has counted. Counters go on across config loads, and also where the last
// audio_proxy leaves the config and comes back; a registry of Caddy's lasts for one load only.
var measured = newMetrics()

// metrics are the collectors that every config's registry gets. Their labels have values from fixed sets only,
// whatever clients send.
type metrics struct {
	renders        *prometheus.CounterVec
	renderDuration *prometheus.HistogramVec
	firstByte      *prometheus.HistogramVec
	queueWait      *prometheus.HistogramVec
	rejections     *prometheus.CounterVec
	requests       *prometheus.CounterVec
	lookups        *prometheus.CounterVec
	probes         *prometheus.CounterVec
	leaked         prometheus.Counter
	panics         prometheus.Counter

	mu     sync.Mutex
	stores map[*pooledStore]bool
	closed store.Stats // what stores that are closed by now had counted
}

// Upper bounds of histograms, in seconds: a stored variant takes a millisecond, a render up to its timeout of
// five minutes.
var (
	renderBuckets    = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	firstByteBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	waitBuckets      = []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
)

func newMetrics() *metrics {
	m := &metrics{
		renders: counters("renders_total",
			"Renders that have ended, by how.", "format", "outcome"),
		renderDuration: histograms("render_duration_seconds",
			"How long the encoder ran.", renderBuckets, "format", "outcome"),
		firstByte: histograms("first_byte_seconds",
			"From a request's arrival to the first byte of its variant.", firstByteBuckets, "format", "cache"),
		queueWait: histograms("queue_wait_seconds",
			"How long those waited who got a render slot, 0 for those who got it at once.", waitBuckets, "class"),
		rejections: counters("queue_rejections_total",
			"Renders that were sent away by the budget, by why.", "class", "reason"),
		requests: counters("requests_total",
			"Answered requests, by the status they got; \"passed\" are those that the next handler got.", "endpoint", "status"),
		lookups: counters("cache_lookups_total",
			"Requests for variants, by whether it was stored, had to be rendered, or was being rendered.", "format", "outcome"),
		probes: counters("probes_total",
			"Sources that were examined, by how that ended.", "outcome"),
		leaked: counter("leases_leaked_total", "Render slots that were forgotten and found again: each is a bug."),
		panics: counter("panics_total", "Panics that cost one render, probe or sweep and no more: each is a bug."),
		stores: make(map[*pooledStore]bool),
	}
	m.beginAtZero()
	return m
}

const namespace, subsystem = "caddy", "audio_proxy"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
	}, labels)
}

// beginAtZero makes the counters that alerts look at exist before they first count: a rate over something that
// has just appeared is nothing.
func (m *metrics) beginAtZero() {
	for _, class := range admission.Classes() {
		m.queueWait.WithLabelValues(class.String())
		for _, reason := range []admission.Reason{admission.Full, admission.Displaced, admission.Timeout, admission.Shutdown} {
			m.rejections.WithLabelValues(class.String(), reason.String())
		}
	}
	for _, format := range urlapi.Formats() {
		for _, outcome := range outcomes() {
			m.renders.WithLabelValues(string(format), outcome)
		}
		for _, outcome := range []string{cacheHit, cacheMiss, cacheCoalesced} {
			m.lookups.WithLabelValues(string(format), strings.ToLower(outcome))
		}
	}
	for _, outcome := range outcomes() {
		m.probes.WithLabelValues(outcome)
	}
}

// register puts the collectors into a config's registry.
func (m *metrics) register(registry *prometheus.Registry) error {
	if registry == nil {
		return nil // a context that no config was loaded with, in a test
	}
	for _, c := range []prometheus.Collector{
		m.renders, m.renderDuration, m.firstByte, m.queueWait, m.rejections, m.requests, m.lookups, m.probes, m.leaked, m.panics,
		&readings{m},
	} {
		err := registry.Register(c)
		if _, known := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !known {
			return err
		}
	}
	return nil
}

// observe is told every event of the budget. It must not block, and it doesn't call the flights.
func (m *metrics) observe(e admission.Event) {
	class := e.Class.String()
	switch e.Kind {
	case admission.EventAcquired:
		m.queueWait.WithLabelValues(class).Observe(e.Wait.Seconds())
	case admission.EventRejected, admission.EventDisplaced:
		m.rejections.WithLabelValues(class, e.Reason.String()).Inc()
	case admission.EventLeaked:
		m.leaked.Inc()
		caddy.Log().Named("audio_proxy").Error("a render slot was forgotten, and found again: please report this",
			zap.String("class", class), zap.Duration("held", e.Hold))
	}
}

// panicked is told every panic that was recovered in a goroutine of ours.
func (m *metrics) panicked(p *guard.Panic) {
	m.panics.Inc()
	caddy.Log().Named("audio_proxy").Error("a panic cost one job, and no more: please report this",
		zap.Any("panic", p.Value), zap.ByteString("stack", p.Stack))
}

// rendered counts a flight that has ended. One that was sent away, or left before its turn, was no render.
func (m *metrics) rendered(format urlapi.Format, s coalesce.Summary) {
	outcome := endingOf(s.Err).name
	if s.Render == 0 && (outcome == "refused" || outcome == "cancelled") {
		return
	}
	m.renders.WithLabelValues(string(format), outcome).Inc()
	if s.Render > 0 {
		m.renderDuration.WithLabelValues(string(format), outcome).Observe(s.Render.Seconds())
	}
}

// probed counts a probe.
func (m *metrics) probed(err error) {
	m.probes.WithLabelValues(endingOf(err).name).Inc()
}

// follow adds a store that was opened to those whose totals are read.
func (m *metrics) follow(s *pooledStore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores[s] = true
}

// forget takes a store that was closed away. What it has counted stays counted.
func (m *metrics) forget(s *pooledStore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stores[s] {
		delete(m.stores, s)
		m.closed = addCounts(m.closed, s.Stats())
	}
}

func addCounts(a, b store.Stats) store.Stats {
	a.Evictions += b.Evictions
	a.WriteFailures += b.WriteFailures
	a.ReadFailures += b.ReadFailures
	return a
}

// totals are those of all stores: what the open ones hold, and what any has ever counted.
func (m *metrics) totals() store.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.closed
	for s := range m.stores {
		stats := s.Stats()
		total = addCounts(total, stats)
		total.Files += stats.Files
		total.Bytes += stats.Bytes
		total.HeldBytes += stats.HeldBytes
	}
	return total
}

// readings are the metrics that are read where they are known when somebody scrapes them, instead of being kept
// by counting events: those would drift.
type readings struct{ *metrics }

func reading(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
}

var (
	rendersRunning     = reading("renders_running", "Renders that run now.")
	slots              = reading("slots", "Render slots that are held now, and that there are.", "state")
	queueDepth         = reading("queue_depth", "Renders that wait for a slot now.", "class")
	queueCapacity      = reading("queue_capacity", "How many renders may wait.")
	storeBytes         = reading("store_bytes", "Size of what is stored.")
	storeFiles         = reading("store_files", "Variants that are stored.")
	storeHeldBytes     = reading("store_held_bytes", "Size of what is not stored, or no more, but still takes room since somebody reads it.")
	storeEvictions     = reading("store_evictions_total", "Variants that were given up to make room.")
	storeWriteFailures = reading("store_write_failures_total", "Variants that could not be stored.")
	storeReadFailures  = reading("store_read_failures_total", "Looks into the store that failed: the variant was rendered instead.")
)

// Describe implements prometheus.Collector.
func (r *readings) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		rendersRunning, slots, queueDepth, queueCapacity, storeBytes, storeFiles, storeHeldBytes, storeEvictions, storeWriteFailures, storeReadFailures,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (r *readings) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	total := r.totals()
	gauge(storeBytes, total.Bytes)
	gauge(storeFiles, total.Files)
	for d, value := range map[*prometheus.Desc]int64{
		storeEvictions: total.Evictions, storeWriteFailures: total.WriteFailures, storeReadFailures: total.ReadFailures,
	} {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	for _, e := range pooled[*engine](enginePool) { // one, or none
		total.HeldBytes += e.flights.Held()
		stats := e.budget.Stats()
		gauge(slots, int64(stats.Held), "held")
		gauge(slots, int64(stats.Slots), "capacity")
		gauge(queueCapacity, int64(stats.Queue))
		for _, class := range admission.Classes() {
			gauge(queueDepth, int64(stats.Depths[class]), class.String())
		}
		gauge(rendersRunning, int64(e.rendering()))
	}
	gauge(storeHeldBytes, total.HeldBytes)
}

// rendering is how many flights have an encoder now.
func (e *engine) rendering() (n int) {
	for _, f := range e.flights.Flights() {
		if f.Rendering {
			n++
		}
	}
	return n
}
