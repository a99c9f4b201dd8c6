package ffmpeg

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// folder is an Output that nobody but the test looks at.
type folder struct {
	dir      string
	live     *os.File
	released chan struct{}
}

func newFolder(t testing.TB) *folder {
	t.Helper()
	dir := t.TempDir()
	live, err := os.OpenFile(filepath.Join(dir, LiveName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { live.Close() })
	return &folder{dir: dir, live: live, released: make(chan struct{})}
}

func (f *folder) Dir() string       { return f.dir }
func (f *folder) Live() io.ReaderAt { return f.live }
func (f *folder) Release()          { close(f.released) }

func (f *folder) AwaitGrowth(ctx context.Context, n int64) (int64, error) {
	for {
		info, err := f.live.Stat()
		if err != nil || info.Size() > n {
			return info.Size(), err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (f *folder) isReleased() bool {
	select {
	case <-f.released:
		return true
	default:
		return false
	}
}

// realTools are the installed programs.
func realTools(t testing.TB) Tools {
	t.Helper()
	return Tools{FFmpeg: find(t, "ffmpeg"), FFprobe: find(t, "ffprobe")}
}

func find(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is needed for this test: %v", program, err)
	}
	return path
}

// script writes a program in place of ffmpeg, which is $0 to it as $ffmpeg.
func script(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	text := "#!/bin/sh\nffmpeg=" + find(t, "ffmpeg") + "\nffprobe=" + find(t, "ffprobe") + "\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func openInput(t testing.TB, path string) Input {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return Input{File: file, Ext: filepath.Ext(path)}
}

// renderFile renders a source as the server does, within a minute.
func renderFile(t testing.TB, tools Tools, path string, opts urlapi.Options, limits Limits) (*folder, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	plan, err := NewPlan(opts, Facts{SampleRate: 44100, Channels: 2, BitDepth: 16})
	if err != nil {
		t.Fatal(err)
	}
	out := newFolder(t)
	return out, tools.Render(ctx, plan, openInput(t, path), out, limits)
}

// probeFile asks for a source's facts as the server does, within a minute.
func probeFile(t testing.TB, tools Tools, path string) (Facts, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, source, err := tools.On(openInput(t, path), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Probe(ctx, run, source)
}

// wantClass checks an error's class, "" for none.
func wantClass(t testing.TB, what string, err error, want Class) {
	t.Helper()
	got := Class("")
	if err != nil {
		got = Class("no class: " + err.Error())
	}
	failure, ok := errors.AsType[*Error](err)
	if ok {
		got = failure.Class
	}
	if got != want {
		t.Errorf("%s: class %q, want %q (%v)", what, got, want, err)
	}
}

func writeFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
