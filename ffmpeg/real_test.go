package ffmpeg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// These tests claim things about audio, so they ask the real ffmpeg. One that is missing is a failure.

// runTool runs ffmpeg or ffprobe in dir and gives its outputs. It is bounded in time.
func runTool(t testing.TB, dir, tool string, args ...string) (stdout []byte, stderr string, err error) {
	t.Helper()
	path, lookErr := exec.LookPath(tool)
	if lookErr != nil {
		t.Fatalf("%s is needed for this test: %v", tool, lookErr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %q did not end in time", tool, args)
	}
	return out.Bytes(), errOut.String(), err
}

func mustRun(t testing.TB, dir, tool string, args ...string) []byte {
	t.Helper()
	stdout, stderr, err := runTool(t, dir, tool, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", tool, args, err, stderr)
	}
	return stdout
}

// makeAudio writes a source made of ffmpeg's own signal generators and returns its path.
func makeAudio(t testing.TB, name, generator string, output ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := append([]string{"-v", "error", "-f", "lavfi", "-i", generator, "-bitexact"}, output...)
	mustRun(t, "", "ffmpeg", append(args, "file:"+path)...)
	return path
}

// outcome is a finished render.
type outcome struct {
	dir, live, final string
	report           *Report
	stderr           string
	err              error
}

// render does what the server does with a plan: a private folder, and the source under a harmless name there.
func render(t testing.TB, source string, opts urlapi.Options, facts Facts) outcome {
	t.Helper()
	plan, err := NewPlan(opts, facts)
	if err != nil {
		t.Fatalf("NewPlan: %v", err)
	}
	dir := t.TempDir()
	input := "in" + filepath.Ext(source)
	if err := os.Symlink(source, filepath.Join(dir, input)); err != nil {
		t.Fatal(err)
	}
	o := outcome{dir: dir, live: filepath.Join(dir, "live"), final: filepath.Join(dir, "live"), report: &Report{}}
	if plan.Shape.Tee {
		o.final = filepath.Join(dir, "final")
	}
	_, o.stderr, o.err = runTool(t, dir, "ffmpeg", plan.Args("file:"+input, "file:live", "file:final")...)
	fmt.Fprint(o.report, o.stderr)
	return o
}

// mustRender is render for sources that must work.
func mustRender(t testing.TB, source string, opts urlapi.Options, facts Facts) outcome {
	t.Helper()
	o := render(t, source, opts, facts)
	if o.err != nil {
		t.Fatalf("render %+v: %v\n%s", opts, o.err, o.stderr)
	}
	return o
}

// probe is one field of a file's first audio stream or of its format.
func probe(t testing.TB, path, entry string) string {
	t.Helper()
	return strings.TrimSpace(string(mustRun(t, "", "ffprobe", "-v", "error", "-select_streams", "a:0",
		"-show_entries", entry, "-of", "csv=p=0", "file:"+path)))
}

// frames is how many frames a file decodes to.
func frames(t testing.TB, path string) int {
	t.Helper()
	pcm := mustRun(t, "", "ffmpeg", "-v", "error", "-i", "file:"+path, "-map", "0:a:0", "-af", "pan=mono|c0=c0",
		"-f", "u8", "-c:a", "pcm_u8", "-")
	return len(pcm)
}

func milli(v urlapi.Milli) *urlapi.Milli { return &v }
