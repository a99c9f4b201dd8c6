//go:build unix

package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// counted is a system whose calls are counted: openings of roots, folders and files, lists, look-ups.
type counted struct{ roots, folders, files, lists, lookUps atomic.Int32 }

func (c *counted) system() system {
	return system{
		openRoot:   func(n string) (*os.Root, error) { c.roots.Add(1); return realSystem.openRoot(n) },
		openFolder: func(r *os.Root, p string) (*os.Root, error) { c.folders.Add(1); return realSystem.openFolder(r, p) },
		openFile:   func(r *os.Root, p string) (*os.File, error) { c.files.Add(1); return realSystem.openFile(r, p) },
		stat:       realSystem.stat,
		lookUp:     func(r *os.Root, n string) error { c.lookUps.Add(1); return realSystem.lookUp(r, n) },
		list:       func(r *os.Root, n int) ([]string, error) { c.lists.Add(1); return realSystem.list(r, n) },
	}
}

func (c *counted) String() string {
	return fmt.Sprintf("%d roots, %d folders, %d files opened, %d lists, %d look-ups", c.roots.Load(), c.folders.Load(), c.files.Load(), c.lists.Load(), c.lookUps.Load())
}

// candidates are what a site of one fixed variant asks for.
func candidates(stem string) []string {
	paths := []string{stem + ".opus", stem}
	for _, ext := range []string{".wav", ".flac", ".mp3", ".m4a", ".aiff", ".ogg", ".wma", ".ape", ".aac"} {
		paths = append(paths, stem+ext, stem+strings.ToUpper(ext))
	}
	return paths
}

func touch(t testing.TB, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// S7, R12: what is not there costs one list of its folder a second, however often and deep it is looked for.
func TestLookingForWhatIsNotThereIsCheap(t *testing.T) {
	root := t.TempDir()
	deep := strings.Repeat("d/", 60)
	touch(t, root, "song.wav", deep+"song.wav")
	for _, dir := range []string{"", deep} {
		c := new(counted)
		l := newLocal(root, c.system())
		began := time.Now()
		const asked = 300
		for i := range asked {
			if found, err := l.Existing(t.Context(), candidates(fmt.Sprintf("%smissing-%d", dir, i))); len(found) > 0 || err != nil {
				t.Fatalf("found %q and %v", found, err)
			}
		}
		periods := int32(time.Since(began)/trusted) + 1
		if c.lists.Load() > periods || c.roots.Load() > periods || c.folders.Load() > periods || c.files.Load()+c.lookUps.Load() > 0 {
			t.Errorf("%q, asked %d times in %v: %s", dir, asked, time.Since(began), c)
		}
	}
}

// A folder that would take long to list is not listed, and its names not remembered: each is looked up.
func TestALargeFolderIsNotListedAgainAndAgain(t *testing.T) {
	root := t.TempDir()
	for i := range maxNames + 1 {
		touch(t, root, fmt.Sprintf("song-%d.wav", i))
	}
	c := new(counted)
	l := newLocal(root, c.system())
	began := time.Now()
	for i := range 50 {
		paths := candidates(fmt.Sprintf("missing-%d", i))
		if found, err := l.Existing(t.Context(), paths); len(found) > 0 || err != nil {
			t.Fatalf("found %q and %v", found, err)
		}
		if n := int(c.lookUps.Load()); n != (i+1)*len(paths) {
			t.Fatalf("%d look-ups", n)
		}
	}
	if periods := int32(time.Since(began)/trusted) + 1; c.lists.Load() > periods || c.files.Load() > 0 {
		t.Errorf("in %v: %s", time.Since(began), c)
	}
	if found, err := l.Existing(t.Context(), candidates("song-7")); err != nil || !slices.Equal(found, []string{"song-7.wav"}) {
		t.Errorf("found %q and %v", found, err)
	}
}

// What is held open and remembered is bounded, however many folders are asked for.
func TestOpenFoldersAreBounded(t *testing.T) {
	root := t.TempDir()
	for i := range 3 * maxFolders {
		touch(t, root, fmt.Sprintf("album-%d/song.wav", i))
	}
	l := newLocal(root, realSystem)
	for i := range 3 * maxFolders {
		if found, err := l.Existing(t.Context(), candidates(fmt.Sprintf("album-%d/song", i))); err != nil || !slices.Contains(found, fmt.Sprintf("album-%d/song.wav", i)) {
			t.Fatalf("found %q and %v", found, err)
		}
		l.folders.mu.Lock()
		n := len(l.folders.open)
		l.folders.mu.Unlock()
		if n > maxFolders {
			t.Fatalf("%d folders open", n)
		}
	}
	if index(slices.Repeat([]string{strings.Repeat("n", 255)}, maxNameBytes/255+1)) != nil {
		t.Error("a list of long names is kept")
	}
}

// Existing finds what Open would, in the order it was asked for.
func TestExistingFindsWhatOpenWould(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "a.wav", "a.FLAC", "b.opus", "b.wav", "C.Wav", "bare", "album/x.mp3", "caf\u00e9.wav", "hidden/y.wav", "\u212aelvin.wav")
	if err := errors.Join(os.Mkdir(filepath.Join(root, "folder.wav"), 0o755), os.Symlink("a.wav", filepath.Join(root, "link.wav")), os.Symlink("nowhere", filepath.Join(root, "dangling.wav")),
		os.Symlink("album", filepath.Join(root, "other")), os.Symlink("/etc", filepath.Join(root, "out"))); err != nil {
		t.Fatal(err)
	}
	l := newLocal(root, realSystem)
	for _, stem := range []string{"a", "b", "C", "c", "bare", "album/x", "other/x", "caf\u00e9", "cafe\u0301", "hidden/y", "kelvin", "folder", "link", "dangling",
		"none", "none/x", "a.wav/x", "out/passwd", "..", "../x", "album/..", strings.Repeat("n", 1100), strings.Repeat("d/", 70) + "x", "x\x00"} {
		paths := candidates(stem)
		found, err := l.Existing(t.Context(), paths)
		if err != nil {
			t.Errorf("%.40q: %v", stem, err)
		}
		if !slices.IsSortedFunc(found, func(a, b string) int { return slices.Index(paths, a) - slices.Index(paths, b) }) {
			t.Errorf("%.40q: %q is not in order", stem, found)
		}
		for _, path := range paths {
			in, err := l.Open(t.Context(), path)
			if err != nil {
				continue
			}
			in.Close()
			if !slices.Contains(found, path) {
				t.Errorf("%q can be opened, and was not found", path)
			}
		}
		if len(found) > 4 {
			t.Errorf("%.40q: %d are worth opening: %q", stem, len(found), found)
		}
	}
	if found, err := l.Existing(t.Context(), []string{"none.wav", "album/x.mp3", "b.wav", "none/x", "album/y"}); err != nil || !slices.Equal(found, []string{"album/x.mp3", "b.wav"}) {
		t.Errorf("in several folders: %q and %v", found, err)
	}
}

// Where case makes no difference to the file system, it makes none to the list.
func TestTheListKnowsNamesOfAnyCase(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "Song.Wav")
	s := realSystem
	s.openFile = func(r *os.Root, p string) (*os.File, error) { return r.Open("Song.Wav") }
	l := newLocal(root, s)
	found, err := l.Existing(t.Context(), candidates("SONG"))
	if err != nil || len(found) == 0 {
		t.Fatalf("found %q and %v", found, err)
	}
	in, err := l.Open(t.Context(), found[0])
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
}

// A folder that may be entered but not read has no list; its files are there all the same.
func TestAFolderWithoutAList(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "album/song.wav")
	s := realSystem
	s.list = func(*os.Root, int) ([]string, error) { return nil, os.ErrPermission }
	l := newLocal(root, s)
	if found, err := l.Existing(t.Context(), candidates("album/song")); err != nil || !slices.Equal(found, []string{"album/song.wav"}) {
		t.Errorf("found %q and %v", found, err)
	}
}

// What is added to a folder is there at once, although the folder has just been listed.
func TestAListIsGoodUntilTheFolderChanges(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "album/a.wav")
	l := newLocal(root, realSystem)
	folder := filepath.Join(root, "album")
	for i, want := range []string{"", "b.wav", ""} {
		if want != "" {
			touch(t, folder, want)
		} else {
			os.Remove(filepath.Join(folder, "b.wav"))
		}
		at := time.Now().Add(time.Duration(i) * time.Second) // however coarse the file system's clock is
		if err := os.Chtimes(folder, at, at); err != nil {
			t.Fatal(err)
		}
		if found, err := l.Existing(t.Context(), candidates("album/b")); err != nil || (want == "") != (len(found) == 0) {
			t.Errorf("%d: found %q and %v", i, found, err)
		}
	}
}

// A FIFO in a folder's place must not be opened: that would wait for a writer.
func TestAFolderThatIsNone(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(t, root, "file")
	l := newLocal(root, realSystem)
	for _, stem := range []string{"fifo/x", "file/x"} {
		if found, err := l.Existing(t.Context(), candidates(stem)); err != nil || len(found) > 0 {
			t.Errorf("%s: found %q and %v", stem, found, err)
		}
	}
}

func BenchmarkExisting(b *testing.B) {
	small, deep, large := b.TempDir(), b.TempDir(), b.TempDir()
	dir := strings.Repeat("d/", 60)
	touch(b, small, "song.wav")
	touch(b, deep, dir+"song.wav")
	for i := range maxNames + 1 {
		touch(b, large, fmt.Sprintf("song-%d.wav", i))
	}
	for name, place := range map[string][2]string{"small": {small, ""}, "deep": {deep, dir}, "large": {large, ""}} {
		b.Run(name, func(b *testing.B) {
			l := newLocal(place[0], realSystem)
			for i := 0; b.Loop(); i++ {
				if found, err := l.Existing(b.Context(), candidates(fmt.Sprintf("%smissing-%d", place[1], i))); err != nil || len(found) > 0 {
					b.Fatal(found, err)
				}
			}
		})
	}
}
