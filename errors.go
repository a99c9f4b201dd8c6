package audioproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// refusal is an answer other than the variant: an ending, and what there is to say of this one.
type refusal struct {
	*ending

	text       string        // in place of the ending's message
	keep       time.Duration // the ending's, cut to what the URL has left
	retryAfter time.Duration // 0 = no such header
	size       int64         // for 416
	err        error         // what was behind it, for the log
}

func (r *refusal) Error() string {
	if r.err != nil {
		return r.code + ": " + r.err.Error()
	}
	return r.code
}

func (r *refusal) Unwrap() error { return r.err }

// message is what people are told.
func (r *refusal) message() string {
	if r.text != "" {
		return r.text
	}
	return r.ending.message
}

// retryExhausted is when it is worth coming back to a server that has run out of processes or descriptors. Renders
// give theirs back in seconds.
const retryExhausted = 5 * time.Second

// refusalOf finds the answer to an error.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	r := endingOf(err).refuse(err)
	switch a, refused := errors.AsType[*admission.Refusal](err); {
	case refused:
		r.retryAfter = a.RetryAfter
	case r.status == http.StatusServiceUnavailable && isExhausted(err):
		r.retryAfter = retryExhausted
	case r.status == http.StatusServiceUnavailable:
		r.retryAfter = time.Second
	case r.status == http.StatusUnprocessableEntity:
		r.text = err.Error() // it names the segment, or the limit
	}
	return r
}

func errNotFound(err error) *refusal { return notFoundEnding.refuse(err) }

// notFoundEnding is the one 404 that all sources get which cannot be had, for whatever reason.
var notFoundEnding = endingOf(&urlapi.SourceError{})

func errSignature() *refusal { return endSignature.refuse(nil) }

func errExpired() *refusal { return endExpired.refuse(nil) }

func errSourceTooLarge(size, limit int64) *refusal {
	r := endSourceSize.refuse(nil)
	r.text = fmt.Sprintf("The source has %d bytes, the limit is %d (setting: max_source_size).", size, limit)
	return r
}

func errRange(size int64) *refusal {
	r := endRange.refuse(nil)
	r.size = size
	return r
}

func errPrecondition() *refusal { return endPrecondition.refuse(nil) }

// cutLifetime cuts how long an error may be cached to what its URL has left, as every lifetime in an answer is.
func cutLifetime(err error, expires int64, now time.Time) error {
	if err == nil || expires == 0 {
		return err
	}
	answer := *refusalOf(err)
	if answer.keep != never {
		answer.keep = urlapi.ClampLifetime(answer.keep, expires, now)
	}
	return &answer
}

// caching is how the refusal may be cached.
func (r *refusal) caching() caching {
	return caching{lifetime: r.keep, public: r.keep == forever, immutable: r.keep == forever}
}

// noStore is the Cache-Control of what is true at this moment only.
const noStore = "no-store"

// refuse answers with a refusal: in JSON, or through Caddy's own error routes where the site wants that.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, answer *refusal) error {
	h.logRefusal(r, answer)
	answer.setHeader(w.Header())
	w.Header().Set("Cache-Control", h.cacheField(r, answer.caching()))
	if h.Errors == errorsCaddy {
		return caddyhttp.Error(answer.status, publicError{answer})
	}
	body, err := json.Marshal(map[string]string{"error": answer.code, "message": answer.message()})
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

func (e publicError) Error() string { return e.refusal.code + ": " + e.refusal.message() }

func (e publicError) Unwrap() error { return e.refusal }

// setHeader sets what a refusal says whoever renders it, and takes back what was meant for the variant.
func (r *refusal) setHeader(header http.Header) {
	for _, name := range []string{
		"Accept-Ranges", "Cache-Status", "Content-Disposition", "Content-Length", "Content-Type", "ETag",
		"Last-Modified", "Server-Timing", "X-Audio-Proxy",
	} {
		header.Del(name)
	}
	if r.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.retryAfter.Seconds()))))
	}
	if r.status == http.StatusRequestedRangeNotSatisfiable {
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", r.size))
	}
}

// statusClientGone is what logs call a client that did not wait for the answer; reverse_proxy uses it too.
const statusClientGone = 499

// logRefusal notes why a request was not answered with a variant. That it was not is in the access log already, and
// what is wrong with a source is in the render's line.
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
