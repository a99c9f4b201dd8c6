package audioproxy

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// How renders and probes end, in the words of metrics, logs and the admin API: complete, ffmpeg's classes of
// failure, and what can come in their way before ffmpeg does.
const (
	endedComplete  = "complete"
	endedFailed    = string(ffmpeg.Failed)
	endedCancelled = string(ffmpeg.Cancelled)
	endedTimeout   = string(ffmpeg.Timeout)
	endedTooLarge  = string(ffmpeg.TooLarge)
	endedNoSpace   = string(ffmpeg.NoSpace)
	endedNotFound  = string(ffmpeg.NotFound)
	endedRefused   = "refused" // by the budget
	endedChanged   = "changed" // the source was written to meanwhile
	endedInvalid   = "invalid" // the options don't fit the source
)

// endings are all of them.
var endings = []string{
	endedComplete, endedFailed, endedCancelled, endedTimeout, endedTooLarge, endedNoSpace, endedNotFound,
	endedRefused, endedChanged, endedInvalid,
	string(ffmpeg.Undecodable), string(ffmpeg.NoSound), string(ffmpeg.VideoSource),
}

// endingOf says how something ended.
func endingOf(err error) string {
	if err == nil {
		return endedComplete
	}
	for _, known := range []struct {
		err    error
		ending string
	}{
		{coalesce.ErrCancelled, endedCancelled},
		{context.Canceled, endedCancelled},
		{coalesce.ErrTimeout, endedTimeout},
		{errProbeTimeout, endedTimeout},
		{coalesce.ErrTooLarge, endedTooLarge},
		{coalesce.ErrNoSpace, endedNoSpace},
		{source.ErrChanged, endedChanged},
		{source.ErrNotFound, endedNotFound},
	} {
		if errors.Is(err, known.err) {
			return known.ending
		}
	}
	if _, ok := errors.AsType[*admission.Refusal](err); ok || errors.Is(err, errProbesBusy) {
		return endedRefused
	}
	if r := refusalOf(err); r.code == "invalid_options" {
		return endedInvalid
	}
	if f, ok := errors.AsType[*ffmpeg.Error](err); ok && slices.Contains(endings, string(f.Class)) {
		return string(f.Class)
	}
	return endedFailed
}

// renderEnded is told of every render, from the render's own goroutine.
func (a *App) renderEnded(s coalesce.Summary) {
	j := s.Job.(*job)
	measured.rendered(j.options.Format, s)
	a.logRender(j, s)
}

// logRender writes the one line that every render gets, and a second one where there is something to look into.
func (a *App) logRender(j *job, s coalesce.Summary) {
	if c := a.logger.Check(zap.InfoLevel, "render"); c != nil {
		c.Write(
			zap.String("outcome", endingOf(s.Err)),
			zap.String("key", s.ID.Key),
			zap.String("options", j.options.Canonical()),
			zap.String("source", loggable(j.source)),
			zap.String("class", s.Class),
			zap.Duration("wait", s.Wait),
			zap.Duration("first_byte", s.FirstByte),
			zap.Duration("duration", s.Render),
			zap.Int64("bytes", s.Bytes),
			zap.Bool("stored", s.Stored),
		)
	}
	switch ending := endingOf(s.Err); {
	case ending == endedComplete && s.StoreErr != nil:
		a.logger.Warn("a variant could not be stored", zap.String("key", s.ID.Key), zap.Error(s.StoreErr))
	case ending != endedComplete && ending != endedCancelled && ending != endedRefused:
		a.logFailure(s)
	}
}

// logFailure says why a render failed, with ffmpeg's last words where it had any.
func (a *App) logFailure(s coalesce.Summary) {
	fields := []zap.Field{zap.String("key", s.ID.Key), zap.Error(s.Err)}
	if f, ok := errors.AsType[*ffmpeg.Error](s.Err); ok {
		fields = []zap.Field{zap.String("key", s.ID.Key), zap.String("class", string(f.Class)), zap.String("ffmpeg", f.Tail)}
		if f.Err != nil {
			fields = append(fields, zap.NamedError("exit", f.Err))
		}
	}
	a.logger.Warn("a render failed", fields...)
}
