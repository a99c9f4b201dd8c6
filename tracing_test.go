package audioproxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tracer collects the spans that Caddy's tracing exports.
type tracer struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (c *tracer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}

func (c *tracer) Shutdown(context.Context) error { return nil }

var traced = new(tracer)

func init() {
	autoexport.RegisterSpanExporter("test", func(context.Context) (sdktrace.SpanExporter, error) { return traced, nil })
}

// requests are the spans of requests by what they say of the cache, and the children of each by name.
func (c *tracer) requests() map[string]map[string]sdktrace.ReadOnlySpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]map[string]sdktrace.ReadOnlySpan)
	for _, request := range c.spans {
		for _, attribute := range request.Attributes() {
			if attribute.Key != "audio_proxy.cache" {
				continue
			}
			family := map[string]sdktrace.ReadOnlySpan{"": request}
			for _, child := range c.spans {
				if child.Parent().SpanID() == request.SpanContext().SpanID() {
					family[child.Name()] = child
				}
			}
			found[attribute.Value.AsString()] = family
		}
	}
	return found
}

func TestSpansOfARenderBelongToWhoStartedIt(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "test")
	ffmpeg, open := gated(t)
	untraced := simple("slots 1\nffmpeg "+ffmpeg.path, "")
	s := newSite(t, strings.Replace(untraced, "\taudio_proxy {\n\t\tsource", "\ttracing\n\taudio_proxy {\n\t\tsource", 1))
	url := s.url("f:flac/t:0:1", "speech.wav") // whose bit depth is the source's
	starts := s.started(url)
	waitFor(t, "a render holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	joins := s.started(url)
	waitFor(t, "another one joins it", func() bool { return theEngine(t).flights.Flights()[0].Listeners == 2 })
	open()
	for _, c := range []<-chan answer{starts, joins} {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("got %d", a.status)
		}
	}

	s.load(untraced) // exports what there is

	requests := traced.requests()
	miss, coalesced := requests["miss"], requests["coalesced"]
	for _, name := range []string{"audio_proxy.queue", "audio_proxy.probe", "audio_proxy.render"} {
		child := miss[name]
		if child == nil {
			t.Fatalf("who started the render has no span %s: %v", name, miss)
		}
		if child.StartTime().Before(miss[""].StartTime()) || child.EndTime().After(miss[""].EndTime()) || child.EndTime().Before(child.StartTime()) {
			t.Errorf("%s is from %v to %v, the request from %v to %v", name,
				child.StartTime(), child.EndTime(), miss[""].StartTime(), miss[""].EndTime())
		}
	}
	if render := miss["audio_proxy.render"]; render.StartTime().Before(miss["audio_proxy.queue"].EndTime()) {
		t.Error("the render begins before its wait is over")
	}
	join := coalesced["audio_proxy.join"]
	if join == nil || len(coalesced) != 2 {
		t.Fatalf("who joined has the spans %v, want one of its own", coalesced)
	}
	links := join.Links()
	if len(links) != 1 || links[0].SpanContext.SpanID() != miss[""].SpanContext().SpanID() {
		t.Errorf("who joined links to %v, want the request that started the render", links)
	}
}
