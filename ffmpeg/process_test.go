//go:build unix

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

var errEnough = errors.New("enough")

// A program that ends well once it is told to stop has not done all it would have (field case R4).
func TestR4WhatWasAskedToStopIsNotComplete(t *testing.T) {
	t.Parallel()
	obedient := script(t, `trap 'exit 0' TERM`, `echo started >&2`, `while :; do sleep 0.02; done`)
	ctx, cancel := context.WithCancelCause(t.Context())
	started := writerFunc(func(p []byte) { cancel(errEnough) })
	process := Process{Path: obedient, Stderr: started}
	if err := process.Run(ctx); !errors.Is(err, errEnough) {
		t.Errorf("Run: %v, want the cause", err)
	}

	// The same in a render, of a program that has written a whole file by then.
	tools := realTools(t)
	tools.FFmpeg = script(t, `trap 'exit 0' TERM`, `"$ffmpeg" "$@"`, `echo done > done`, `while :; do sleep 0.02; done`)
	source := makeAudio(t, "sine.wav", "sine=d=1")
	plan, err := NewPlan(urlapi.Options{Format: urlapi.MP3}, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	out := newFolder(t)
	ctx, cancel = context.WithCancelCause(t.Context())
	guard.Go(func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(out.dir, "done")); err == nil {
				cancel(errEnough)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	if err := tools.Render(ctx, plan, openInput(t, source), out, Limits{}); !errors.Is(err, errEnough) {
		t.Errorf("Render: %v, want the cause", err)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// A process in an uninterruptible sleep is left behind, and what it writes later is dropped (field case S1).
func TestS1AProcessThatCannotBeKilledIsLeftBehind(t *testing.T) {
	t.Parallel()
	deaf := script(t, `trap '' TERM`, `echo $$ >&2`, `while :; do sleep 0.1; done`)
	var pid bytes.Buffer
	ctx, cancel := context.WithCancelCause(t.Context())
	process := Process{
		Path:   deaf,
		Stderr: writerFunc(func(p []byte) { pid.Write(p); cancel(errEnough) }),
		kill:   func(*os.Process) {},
	}
	reaped := make(chan struct{})
	t.Cleanup(func() { <-reaped })
	defer guard.Go(func() {
		defer close(reaped)
		out, err := exec.Command("sh", "-c", "kill -KILL -"+pid.String()).CombinedOutput()
		if err != nil {
			t.Errorf("ending the test's process: %v: %s", err, out)
		}
	})
	if err := process.Run(ctx); !errors.Is(err, errEnough) {
		t.Errorf("Run: %v, want the cause", err)
	}
}

// What the machine has run out of is not the program's fault (field case N10).
func TestN10NoRoomForAProcessIsExhaustion(t *testing.T) {
	for _, lack := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		err := startError(&os.PathError{Op: "fork/exec", Path: "/usr/bin/ffmpeg", Err: lack})
		wantClass(t, lack.Error(), err, Exhausted)
		if errors.Is(err, ErrNotRunnable) {
			t.Errorf("%v is taken for a program that cannot be run", lack)
		}
	}
	missing := Process{Path: filepath.Join(t.TempDir(), "ffmpeg")}
	if err := missing.Run(t.Context()); !errors.Is(err, ErrNotRunnable) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// Where the name of a descriptor shares its offset with whoever read it before, each program still begins at the
// beginning (field case R10, of macOS and the BSDs).
func TestR10ASharedOffsetIsRewound(t *testing.T) {
	t.Parallel()
	// Reading descriptor 3 itself shares its offset, as opening /dev/fd/3 does there.
	shared := func(program string) string {
		return script(t, `n=$#`, `while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1))`,
			`case "$a" in file:in.*) a=pipe:3;; file) a=file,pipe;; esac; set -- "$@" "$a"; done`, `exec "$`+program+`" "$@"`)
	}
	tools := Tools{FFmpeg: shared("ffmpeg"), FFprobe: shared("ffprobe"), descriptor: "/dev/fd/3"}
	path := makeAudio(t, "sine.wav", "sine=d=1")
	in := openInput(t, path)
	run, source, err := tools.On(in, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if facts, err := Probe(t.Context(), run, source); err != nil || facts.SampleRate != 44100 {
			t.Fatalf("probe: %+v, %v", facts, err)
		}
		if frames, err := CountFrames(t.Context(), run, source, nil); err != nil || frames != 44100 {
			t.Fatalf("%d frames, %v", frames, err)
		}
	}
	plan, err := NewPlan(urlapi.Options{Format: urlapi.WAV, BitDepth: "16"}, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	out := newFolder(t)
	if err := tools.Render(t.Context(), plan, in, out, Limits{}); err != nil {
		t.Fatal(err)
	}
	if got := frames(t, filepath.Join(out.dir, LiveName)); got != 44100 {
		t.Errorf("%d frames are rendered", got)
	}
}
