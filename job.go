package audioproxy

import (
	"context"
	"net/http"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// job is the render of one variant of one opened source. It may outlive the config it was started under, and
// refers to nothing of a request.
type job struct {
	tools   ffmpeg.Tools
	options urlapi.Options
	input   *source.Input
	facts   ffmpeg.Facts
	plan    ffmpeg.Plan
	release func()
}

// newJob takes over the input.
func (a *App) newJob(v *variant, in *source.Input) *job {
	return &job{tools: a.tools, options: v.options, input: in, release: a.hold()}
}

// Prepare plans the render.
func (j *job) Prepare(context.Context) error {
	var err error
	j.plan, err = ffmpeg.NewPlan(j.options, j.facts)
	return err
}

// Render runs ffmpeg. A source that was written to meanwhile makes a variant of neither what it was nor what it
// is.
func (j *job) Render(ctx context.Context, spool *coalesce.Spool) error {
	in := ffmpeg.Input{File: j.input.File, Ext: j.input.Ext}
	if err := j.tools.Render(ctx, j.plan, in, spool, 0); err != nil {
		return err
	}
	return j.input.Unchanged()
}

// Close gives up the source.
func (j *job) Close() {
	j.input.Close()
	j.release()
}

func serveHealth(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheNever)
	_, err := w.Write([]byte(`{"status":"ok"}` + "\n"))
	return err
}

var _ coalesce.Job = (*job)(nil)
