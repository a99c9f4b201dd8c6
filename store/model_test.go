package store

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a store as one would explain it: a list of variants, and a bound.
type model struct {
	files map[ID]*modelFile
	bound int64
}

type modelFile struct {
	id      ID
	size    int
	used    time.Time
	readers int
}

func (m *model) bytes() (n int64) {
	for _, f := range m.files {
		n += int64(f.size)
	}
	return n
}

// evict removes what was used longest ago, of what nobody reads and then of the rest, until what is left is within
// the bound.
func (m *model) evict(pinned *modelFile) {
	var byUse []*modelFile
	for _, f := range m.files {
		byUse = append(byUse, f)
	}
	slices.SortFunc(byUse, func(a, b *modelFile) int { return a.used.Compare(b.used) })
	for _, read := range []bool{false, true} {
		for _, f := range byUse {
			if m.bytes() > m.bound && f != pinned && (f.readers > 0) == read {
				delete(m.files, f.id)
			}
		}
	}
}

// world is the model beside a real store, and another process that shares its folder and never evicts.
type world struct {
	model
	t     *testing.T
	store *testStore
	other *testStore
	open  []opened
}

type opened struct {
	*Variant
	file *modelFile
}

func TestAnyHistoryEndsAsInTheModel(t *testing.T) {
	all := ids(6)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		w := newWorld(t, dir)
		defer w.close()
		rt.Repeat(map[string]func(*rapid.T){
			"put":      func(rt *rapid.T) { w.put(rt, anID(rt, all), aSize(rt)) },
			"open":     func(rt *rapid.T) { w.use(rt, anID(rt, all)) },
			"close":    func(rt *rapid.T) { w.letGo(rt) },
			"delete":   func(rt *rapid.T) { w.delete(rt, w.store, anID(rt, all)) },
			"bound":    func(rt *rapid.T) { w.setBound(int64(rapid.IntRange(100, 1500).Draw(rt, "bound"))) },
			"restart":  func(*rapid.T) { w.restart() },
			"others":   func(rt *rapid.T) { w.otherPut(anID(rt, all), aSize(rt)) },
			"removed":  func(rt *rapid.T) { w.delete(rt, w.other, anID(rt, all)) },
			"elsewise": func(rt *rapid.T) { w.otherUse(rt, anID(rt, all)) },
			"":         w.check,
		})
	})
}

func anID(rt *rapid.T, all []ID) ID { return rapid.SampledFrom(all).Draw(rt, "id") }
func aSize(rt *rapid.T) int         { return rapid.IntRange(1, 600).Draw(rt, "size") }

func newWorld(t *testing.T, dir string) *world {
	clock := newClock()
	start := func(bound int64) *testStore {
		s, err := openFileSystem(dir, bound, nil, testSystem(clock))
		must(t, err)
		return &testStore{s, t, clock}
	}
	w := &world{model: model{files: make(map[ID]*modelFile), bound: 1000}, t: t}
	w.store, w.other = start(1000), start(1<<40)
	return w
}

func (w *world) close() {
	for _, v := range w.open {
		v.Close()
	}
	must(w.t, w.store.Close())
	must(w.t, w.other.Close())
}

// tick lets a minute pass: uses are then told apart by the disk, and the next put counts the folder.
func (w *world) tick() time.Time {
	w.store.clock.advance(usePrecision + time.Second)
	return w.store.clock.Now()
}

// settle has the store look at what the other process did, as it would at its next put.
func (w *world) settle() {
	w.store.changing.Lock()
	defer w.store.changing.Unlock()
	must(w.t, w.store.count())
}

func (w *world) put(rt *rapid.T, id ID, size int) {
	used := w.tick()
	err := tryPut(w.store, id, size)
	if int64(size) > w.bound {
		if !errors.Is(err, ErrTooLarge) {
			rt.Fatalf("putting %d bytes: %v", size, err)
		}
		return
	}
	must(w.t, err)
	w.files[id] = &modelFile{id, size, used, 0}
	w.evict(w.files[id])
}

func (w *world) use(rt *rapid.T, id ID) {
	used := w.tick()
	v, err := w.store.Open(id)
	file := w.files[id]
	if (err == nil) != (file != nil) {
		rt.Fatalf("opening %.8s: %v; the model has %v", id.Key, err, file)
	}
	if err != nil {
		return
	}
	if v.Size != int64(file.size) {
		rt.Fatalf("opened one of %d bytes, the model's has %d", v.Size, file.size)
	}
	readUnnoticed(rt, v)
	file.used = used
	file.readers++
	w.open = append(w.open, opened{v, file})
}

// readUnnoticed reads a variant and takes back what the kernel notes of that, which is in another time.
func readUnnoticed(rt *rapid.T, v *Variant) {
	if err := whole(v); err != nil {
		rt.Fatal(err)
	}
	_ = os.Chtimes(v.Content.(*os.File).Name(), v.LastUsed, time.Time{})
}

func (w *world) letGo(rt *rapid.T) {
	if len(w.open) == 0 {
		return
	}
	w.settle()
	i := rapid.IntRange(0, len(w.open)-1).Draw(rt, "which")
	v := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	v.Close()
	if v.file.readers--; v.file.readers == 0 {
		w.evict(nil)
	}
}

func (w *world) delete(rt *rapid.T, s *testStore, id ID) {
	w.tick()
	err := s.Delete(id)
	if (err == nil) != (w.files[id] != nil) {
		rt.Fatalf("deleting %.8s: %v", id.Key, err)
	}
	delete(w.files, id)
}

func (w *world) setBound(bound int64) {
	w.settle()
	w.store.SetMaxBytes(bound)
	w.bound = bound
	w.evict(nil)
}

// restart ends the process: nobody reads any more.
func (w *world) restart() {
	must(w.t, w.store.Close())
	for _, v := range w.open {
		v.Content.(*os.File).Close()
		v.file.readers--
	}
	w.open = nil
	s, err := openFileSystem(w.store.dir, w.bound, nil, w.store.system)
	must(w.t, err)
	w.store = &testStore{s, w.t, w.store.clock}
	w.evict(nil)
}

func (w *world) otherPut(id ID, size int) {
	used := w.tick()
	must(w.t, tryPut(w.other, id, size))
	w.files[id] = &modelFile{id, size, used, 0}
}

func (w *world) otherUse(rt *rapid.T, id ID) {
	used := w.tick()
	v, err := w.other.Open(id)
	file := w.files[id]
	if (err == nil) != (file != nil) {
		rt.Fatalf("the other process opening %.8s: %v", id.Key, err)
	}
	if err == nil {
		v.Close()
		file.used = used
	}
}

// check compares the disk with the model, and now and then what the store believes too.
func (w *world) check(rt *rapid.T) {
	var want []string
	for _, f := range w.files {
		want = append(want, w.store.path(f.id, int64(f.size)))
	}
	got := variantsIn(w.store)
	slices.SortFunc(want, cmp.Compare[string])
	if !slices.Equal(got, want) {
		rt.Fatalf("on the disk: %v\nin the model: %v", got, want)
	}
	if rapid.Bool().Draw(rt, "recount") {
		w.settle()
		if stats := w.store.Stats(); stats.Files != int64(len(w.files)) || stats.Bytes != w.bytes() {
			rt.Fatalf("the store believes in %+v", stats)
		}
	}
}

func variantsIn(s *testStore) (paths []string) {
	for _, id := range ids(6) {
		names, _ := s.namesOf(id)
		for _, name := range names {
			_, size, _ := parseName(name)
			paths = append(paths, s.path(id, size))
		}
	}
	slices.Sort(paths)
	return paths
}
