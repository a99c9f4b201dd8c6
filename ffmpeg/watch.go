package ffmpeg

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// tagPatience is how long ffmpeg may take to report its source before it gets no tags: the report of a version
// that we cannot read must not keep a render waiting for them.
const tagPatience = 5 * time.Second

// watch reads a render's stderr while it comes: what ffmpeg reports of the source, for whoever waits to hear
// it, and the end of it all, for the log. It answers ffmpeg's report with the tags that ffmpeg then waits for.
type watch struct {
	mu sync.Mutex
	transcript
	decided chan struct{} // closed once there is a verdict

	tags     *os.File // nil once the tags are written
	tagTimer *time.Timer
}

// flooded is called when the source says too much of itself, from the goroutine that reads stderr.
func newWatch(tags *os.File, flooded func()) *watch {
	w := &watch{decided: make(chan struct{}), tags: tags}
	w.flooded, w.opened = flooded, make(chan struct{})
	w.tagTimer = time.AfterFunc(tagPatience, guard.Func(w.close))
	return w
}

// Write takes the next bytes of stderr.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.transcript.Write(p)
	w.settle()
	return len(p), nil
}

// end says that no more will come.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.End()
	w.settle()
}

// settle passes on what has become known. The mutex is held.
func (w *watch) settle() {
	if w.report.InputDone() {
		w.writeTags()
	}
	if w.report.Verdict() == Pending {
		return
	}
	select {
	case <-w.decided:
	default:
		close(w.decided)
	}
}

// writeTags gives ffmpeg the tags, once. They are smaller than any pipe's buffer, so this does not block; that
// ffmpeg may be gone already does not matter.
func (w *watch) writeTags() {
	if w.tags == nil {
		return
	}
	_, _ = w.tags.Write(TagFile(w.report.Tags()))
	w.tags.Close()
	w.tags = nil
	w.tagTimer.Stop()
}

// close ends ffmpeg's wait for tags.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeTags()
}

// verdict blocks until the report has one, or until written returns: an ffmpeg that writes its output has said
// what it had to say. reported is whether the beginning of a report was recognized. It returns the cause of ctx, where
// that ends first.
func (w *watch) verdict(ctx context.Context, written func(context.Context) error) (verdict Verdict, reported bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	output := make(chan error, 1)
	guard.Go(func() { output <- guard.Do(func() error { return written(ctx) }) })
	select {
	case <-w.decided:
	case err := <-output:
		if err != nil {
			return Pending, false, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report.Verdict(), w.report.seen, nil
}

// now is the report's verdict at this moment.
func (w *watch) now() Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report.Verdict()
}

// classify says why the render gave nothing. err is how ffmpeg ended.
func (w *watch) classify(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Classify(err, w.words(), w.report.Verdict())
}

// refusal is the gate's word against a source, if that is what err is.
func refusal(err error) (*Error, bool) { return errors.AsType[*Error](err) }
