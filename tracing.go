package audioproxy

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
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
	j := o.listener.Job().(*job)
	if !j.origin.Equal(parent.SpanContext()) {
		o.traceJoining(parent, j.origin)
		return
	}
	o.traceRender(parent, j, o.listener.Timeline())
}

func (o *outcome) traceRender(parent trace.Span, j *job, t coalesce.Timeline) {
	o.record(parent, "audio_proxy.queue", span{t.Began, t.Slot})
	if need := ffmpeg.Needs(j.options); need.Facts || need.Length {
		o.record(parent, "audio_proxy.probe", span{t.PrepareBegan, t.PrepareEnded})
	}
	o.record(parent, "audio_proxy.render", span{t.RenderBegan, t.RenderEnded})
}

// traceJoining records how long the request had part in another one's render.
func (o *outcome) traceJoining(parent trace.Span, origin trace.SpanContext) {
	var link []trace.SpanStartOption
	if origin.IsValid() { // not where the other one is not traced, or is no request
		link = append(link, trace.WithLinks(trace.Link{SpanContext: origin}))
	}
	o.record(parent, "audio_proxy.join", span{o.arrived, time.Now()}, link...)
}

// record makes one child of the request's span, of what has begun. What goes on after the request has left is
// told until now.
func (o *outcome) record(parent trace.Span, name string, s span, options ...trace.SpanStartOption) {
	if s.from.IsZero() {
		return
	}
	goesOn := s.to.IsZero()
	if goesOn {
		s.to = time.Now()
	}
	tracer := parent.TracerProvider().Tracer(tracerName)
	_, child := tracer.Start(o.request.Context(), name, append(options, trace.WithTimestamp(s.from))...)
	if o.broken != nil {
		child.SetStatus(codes.Error, endingOf(o.broken).name)
	}
	child.SetAttributes(attribute.Bool("audio_proxy.goes_on", goesOn))
	child.End(trace.WithTimestamp(s.to))
}
