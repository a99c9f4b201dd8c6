package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a process that a test started, what that test asks of it.
func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		if err := tasks[task](os.Getenv(folderVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// clock is a clock that only moves when told to. It is ahead of the system's, so that no access time which the
// kernel notes by itself is ever the latest.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now().Add(time.Hour).Truncate(time.Second)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// testStore is a store with its clock in the test's hand.
type testStore struct {
	*FileSystem
	t     testing.TB
	clock *clock
}

func newStore(t testing.TB, maxBytes int64) *testStore {
	t.Helper()
	return openStore(t, t.TempDir(), maxBytes, newClock())
}

func openStore(t testing.TB, dir string, maxBytes int64, clock *clock) *testStore {
	t.Helper()
	s, err := openFileSystem(dir, maxBytes, nil, testSystem(clock))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &testStore{s, t, clock}
}

// testSystem is the real one, with the clock in the test's hand.
func testSystem(clock *clock) system {
	s := theSystem
	s.now, s.sweepAgain = clock.Now, time.Millisecond
	return s
}

// restart is what happens when the process ends and another begins.
func (s *testStore) restart() *testStore {
	s.t.Helper()
	must(s.t, s.Close())
	return openStore(s.t, s.dir, s.bound(), s.clock)
}

// other is another process with the same folder.
func (s *testStore) other() *testStore {
	s.t.Helper()
	return openStore(s.t, s.dir, s.bound(), s.clock)
}

func (s *testStore) put(id ID, size int) {
	s.t.Helper()
	must(s.t, tryPut(s, id, size))
}

// tryPut does what a render does.
func tryPut(s Store, id ID, size int) error {
	stage, err := s.Stage()
	if err != nil {
		return err
	}
	defer stage.Remove()
	path := filepath.Join(stage.Dir(), "final")
	if err := os.WriteFile(path, contentOf(id, size), 0o644); err != nil {
		return err
	}
	return s.Put(id, path)
}

// open opens a variant and lets go of it when the test ends.
func (s *testStore) open(id ID) *Variant {
	s.t.Helper()
	v, err := s.Open(id)
	must(s.t, err)
	s.t.Cleanup(v.Close)
	return v
}

// kept says which of the variants the store has, without using them.
func (s *testStore) kept(ids ...ID) string {
	s.t.Helper()
	var names []string
	for i, id := range ids {
		if _, err := s.Stat(id); err == nil {
			names = append(names, fmt.Sprint(i))
		}
	}
	return strings.Join(names, " ")
}

// recounted is what the store amounts to when it has just looked.
func (s *testStore) recounted() Stats {
	s.t.Helper()
	s.changing.Lock()
	defer s.changing.Unlock()
	must(s.t, s.count())
	return s.Stats()
}

// checkAccounts fails where the store's idea of the folder is not the folder.
func (s *testStore) checkAccounts() {
	s.t.Helper()
	files, size := onDisk(s.t, s.dir)
	if stats := s.Stats(); stats.Files != files || stats.Bytes != size {
		s.t.Errorf("the store believes in %d files of %d bytes, the folder has %d of %d",
			stats.Files, stats.Bytes, files, size)
	}
}

// onDisk adds up every file that is in the folder but not in staging, whatever its name.
func onDisk(t testing.TB, dir string) (files, size int64) {
	t.Helper()
	for path, info := range filesIn(t, dir) {
		if !strings.HasPrefix(path, stagingName+string(filepath.Separator)) {
			files++
			size += info.Size()
		}
	}
	return files, size
}

func filesIn(t testing.TB, dir string) map[string]fs.FileInfo {
	t.Helper()
	files := make(map[string]fs.FileInfo)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			path, _ = filepath.Rel(dir, path)
			files[path] = info
		}
		return ignoreGone(err)
	}))
	return files
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ids makes n IDs that have nothing in common.
func ids(n int) []ID {
	ids := make([]ID, n)
	for i := range ids {
		key := sha256.Sum256(fmt.Append(nil, i))
		ids[i] = ID{Scope: "00112233445566ff", Key: hex.EncodeToString(key[:])}
	}
	return ids
}

// contentOf is what a variant of that ID and size consists of: cut short or mixed up, it is not the same.
func contentOf(id ID, size int) []byte {
	line := fmt.Appendf(nil, "%s %d|", id.Key, size)
	return bytes.Repeat(line, size/len(line)+1)[:size]
}

// checkWhole fails where an open variant is not what was put.
func checkWhole(t testing.TB, v *Variant) {
	t.Helper()
	if err := whole(v); err != nil {
		t.Error(err)
	}
}

func whole(v *Variant) error {
	got, err := io.ReadAll(v.Content)
	if err != nil {
		return err
	}
	if int64(len(got)) != v.Size || !bytes.Equal(got, contentOf(v.ID, len(got))) {
		return fmt.Errorf("variant %.8s of %d bytes reads as %d bytes that are not its own", v.ID.Key, v.Size, len(got))
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, content, 0o600))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
