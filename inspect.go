package audioproxy

import (
	"context"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
)

// ffmpegStatus is what the admin API says of the ffmpeg that is run.
type ffmpegStatus struct {
	Path    string   `json:"path"`
	Version string   `json:"version"`
	Missing []string `json:"missing,omitempty"` // what it cannot do
	Error   string   `json:"error,omitempty"`   // why it can do nothing
}

// inspections are what is known about each ffmpeg that was ever configured. One that is replaced by another
// version has another modification time.
var inspections sync.Map // of tool to func() inspection

type tool struct {
	path     string
	modified time.Time
}

type inspection struct {
	capabilities ffmpeg.Capabilities
	err          error
}

// inspectTimeout is enough for a program that only has to say what it is.
const inspectTimeout = 10 * time.Second

// inspect asks an ffmpeg what it can do, once.
func (a *App) inspect() inspection {
	id := tool{path: a.tools.FFmpeg}
	if info, err := os.Stat(id.path); err == nil {
		id.modified = info.ModTime()
	}
	ask, _ := inspections.LoadOrStore(id, sync.OnceValue(func() inspection {
		ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
		defer cancel()
		capabilities, err := ffmpeg.Inspect(ctx, a.tools.Run)
		return inspection{capabilities, err}
	}))
	return ask.(func() inspection)()
}

// warnOfFFmpeg says when the config is loaded what would otherwise be found out by requests.
func (a *App) warnOfFFmpeg() {
	found := a.inspect()
	path := zap.String("ffmpeg", a.tools.FFmpeg)
	if found.err != nil {
		a.logger.Error("this is no ffmpeg that can be run: variants will be answered with errors", path, zap.Error(found.err))
		return
	}
	if found.capabilities.TooOld() {
		a.logger.Warn("this ffmpeg is older than any that was tried", path,
			zap.String("version", found.capabilities.Version), zap.Ints("oldest", ffmpeg.Oldest[:]))
	}
	if missing := found.capabilities.Missing(); len(missing) > 0 {
		a.logger.Warn("this ffmpeg cannot do all that URLs can ask for", path, zap.Strings("missing", missing))
	}
}

func (a *App) inspected() ffmpegStatus {
	found := a.inspect()
	status := ffmpegStatus{Path: a.tools.FFmpeg, Version: found.capabilities.Version, Missing: found.capabilities.Missing()}
	if found.err != nil {
		status.Missing, status.Error = nil, found.err.Error()
	}
	return status
}
