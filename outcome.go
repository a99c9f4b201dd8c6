package audioproxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// outcome is what a request leaves for others: placeholders, a field of the access log, metrics and spans. It is
// the response writer of the handler's steps, since that is where status and first byte pass. It belongs to the
// request's goroutine; a render knows nothing of it.
type outcome struct {
	caddyhttp.ResponseWriterWrapper
	request *http.Request
	arrived time.Time

	endpoint   string
	variant    *variant           // nil until the request has been read
	classified bool               // whether the variant's class is decided
	cache      string             // hit, miss or coalesced, once that is known
	listener   *coalesce.Listener // of the render that had to do with it, if any

	successor *outcome // of the next directive of the site, once this one has passed the request on

	status    int
	firstByte time.Duration // from arrived to the header of the answer
	ended     string        // how, in a word
	broken    error         // why the answer was broken off
}

// Endpoints, as metrics name them.
const (
	endpointVariant = "variant"
	endpointInfo    = "info"
	endpointHealth  = "health"
	endpointReady   = "ready"
	endpointOther   = "other" // preflights, and paths that lead nowhere
)

// How requests end, besides the codes of refusals.
const (
	outcomeComplete   = "complete"
	outcomePassed     = "passed"      // to the next handler
	outcomeBrokenOff  = "broken_off"  // after the first byte: the access log says 200
	outcomeClientGone = "client_gone" // before the end of the answer
	outcomeFailed     = "failed"      // a bug
)

// watch begins to note what becomes of a request.
func watch(w http.ResponseWriter, r *http.Request) *outcome {
	o := &outcome{request: r, arrived: time.Now(), endpoint: endpointOther, ended: outcomeFailed}
	o.ResponseWriter = w
	if previous, ok := caddyhttp.GetVar(r.Context(), outcomeVar).(*outcome); ok {
		previous.successor = o
	}
	caddyhttp.SetVar(r.Context(), outcomeVar, o)
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(o.placeholder)
	}
	return o
}

// outcomeVar is the request variable in which a directive finds the one that passed the request on to it.
const outcomeVar = "audio_proxy.outcome"

// WriteHeader notes the status, and that this is the moment of the first byte.
func (o *outcome) WriteHeader(status int) {
	if o.status == 0 {
		o.status, o.firstByte = status, time.Since(o.arrived)
	}
	o.ResponseWriter.WriteHeader(status)
}

// leadsTo notes where the request's path leads.
func (o *outcome) leadsTo(kind targetKind) {
	switch kind {
	case variantTarget, fixedTarget:
		o.endpoint = endpointVariant
	case healthTarget:
		o.endpoint = endpointHealth
	case readyTarget:
		o.endpoint = endpointReady
	}
}

// reads notes what the request asks for.
func (o *outcome) reads(v *variant) {
	o.variant, v.outcome = v, o
	if v.info {
		o.endpoint = endpointInfo
	}
}

// cameBy notes how the variant was come by. A variant that is warmed has no request.
func (o *outcome) cameBy(cache string) {
	if o != nil {
		o.cache = strings.ToLower(cache)
	}
}

// follows notes whose render the request follows. The listener may be closed by the time its times are read.
func (o *outcome) follows(l *coalesce.Listener, cache string) {
	o.listener = l
	o.cameBy(cache)
}

// brokenOff notes that an answer ends without its end, and whose doing that is: once the connection is closed, the
// request's context would say that it was the client's.
func brokenOff(w http.ResponseWriter, r *http.Request, err error) {
	o, ok := w.(*outcome)
	if !ok {
		return
	}
	o.broken, o.ended = err, outcomeBrokenOff
	if r.Context().Err() != nil {
		o.ended = outcomeClientGone
	}
}

// end tells everybody. It runs even where the answer was broken off, by a panic. Metrics count every directive that had
// the request; log and trace are about the last one, which answered.
func (o *outcome) end() {
	o.count()
	if o.variant == nil || o.successor != nil {
		return
	}
	if extra, ok := o.request.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Object("audio_proxy", o))
	}
	o.trace()
}

func (o *outcome) count() {
	status := outcomePassed
	if o.ended != outcomePassed {
		status = strconv.Itoa(o.statusCode())
	}
	measured.requests.WithLabelValues(o.endpoint, status).Inc()
	if o.variant == nil || o.cache == "" || o.request.Method != http.MethodGet {
		return
	}
	format := string(o.variant.options.Format)
	measured.lookups.WithLabelValues(format, o.cache).Inc()
	if o.status == http.StatusOK || o.status == http.StatusPartialContent {
		measured.firstByte.WithLabelValues(format, o.cache).Observe(o.firstByte.Seconds())
	}
}

// statusCode is the status of the answer, whoever has written or will write it.
func (o *outcome) statusCode() int {
	switch {
	case o.status != 0:
		return o.status
	case o.ended == outcomeComplete:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// refused notes the answer to a request that gets no variant.
func (o *outcome) refused(answer *refusal) { o.ended, o.status = answer.code, answer.status }

// placeholder fills in {http.audio_proxy.*}, with what is known when it is asked for. The first directive of a site is
// asked, whichever answered.
func (o *outcome) placeholder(name string) (any, bool) {
	name, ours := strings.CutPrefix(name, "http.audio_proxy.")
	if !ours {
		return nil, false
	}
	for o.successor != nil {
		o = o.successor
	}
	v := o.variant
	if v == nil {
		v = new(variant)
	}
	switch name {
	case "cache":
		return o.cache, true
	case "class":
		return o.class(), true
	case "key":
		return v.id.Key, true
	case "source":
		return loggable(v.source), true
	case "options":
		return o.options(), true
	case "queue_wait":
		wait, _ := o.times()
		return wait, true
	case "render_time":
		_, render := o.times()
		return render, true
	}
	return nil, false
}

func (o *outcome) class() string {
	if !o.classified {
		return ""
	}
	return o.variant.class.String()
}

func (o *outcome) options() string {
	if o.variant == nil || o.variant.info {
		return ""
	}
	return o.variant.options.Canonical()
}

// times are how long the render waited for its slot, and how long it took, so far or altogether. Both are 0 for
// what was stored.
func (o *outcome) times() (wait, render time.Duration) {
	if o.listener == nil {
		return 0, 0
	}
	return spent(o.listener.Timeline())
}

func spent(t coalesce.Timeline) (wait, render time.Duration) {
	return span{t.Began, t.Slot}.length(), span{t.RenderBegan, t.RenderEnded}.length()
}

// span is a stretch of time. One that has not ended goes on.
type span struct{ from, to time.Time }

func (s span) length() time.Duration {
	switch {
	case s.from.IsZero():
		return 0
	case s.to.IsZero():
		return time.Since(s.from)
	}
	return s.to.Sub(s.from)
}

// MarshalLogObject writes the access log's field.
func (o *outcome) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("outcome", o.ended)
	if o.broken != nil {
		enc.AddString("broken_by", endingOf(o.broken).name)
	}
	for _, field := range []struct{ name, value string }{
		{"cache", o.cache},
		{"class", o.class()},
		{"key", o.variant.id.Key},
		{"source", loggable(o.variant.source)},
		{"options", o.options()},
	} {
		if field.value != "" {
			enc.AddString(field.name, field.value)
		}
	}
	if o.listener != nil {
		wait, render := o.times()
		enc.AddDuration("queue_wait", wait)
		enc.AddDuration("render_time", render)
	}
	return nil
}

// loggable is a source as logs and the admin API may have it: without a query, which of a remote source may hold a
// token. Nothing that could redraw a terminal gets this far: no source is read that has control characters in it.
func loggable(s urlapi.Source) string {
	text := s.String()
	if s.Scheme == urlapi.SchemeHTTPS {
		if before, _, found := strings.Cut(text, "?"); found {
			return before + "?…"
		}
	}
	return text
}

// uriField is what a log may have of a request's URI: all but its signature, which is as good as a password for
// this one variant, and its query, which is none of ours.
func (h *Handler) uriField(r *http.Request) zap.Field {
	uri, _, _ := strings.Cut(r.RequestURI, "?")
	signature, _, ok := urlapi.Split(escapedPath(r))
	if ok && h.fixed == nil && signature != "" && signature != urlapi.Insecure {
		uri = strings.Replace(uri, "/"+signature+"/", "/REDACTED/", 1)
	}
	return zap.String("uri", uri)
}

// endsWell notes that the answer is complete, or was none of a variant but is one all the same.
func (o *outcome) endsWell() { o.ended = outcomeComplete }

// isGone notes that nobody was there any more to be answered.
func (o *outcome) isGone() { o.ended, o.status = outcomeClientGone, statusClientGone }

// passes notes that the next handler has the request.
func (o *outcome) passes() { o.ended = outcomePassed }

// Interface guards
var (
	_ http.ResponseWriter     = (*outcome)(nil)
	_ zapcore.ObjectMarshaler = (*outcome)(nil)
)
