package audioproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// refusal is an answer other than the variant. The code is the contract, the message is for people.
type refusal struct {
	status  int
	code    string
	message string
	cache   string // Cache-Control

	retryAfter time.Duration // 0 = no such header
	size       int64         // for 416
	err        error         // what was behind it, for the log
}

func (e *refusal) Error() string {
	if e.err != nil {
		return e.code + ": " + e.err.Error()
	}
	return e.code
}

func (e *refusal) Unwrap() error { return e.err }

// What may be cached of a refusal, and for how long: a source may be uploaded any moment, a signature will not
// become right.
const (
	cacheNever   = "no-store"
	cacheMoment  = "max-age=10"
	cacheMinute  = "max-age=60"
	cacheForever = "public, max-age=31536000, immutable"
)

func newRefusal(status int, code, cache, message string, err error) *refusal {
	return &refusal{status: status, code: code, message: message, cache: cache, err: err}
}

func errNotFound(err error) *refusal {
	return newRefusal(http.StatusNotFound, "not_found", cacheMoment, "There is nothing here.", err)
}

func errSignature() *refusal {
	return newRefusal(http.StatusUnauthorized, "invalid_signature", cacheMinute,
		"The signature does not fit this URL and the site's keys (setting: key).", nil)
}

func errExpired() *refusal {
	return newRefusal(http.StatusGone, "expired", cacheForever, "The URL has expired (option: exp).", nil)
}

func errSourceTooLarge(size, limit int64) *refusal {
	return newRefusal(http.StatusRequestEntityTooLarge, "source_too_large", cacheMoment,
		fmt.Sprintf("The source has %d bytes, the limit is %d (setting: max_source_size).", size, limit), nil)
}

func errRange(size int64) *refusal {
	r := newRefusal(http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", cacheNever,
		"The range lies beyond the end of the variant.", nil)
	r.size = size
	return r
}

func errPrecondition() *refusal {
	return newRefusal(http.StatusPreconditionFailed, "precondition_failed", cacheNever,
		"The variant is not the one that the request's conditions ask for.", nil)
}

func errOptions(err error) *refusal {
	return newRefusal(http.StatusUnprocessableEntity, "invalid_options", cacheMinute, err.Error(), err)
}

// refusalOf finds the answer to an error. It is the one place where errors become statuses.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return admissionRefusal(r)
	}
	switch {
	case errors.Is(err, ffmpeg.ErrNotRunnable):
		return newRefusal(http.StatusInternalServerError, "not_configured", cacheNever,
			"ffmpeg cannot be run (settings: ffmpeg, ffprobe).", err)
	case errors.Is(err, errProbeTimeout):
		return newRefusal(http.StatusGatewayTimeout, "probe_timeout", cacheNever,
			"The source could not be examined in time (setting: probe_timeout).", err)
	case errors.Is(err, errProbesBusy):
		r := newRefusal(http.StatusTooManyRequests, "queue_full", cacheNever,
			"Too many sources are being examined (setting: probes).", err)
		r.retryAfter = time.Second
		return r
	}
	if f, ok := errors.AsType[*ffmpeg.Error](err); ok {
		return ffmpegRefusal(f)
	}
	if u, ok := errors.AsType[*ffmpeg.Unsupported](err); ok {
		return errOptions(u)
	}
	if o, ok := errors.AsType[*urlapi.OptionError](err); ok {
		return errOptions(o)
	}
	if _, ok := errors.AsType[*urlapi.SourceError](err); ok {
		return errNotFound(err)
	}
	switch {
	case errors.Is(err, source.ErrNotFound):
		return errNotFound(err)
	case errors.Is(err, source.ErrUnavailable):
		return newRefusal(http.StatusBadGateway, "upstream_unavailable", cacheNever,
			"The place where the source is kept could not be reached.", err)
	case errors.Is(err, coalesce.ErrTimeout):
		return newRefusal(http.StatusGatewayTimeout, "render_timeout", cacheNever,
			"The render took too long (setting: render_timeout).", err)
	case errors.Is(err, coalesce.ErrClosed):
		return shuttingDown(time.Second, err)
	case errors.Is(err, coalesce.ErrTooLarge):
		return renderFailed("The variant is larger than allowed (setting: max_variant_size).", err)
	}
	return renderFailed("The render failed; the server's log says why.", err)
}

func renderFailed(message string, err error) *refusal {
	return newRefusal(http.StatusInternalServerError, "render_failed", cacheNever, message, err)
}

// probeFailed names a failure of ffprobe's own. One that is the source's is left as it is.
func probeFailed(err error) error {
	failure, ok := errors.AsType[*ffmpeg.Error](err)
	if !ok || failure.Class != ffmpeg.Failed || errors.Is(err, ffmpeg.ErrNotRunnable) || errors.Is(err, errProbeTimeout) {
		return err
	}
	return newRefusal(http.StatusInternalServerError, "probe_failed", cacheNever,
		"The source could not be examined; the server's log says why.", err)
}

// cutLifetime cuts how long an error may be cached to what its URL has left, as every lifetime in an answer is.
func cutLifetime(err error, expires int64, now time.Time) error {
	if err == nil || expires == 0 {
		return err
	}
	answer := *refusalOf(err)
	if seconds, err := strconv.Atoi(strings.TrimPrefix(answer.cache, "max-age=")); err == nil {
		left := urlapi.ClampLifetime(time.Duration(seconds)*time.Second, expires, now)
		answer.cache = "max-age=" + strconv.Itoa(int(left/time.Second))
	}
	return &answer
}

func admissionRefusal(a *admission.Refusal) *refusal {
	r := newRefusal(http.StatusTooManyRequests, "queue_full", cacheNever, "", a)
	switch {
	case errors.Is(a, admission.ErrShutdown):
		return shuttingDown(a.RetryAfter, a)
	case errors.Is(a, admission.ErrDisplaced):
		r.message = "More important renders took the place in the queue (settings: queue, class)."
	case errors.Is(a, admission.ErrTimeout):
		r.message = "No render slot became free in time (settings: slots, render_timeout)."
	default:
		r.message = "All render slots are taken and the queue is full (settings: slots, queue)."
	}
	r.retryAfter = a.RetryAfter
	return r
}

func shuttingDown(retryAfter time.Duration, err error) *refusal {
	r := newRefusal(http.StatusServiceUnavailable, "shutting_down", cacheNever, "The server is shutting down.", err)
	r.retryAfter = retryAfter
	return r
}

func ffmpegRefusal(f *ffmpeg.Error) *refusal {
	switch f.Class {
	case ffmpeg.NotFound:
		return errNotFound(f)
	case ffmpeg.VideoSource:
		return newRefusal(http.StatusUnsupportedMediaType, "video_source", cacheMoment,
			"The source is a video; only audio is served.", f)
	case ffmpeg.Undecodable, ffmpeg.NoSound:
		return newRefusal(http.StatusUnsupportedMediaType, "undecodable_source", cacheMoment,
			"The source holds no audio that can be decoded.", f)
	}
	return renderFailed("The render failed; the server's log says why.", f)
}

// refuse answers with a refusal: in JSON, or through Caddy's own error routes where the site wants that.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, answer *refusal) error {
	h.logRefusal(r, answer)
	answer.setHeader(w.Header())
	if h.Errors == errorsCaddy {
		return caddyhttp.Error(answer.status, publicError{answer})
	}
	body, err := json.Marshal(map[string]string{"error": answer.code, "message": answer.message})
	if err != nil {
		return err
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone by now needs no answer
	}
	return nil
}

// publicError is a refusal as an error route may show it, with {err.message}: the code and the message. What was
// behind it is for the log, since it would tell a source that is not allowed from one that is not there.
type publicError struct{ refusal *refusal }

func (e publicError) Error() string { return e.refusal.code + ": " + e.refusal.message }

func (e publicError) Unwrap() error { return e.refusal }

// setHeader sets what a refusal says whoever renders it, and takes back what was meant for the variant.
func (e *refusal) setHeader(header http.Header) {
	for _, name := range []string{
		"Accept-Ranges", "Cache-Status", "Content-Disposition", "Content-Length", "Content-Type", "ETag",
		"Last-Modified", "Server-Timing", "X-Audio-Proxy",
	} {
		header.Del(name)
	}
	header.Set("Cache-Control", e.cache)
	if e.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retryAfter.Seconds()))))
	}
	if e.status == http.StatusRequestedRangeNotSatisfiable {
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", e.size))
	}
}

// statusClientGone is what logs call a client that did not wait for the answer; reverse_proxy uses it too.
const statusClientGone = 499

// logRefusal notes why a request was not answered with a variant. That it was not is in the access log already.
func (h *Handler) logRefusal(r *http.Request, answer *refusal) {
	level := zap.DebugLevel
	if answer.status >= http.StatusInternalServerError {
		level = zap.ErrorLevel
	}
	if c := h.logger.Check(level, "request refused"); c != nil {
		c.Write(h.uriField(r), zap.Int("status", answer.status),
			zap.String("code", answer.code), zap.Error(answer.err))
	}
}
