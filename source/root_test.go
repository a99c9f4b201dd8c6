//go:build unix

package source_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// seen is what the source has to say: its content, or which error it is.
func seen(t *testing.T, local *source.Local, path string) string {
	t.Helper()
	in, err := local.Open(t.Context(), path)
	switch {
	case errors.Is(err, source.ErrNotFound):
		return "not found"
	case errors.Is(err, source.ErrUnavailable):
		return "unavailable"
	case err != nil:
		return err.Error()
	}
	defer in.Close()
	content, err := io.ReadAll(in.Reader())
	must(t, err)
	return string(content)
}

// soon waits until the source says what it should: within a second, but for a machine that is busy.
func soon(t *testing.T, local *source.Local, path, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if got = seen(t, local, path); got == want {
			return
		}
	}
	t.Fatalf("%s: %q, want %q", path, got, want)
}

// N17: a root that is a symbolic link follows it when it is switched.
func TestTheRootIsWhatHasItsNameNow(t *testing.T) {
	top := t.TempDir()
	write(t, filepath.Join(top, "v1/song.wav"), "one")
	write(t, filepath.Join(top, "v1/album/old.wav"), "old")
	write(t, filepath.Join(top, "v2/song.wav"), "two")
	write(t, filepath.Join(top, "v2/new.wav"), "new")
	root := filepath.Join(top, "current")
	link := func(to string) {
		must(t, os.Symlink(to, root+".new"))
		must(t, os.Rename(root+".new", root))
	}
	link("v1")
	local, err := source.OpenLocal(root)
	must(t, err)
	if got := seen(t, local, "song.wav"); got != "one" {
		t.Fatalf("%q", got)
	}
	for _, path := range []string{"album/old.opus", "album/old.wav"} {
		if _, err := local.Existing(t.Context(), []string{path}); err != nil { // which leaves the folder open
			t.Fatal(err)
		}
	}
	link("v2")
	if got := seen(t, local, "new.wav"); got != "new" {
		t.Errorf("a file of the new folder alone: %q, but nobody may say that it is not there", got)
	}
	soon(t, local, "song.wav", "two")
	if found, err := local.Existing(t.Context(), []string{"album/old.wav"}); len(found) > 0 || err != nil {
		t.Errorf("in the new folder there is %q, %v", found, err)
	}

	must(t, os.Remove(root))
	if got := seen(t, local, "none.wav"); got != "unavailable" {
		t.Errorf("without a root, a file that never was: %q", got)
	}
	soon(t, local, "song.wav", "unavailable")
	if _, err := local.Existing(t.Context(), []string{"song.wav", "none.wav"}); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("without a root: %v", err)
	}
	write(t, root, "no folder")
	if got := seen(t, local, "song.wav"); got != "unavailable" {
		t.Errorf("a file in the root's place: %q", got)
	}
	must(t, os.Remove(root))
	must(t, os.Mkdir(root, 0o700))
	write(t, filepath.Join(root, "song.wav"), "three")
	if got := seen(t, local, "song.wav"); got != "three" {
		t.Errorf("a root that came back: %q", got)
	}
}

// N21's kin: a relative root is that of the moment it was named.
func TestARelativeRootStaysWhereItWas(t *testing.T) {
	top := t.TempDir()
	write(t, filepath.Join(top, "music/song.wav"), "song")
	t.Chdir(top)
	local, err := source.OpenLocal("music")
	must(t, err)
	t.Chdir(t.TempDir())
	if got := seen(t, local, "song.wav"); got != "song" {
		t.Errorf("%q", got)
	}
}

// N18: a modification time that every file has says nothing of one.
func TestTheFirstSecondsOf1970AreNoValidator(t *testing.T) {
	tr := newTree(t)
	name := filepath.Join(tr.root, "fs/target.wav")
	for when, is := range map[time.Time]bool{
		time.Unix(0, 0): false, time.Unix(1, 0): false, time.Unix(0, 1): false, time.Unix(1, 999_999_999): false,
		time.Unix(2, 0): true, time.Unix(-1, 0): true, time.Unix(1_700_000_000, 0): true,
	} {
		must(t, os.Chtimes(name, when, when))
		in := tr.mustOpen(t, "fs/target.wav")
		if (in.Validator != "") != is {
			t.Errorf("at %v: validator %q", when.UTC(), in.Validator)
		}
		if err := in.Unchanged(t.Context()); err != nil {
			t.Errorf("at %v: %v", when.UTC(), err)
		}
		revision := in.Revision()
		if revision == "" || is && revision != in.Validator {
			t.Errorf("at %v: revision %q, validator %q", when.UTC(), revision, in.Validator)
		}
		if again := tr.mustOpen(t, "fs/target.wav").Revision(); again != revision {
			t.Errorf("at %v: revision %q, then %q", when.UTC(), revision, again)
		}
		must(t, os.WriteFile(name+".new", []byte("tarGet"), 0o600))
		must(t, os.Chtimes(name+".new", when, when))
		must(t, os.Rename(name+".new", name))
		if again := tr.mustOpen(t, "fs/target.wav").Revision(); !is && again == revision {
			t.Errorf("at %v: two files have the revision %q", when.UTC(), revision)
		}
	}
}

// A socket can't be opened; the error for that is one that a failing device gives, too.
func TestASocketIsNotFound(t *testing.T) {
	tr := newTree(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(fd)
	t.Chdir(tr.root) // names of sockets are short
	must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: "socket.wav"}))
	if got := seen(t, tr.Local, "socket.wav"); got != "not found" {
		t.Errorf("%q", got)
	}
}

// R14: what another kind of source opens is an Input like any other.
func TestNewInput(t *testing.T) {
	tr := newTree(t)
	name := filepath.Join(tr.root, "fs/target.wav")
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		must(t, err)
		return f
	}
	in, err := source.NewInput(open(name), ".WAV", "v1")
	must(t, err)
	if in.Size != 6 || in.Ext != ".wav" || in.Validator != "v1" {
		t.Errorf("%+v", in)
	}
	if err := in.Unchanged(t.Context()); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	write(t, name, "longer than it was")
	if err := in.Unchanged(t.Context()); !errors.Is(err, source.ErrChanged) {
		t.Errorf("changed: %v", err)
	}
	in.Hold()
	must(t, in.Close())
	if _, err := in.File.Stat(); err != nil {
		t.Errorf("closed while it is held: %v", err)
	}
	must(t, in.Close())
	if _, err := in.File.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("not closed: %v", err)
	}
	for ext, want := range map[string]string{"": "", "wav": "", ".%03d": "", "a/b.c/song.Mp3": ".mp3", "x:.flac": ".flac"} {
		in, err := source.NewInput(open(name), ext, "")
		must(t, err)
		if in.Ext != want {
			t.Errorf("%q: extension %q, want %q", ext, in.Ext, want)
		}
		must(t, in.Close())
	}
	for name, refused := range map[string]struct {
		file, validator string
		want            error
	}{
		"a folder":                     {tr.root, "v", source.ErrNotFound},
		"a FIFO":                       {filepath.Join(tr.root, "fs/fifo.wav"), "v", source.ErrNotFound},
		"a validator of several lines": {name, "a\nb", source.ErrUnavailable},
	} {
		f := open(refused.file)
		if _, err := source.NewInput(f, ".wav", refused.validator); !errors.Is(err, refused.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: the file is still open", name)
		}
	}
	closed := open(name)
	closed.Close()
	if _, err := source.NewInput(closed, ".wav", "v"); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("a closed file: %v", err)
	}
}

// A look at an open file waits no longer than its context either.
func TestUnchangedEndsWithItsContext(t *testing.T) {
	tr := newTree(t)
	in := tr.mustOpen(t, "fs/target.wav")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Unchanged(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
