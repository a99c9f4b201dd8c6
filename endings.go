package audioproxy

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// ending is one way for a request, a render or a probe to end. The table below is the one place that says what an
// error is called, what a client is told, how long that may be cached, and what is remembered of it.
type ending struct {
	name        string           // the outcome in metrics, logs and the admin API; "" where only requests end so
	is          func(error) bool // recognizes the errors that end so; nil: whoever refuses names the ending
	status      int              // of the HTTP answer
	code        string           // the same for programs: the URL contract's
	message     string           // the same for people, naming the setting that would change it
	keep        time.Duration    // how long the answer may be cached; never is not at all
	level       zapcore.Level    // of the log line of a render or probe that ended so; requests below 500 are at debug
	ofTheSource bool             // a permanent property of the source: remembered for as long as it stays what it is
}

// How long an answer may be cached: a source may be uploaded any moment, while a signature will not become right.
const (
	never   = time.Duration(-1)
	moment  = 10 * time.Second
	minute  = time.Minute
	forever = 31536000 * time.Second
)

// Endings that are named where they happen.
var (
	endComplete     = &ending{name: "complete", status: http.StatusOK, keep: never, level: zap.InfoLevel}
	endSignature    = &ending{status: http.StatusUnauthorized, code: "invalid_signature", keep: minute, message: "The signature does not fit this URL and the site's keys (setting: key)."}
	endExpired      = &ending{status: http.StatusGone, code: "expired", keep: forever, message: "The URL has expired (option: exp)."}
	endSourceSize   = &ending{status: http.StatusRequestEntityTooLarge, code: "source_too_large", keep: moment, message: "The source is larger than allowed (setting: max_source_size)."}
	endRange        = &ending{status: http.StatusRequestedRangeNotSatisfiable, code: "range_not_satisfiable", keep: never, message: "The range lies beyond the end of the variant."}
	endPrecondition = &ending{status: http.StatusPreconditionFailed, code: "precondition_failed", keep: never, message: "The variant is not the one that the request's conditions ask for."}
	endStoreClosed  = &ending{status: http.StatusBadGateway, code: "upstream_unavailable", keep: never, message: "The store of variants could not be opened (setting: store)."}
	endFailed       = &ending{name: "failed", status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.WarnLevel, message: "The render failed; the server's log says why."}
)

// endings are all that an error can stand for, in the order in which they are tried: what is wrong with the machine
// or with us before what is wrong with a source.
var endings = []*ending{
	{name: "panic", is: isPanic, status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.ErrorLevel,
		message: "The render failed because of a bug; the server's log says where."},
	{name: "refused", is: matching(admission.ErrShutdown, coalesce.ErrClosed), status: http.StatusServiceUnavailable, code: "shutting_down", keep: never, level: zap.DebugLevel,
		message: "The server is shutting down."},
	{name: "refused", is: matching(admission.ErrDisplaced), status: http.StatusTooManyRequests, code: "queue_full", keep: never, level: zap.DebugLevel,
		message: "More important renders took the place in the queue (settings: queue, class)."},
	{name: "refused", is: matching(admission.ErrTimeout), status: http.StatusTooManyRequests, code: "queue_full", keep: never, level: zap.DebugLevel,
		message: "No slot became free in time (settings: slots, probes, render_timeout)."},
	{name: "refused", is: matching(admission.ErrFull), status: http.StatusTooManyRequests, code: "queue_full", keep: never, level: zap.DebugLevel,
		message: "All slots are taken and the queue is full (settings: slots, probes, queue)."},
	{name: "cancelled", is: anyOf(matching(coalesce.ErrCancelled, context.Canceled), ofClass(ffmpeg.Cancelled)), status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.DebugLevel,
		message: "The render was cancelled."},
	{name: "letgo", is: matching(store.ErrLetGo), status: http.StatusServiceUnavailable, code: "overloaded", keep: never, level: zap.DebugLevel,
		message: "The listener stood still, and the room that the variant took was needed (setting: max_size)."},
	{name: "timeout", is: matching(errProbeTimeout), status: http.StatusGatewayTimeout, code: "probe_timeout", keep: never, level: zap.WarnLevel,
		message: "The source could not be examined in time (setting: probe_timeout)."},
	{name: "timeout", is: anyOf(matching(coalesce.ErrTimeout), ofClass(ffmpeg.Timeout)), status: http.StatusGatewayTimeout, code: "render_timeout", keep: never, level: zap.WarnLevel,
		message: "The render took too long (setting: render_timeout)."},
	{name: "toolarge", is: anyOf(matching(coalesce.ErrTooLarge), ofClass(ffmpeg.TooLarge)), status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.WarnLevel,
		message: "The variant is larger than allowed (setting: max_variant_size)."},
	{name: "nospace", is: anyOf(matching(coalesce.ErrNoSpace), ofClass(ffmpeg.NoSpace)), status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.WarnLevel,
		message: "The disk is full (setting: store)."},
	{name: "exhausted", is: isExhausted, status: http.StatusServiceUnavailable, code: "overloaded", keep: never, level: zap.ErrorLevel,
		message: "The server has run out of processes, threads or file descriptors (limits of its service: LimitNPROC, TasksMax, LimitNOFILE)."},
	{name: "failed", is: matching(ffmpeg.ErrNotRunnable), status: http.StatusInternalServerError, code: "not_configured", keep: never, level: zap.ErrorLevel,
		message: "ffmpeg cannot be run (settings: ffmpeg, ffprobe)."},
	{name: "changed", is: matching(source.ErrChanged), status: http.StatusInternalServerError, code: "render_failed", keep: never, level: zap.WarnLevel,
		message: "The source was written to while it was read."},
	{name: "unavailable", is: anyOf(matching(source.ErrUnavailable), ofClass(ffmpeg.Unavailable)), status: http.StatusBadGateway, code: "upstream_unavailable", keep: never, level: zap.WarnLevel,
		message: "The place where the source is kept could not be read."},
	{name: "video", is: ofClass(ffmpeg.VideoSource), status: http.StatusUnsupportedMediaType, code: "video_source", keep: moment, level: zap.WarnLevel, ofTheSource: true,
		message: "The source is a video; only audio is served."},
	{name: "undecodable", is: ofClass(ffmpeg.Undecodable), status: http.StatusUnsupportedMediaType, code: "undecodable_source", keep: moment, level: zap.WarnLevel, ofTheSource: true,
		message: "The source holds no audio that can be decoded."},
	{name: "noaudio", is: ofClass(ffmpeg.NoSound), status: http.StatusUnsupportedMediaType, code: "undecodable_source", keep: moment, level: zap.WarnLevel, ofTheSource: true,
		message: "The source holds no audio that can be decoded."},
	{name: "invalid", is: isInvalid, status: http.StatusUnprocessableEntity, code: "invalid_options", keep: minute, level: zap.DebugLevel},
	{name: "notfound", is: anyOf(matching(source.ErrNotFound), ofClass(ffmpeg.NotFound), isRefusedSource), status: http.StatusNotFound, code: "not_found", keep: moment, level: zap.DebugLevel,
		message: "There is nothing here."},
	{name: "failed", is: isProbeError, status: http.StatusInternalServerError, code: "probe_failed", keep: never, level: zap.WarnLevel,
		message: "The source could not be examined; the server's log says why."},
	endFailed,
}

// outcomes are the names of all endings that a render or a probe can have, for metrics that begin at zero.
func outcomes() []string {
	names := []string{endComplete.name}
	known := map[string]bool{}
	for _, e := range endings {
		if !known[e.name] {
			known[e.name] = true
			names = append(names, e.name)
		}
	}
	return names
}

// endingOf says how something ended. It is never nil.
func endingOf(err error) *ending {
	if err == nil {
		return endComplete
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.ending
	}
	for _, e := range endings {
		if e.is != nil && e.is(err) {
			return e
		}
	}
	return endFailed
}

// refuse makes an answer of the ending. err is what was behind it, for the log.
func (e *ending) refuse(err error) *refusal { return &refusal{ending: e, keep: e.keep, err: err} }

func matching(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func anyOf(conditions ...func(error) bool) func(error) bool {
	return func(err error) bool {
		for _, holds := range conditions {
			if holds(err) {
				return true
			}
		}
		return false
	}
}

func ofClass(class ffmpeg.Class) func(error) bool {
	return func(err error) bool {
		f, ok := errors.AsType[*ffmpeg.Error](err)
		return ok && f.Class == class
	}
}

func isPanic(err error) bool {
	_, ok := errors.AsType[*guard.Panic](err)
	return ok
}

// isExhausted recognizes what the kernel says when it has no more processes, threads, descriptors or memory for us.
func isExhausted(err error) bool {
	return matching(syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM)(err) || ofClass(ffmpeg.Exhausted)(err)
}

func isInvalid(err error) bool {
	_, unsupported := errors.AsType[*ffmpeg.Unsupported](err)
	_, option := errors.AsType[*urlapi.OptionError](err)
	_, nothing := errors.AsType[*emptyTrim](err)
	return unsupported || option || nothing
}

func isRefusedSource(err error) bool {
	_, ok := errors.AsType[*urlapi.SourceError](err)
	return ok
}

func isProbeError(err error) bool {
	_, ok := errors.AsType[*probeError](err)
	return ok
}
