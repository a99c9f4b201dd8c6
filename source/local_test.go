//go:build unix

package source_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// tree is a root with something beside it that must never be reached.
type tree struct {
	*source.Local
	root string
}

func newTree(t *testing.T) tree {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "root")
	for name, content := range map[string]string{
		"root/wav/speech.WAV":    "speech",
		"root/fs/target.wav":     "target",
		"root/fs/unreadable.wav": "unreadable",
		"outside/secret.wav":     "secret",
		"root-sibling/x.wav":     "sibling",
	} {
		write(t, filepath.Join(top, name), content)
	}
	must(t, os.Mkdir(filepath.Join(root, "fs/directory.wav"), 0o755))
	must(t, syscall.Mkfifo(filepath.Join(root, "fs/fifo.wav"), 0o644))
	must(t, os.Chmod(filepath.Join(root, "fs/unreadable.wav"), 0))
	for link, target := range map[string]string{
		"link-inside.wav":          "target.wav",
		"link-inside-dotdot.wav":   "../wav/speech.WAV",
		"link-inside-absolute.wav": filepath.Join(root, "fs/target.wav"),
		"link-escape-relative.wav": "../../outside/secret.wav",
		"link-escape-absolute.wav": filepath.Join(top, "outside/secret.wav"),
		"link-sibling":             "../../root-sibling",
		"link-fifo.wav":            "fifo.wav",
		"loop-a.wav":               "loop-b.wav",
		"loop-b.wav":               "loop-a.wav",
		"dangling.wav":             "nowhere.wav",
		"device.wav":               "/dev/zero",
	} {
		must(t, os.Symlink(target, filepath.Join(root, "fs", link)))
	}
	local, err := source.OpenLocal(root)
	must(t, err)
	t.Cleanup(func() { must(t, local.Close()) })
	return tree{local, root}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (tr tree) mustOpen(t *testing.T, path string) *source.Input {
	t.Helper()
	in, err := tr.Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() { in.Close() })
	return in
}

func TestOpenGivesTheFile(t *testing.T) {
	tr := newTree(t)
	for path, want := range map[string]string{
		"fs/target.wav":             "target",
		"wav/speech.WAV":            "speech",
		"fs/link-inside.wav":        "target",
		"fs/link-inside-dotdot.wav": "speech",
	} {
		in := tr.mustOpen(t, path)
		got, err := io.ReadAll(in.Reader())
		if err != nil || string(got) != want {
			t.Errorf("%s: read %q and %v, want %q", path, got, err, want)
		}
		if in.Size != int64(len(want)) || in.Ext != ".wav" || in.Validator == "" {
			t.Errorf("%s: size %d, extension %q, validator %q", path, in.Size, in.Ext, in.Validator)
		}
	}
}

func TestNamesAreBytes(t *testing.T) {
	tr := newTree(t)
	names := []string{
		"100%.mp3", "a%20b.mp3", "a+b.mp3", "hash#tag.mp3", "what?.mp3", "colon:name.mp3", "-y.mp3", "-i",
		"$(touch pwned).mp3", "star*.mp3", "seq-%03d.mp3", `back\slash.mp3`, "日本語.mp3", "caf\u00e9.mp3", "cafe\u0301.mp3",
	}
	for _, name := range names {
		write(t, filepath.Join(tr.root, name), name)
	}
	for _, name := range names {
		got, _ := io.ReadAll(tr.mustOpen(t, name).Reader())
		if string(got) != name {
			t.Errorf("%q: read %q", name, got)
		}
	}
}

func TestAllThatIsNoFileBelowTheRootIsNotFound(t *testing.T) {
	tr := newTree(t)
	refused := []string{
		"fs/missing.wav", "missing/x.wav", "fs/target.wav/x.wav",
		"fs/fifo.wav", "fs/link-fifo.wav", "fs/directory.wav", "fs/device.wav",
		"fs/loop-a.wav", "fs/dangling.wav",
		"fs/link-inside-absolute.wav", "fs/link-escape-relative.wav", "fs/link-escape-absolute.wav", "fs/link-sibling/x.wav",
		"", ".", "..", "../outside/secret.wav", "../root-sibling/x.wav", "fs/../../outside/secret.wav",
		filepath.Join(tr.root, "fs/target.wav"), "/etc/passwd",
		"fs/", "fs//target.wav", "./fs/target.wav",
		"fs/target.wav\x00", "fs/tar\nget.wav", "fs/\xff.wav",
		strings.Repeat("a", 300) + ".wav", // longer than a file name can be
		strings.Repeat("a/", 600) + "x.wav",
	}
	if os.Geteuid() != 0 { // root may read everything
		refused = append(refused, "fs/unreadable.wav")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range refused {
			in, err := tr.Open(t.Context(), path)
			if in != nil || !errors.Is(err, source.ErrNotFound) || errors.Is(err, source.ErrUnavailable) {
				t.Errorf("%.80q: got %v and %v, want ErrNotFound", path, in, err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("opening blocks")
	}
}

// Even names that do exist are refused when they are not what the URL API admits.
func TestNamesOutOfBounds(t *testing.T) {
	tr := newTree(t)
	deep := strings.Repeat("d/", 64) + "x.wav"
	long := strings.Repeat(strings.Repeat("e", 200)+"/", 5) + strings.Repeat("f", 20)
	for _, path := range []string{deep, long, "bell\a.wav"} {
		write(t, filepath.Join(tr.root, path), "x")
		if _, err := tr.Open(t.Context(), path); !errors.Is(err, source.ErrNotFound) {
			t.Errorf("%.40q: got %v, want ErrNotFound", path, err)
		}
	}
	for _, path := range []string{deep[2:], long[1:]} {
		write(t, filepath.Join(tr.root, path), "x")
		tr.mustOpen(t, path)
	}
}

func TestUnchanged(t *testing.T) {
	tr := newTree(t)
	name := filepath.Join(tr.root, "fs/target.wav")
	long := time.Now().Add(-time.Hour)
	changes := []struct {
		what   string
		change func() error
		want   error
	}{
		{"nothing", func() error { return nil }, nil},
		{"read", func() error { _, err := os.ReadFile(name); return err }, nil},
		{"written to, same size", func() error { return os.WriteFile(name, []byte("tarGet"), 0o644) }, source.ErrChanged},
		{"grown, time put back", func() error {
			return errors.Join(os.WriteFile(name, []byte("target and more"), 0o644), os.Chtimes(name, long, long))
		}, source.ErrChanged},
		{"touched by a nanosecond", func() error { return os.Chtimes(name, long, long.Add(1)) }, source.ErrChanged},
		{"replaced by another file", func() error {
			other := name + ".new"
			return errors.Join(os.WriteFile(other, []byte("other"), 0o644), os.Rename(other, name))
		}, nil},
	}
	for _, c := range changes {
		must(t, os.Chtimes(name, long, long))
		in := tr.mustOpen(t, "fs/target.wav")
		if err := in.Unchanged(t.Context()); err != nil {
			t.Fatalf("%s: before: %v", c.what, err)
		}
		must(t, c.change())
		if err := in.Unchanged(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
		must(t, in.Close())
	}
}

func TestValidatorFollowsContent(t *testing.T) {
	tr := newTree(t)
	name := filepath.Join(tr.root, "fs/target.wav")
	seen := make(map[string]string)
	when := time.Unix(1_700_000_000, 0)
	for what, change := range map[string]func() error{
		"as it is":           func() error { return os.Chtimes(name, when, when) },
		"a nanosecond later": func() error { return os.Chtimes(name, when, when.Add(1)) },
		"longer, at one time": func() error {
			return errors.Join(os.WriteFile(name, []byte("longer!"), 0o644), os.Chtimes(name, when, when))
		},
	} {
		must(t, os.WriteFile(name, []byte("target"), 0o644))
		must(t, change())
		v := tr.mustOpen(t, "fs/target.wav").Validator
		if other, ok := seen[v]; ok {
			t.Errorf("%q and %q share the validator %q", what, other, v)
		}
		seen[v] = what
		if again := tr.mustOpen(t, "fs/link-inside.wav").Validator; again != v {
			t.Errorf("%q: validator %q through a link, %q without", what, again, v)
		}
	}
}

func TestExtOnlyIfShortAndPlain(t *testing.T) {
	tr := newTree(t)
	for name, want := range map[string]string{
		"a.wav": ".wav", "a.tar.FLAC": ".flac", "noext": "", "dir.mp3/noext": "", ".mp3": ".mp3", "dot.": "",
		"a.12345678": ".12345678", "a.123456789": "", "a.w v": "", "a.%03d": "", "a.é": "", "a.a-b": "",
	} {
		write(t, filepath.Join(tr.root, name), "x")
		if got := tr.mustOpen(t, name).Ext; got != want {
			t.Errorf("%q: extension %q, want %q", name, got, want)
		}
	}
}

func TestTroubleIsNotNotFound(t *testing.T) {
	tr := newTree(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Open(gone, "fs/target.wav"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	closed, err := source.OpenLocal(tr.root)
	must(t, err)
	must(t, closed.Close())
	if _, err := closed.Open(t.Context(), "fs/target.wav"); !errors.Is(err, source.ErrUnavailable) || errors.Is(err, source.ErrNotFound) {
		t.Errorf("after Close: got %v, want ErrUnavailable", err)
	}
}

func TestOpenLocalWantsADirectory(t *testing.T) {
	tr := newTree(t)
	for _, root := range []string{"", filepath.Join(tr.root, "fs/target.wav"), filepath.Join(tr.root, "missing")} {
		if l, err := source.OpenLocal(root); err == nil {
			l.Close()
			t.Errorf("%q: opened", root)
		}
	}
}
