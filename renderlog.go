package audioproxy

import (
	"errors"

	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
)

// renderEnded is told of every render, from the render's own goroutine.
func (a *App) renderEnded(s coalesce.Summary) {
	j := s.Job.(*job)
	measured.rendered(j.options.Format, s)
	a.logRender(j, s)
}

// logRender writes the one line that every render gets, and a second one where there is something to look into.
func (a *App) logRender(j *job, s coalesce.Summary) {
	ending := endingOf(s.Err)
	if c := a.logger.Check(zap.InfoLevel, "render"); c != nil {
		c.Write(
			zap.String("outcome", ending.name),
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
	switch {
	case s.Err == nil && s.StoreErr != nil:
		a.logger.Warn("a variant could not be stored", zap.String("key", s.ID.Key), zap.Error(s.StoreErr))
	case s.Err != nil:
		if c := a.logger.Check(ending.level, "a render failed"); c != nil {
			c.Write(append([]zap.Field{zap.String("key", s.ID.Key)}, reasons(s.Err)...)...)
		}
	}
}

// reasons say why something failed, with ffmpeg's last words where it had any.
func reasons(err error) []zap.Field {
	f, ok := errors.AsType[*ffmpeg.Error](err)
	if !ok {
		return []zap.Field{zap.Error(err)}
	}
	fields := []zap.Field{zap.String("class", string(f.Class)), zap.String("ffmpeg", f.Tail)}
	if f.Err != nil {
		fields = append(fields, zap.NamedError("exit", f.Err))
	}
	return fields
}
