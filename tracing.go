package audioproxy

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

// tracerName is the name of our spans' instrumentation scope.
const tracerName = "github.com/caddy-audio-proxy/caddy-audio-proxy"

// origin is the span of the request, or none where the site is not traced. A render carries that of the request
// that started it: a value, by which nothing of the request can be touched.
func (o *outcome) origin() trace.SpanContext {
	if o == nil {
		return trace.SpanContext{} // a variant that is warmed has no request
	}
	return trace.SpanContextFromContext(o.request.Context())
}

// trace adds the render's spans to the request's, after the fact: from the request's own goroutine, with the
// times that the render noted. They are children of the request that started the render. One that joined it only
// links to that request.
func (o *outcome) trace() {
	parent := trace.SpanFromContext(o.request.Context())
	if o.listener == nil || !parent.IsRecording() {
		return
	}
	parent.SetAttributes(
		attribute.String("audio_proxy.cache", o.cache),
		attribute.String("audio_proxy.class", o.class()),
		attribute.String("audio_proxy.key", o.variant.id.Key),
		attribute.String("audio_proxy.options", o.options()),
		attribute.String("audio_proxy.outcome", o.ended),
	)
	j, ok := o.listener.Job().(*job)
	if ok && j.origin.IsValid() && !j.origin.Equal(parent.SpanContext()) {
		o.traceJoining(parent, j.origin)
		return
	}
	o.traceRender(parent, o.listener.Timeline())
}

func (o *outcome) traceRender(parent trace.Span, t coalesce.Timeline) {
	for _, stretch := range []struct {
		name string
		span
	}{
		{"audio_proxy.queue", span{t.Began, t.Slot}},
		{"audio_proxy.probe", span{t.PrepareBegan, t.PrepareEnded}},
		{"audio_proxy.render", span{t.RenderBegan, t.RenderEnded}},
	} {
		if !stretch.from.IsZero() {
			o.record(parent, stretch.name, stretch.span)
		}
	}
}

// traceJoining records how long the request had part in another one's render.
func (o *outcome) traceJoining(parent trace.Span, origin trace.SpanContext) {
	o.record(parent, "audio_proxy.join", span{from: o.arrived}, trace.WithLinks(trace.Link{SpanContext: origin}))
}

// record makes one child of the request's span. What goes on after the request has left is told until now.
func (o *outcome) record(parent trace.Span, name string, s span, options ...trace.SpanStartOption) {
	goesOn := s.to.IsZero()
	if goesOn {
		s.to = time.Now()
	}
	tracer := parent.TracerProvider().Tracer(tracerName)
	_, child := tracer.Start(o.request.Context(), name, append(options, trace.WithTimestamp(s.from))...)
	if o.broken != nil {
		child.SetStatus(codes.Error, endingOf(o.broken))
	}
	child.SetAttributes(attribute.Bool("audio_proxy.left_early", goesOn && o.cache == "miss"))
	child.End(trace.WithTimestamp(s.to))
}
