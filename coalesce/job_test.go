package coalesce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// errKilled is what a job says whose encoder was killed. It is not for listeners.
var errKilled = errors.New("signal: killed")

// job is a Job under the test's control: its encoder does what it is told, step by step.
type job struct {
	site  *site
	id    store.ID
	steps chan step

	prepare func(context.Context) error // nil: there is nothing to prepare
	die     chan struct{}               // nil: a killed encoder is gone at once; else when this is closed
	onClose func()

	prepares, renders, closes, busy atomic.Int32
}

// step is one thing that the encoder does. It ends when over is true.
type step func(out *output) (over bool, err error)

// output is what an encoder writes to.
type output struct {
	spool *coalesce.Spool
	live  *os.File
}

func newJob(s *site, id store.ID) *job { return &job{site: s, id: id, steps: make(chan step)} }

func (j *job) Prepare(ctx context.Context) error {
	j.prepares.Add(1)
	j.busy.Add(1)
	defer j.busy.Add(-1)
	if j.prepare == nil {
		return nil
	}
	return j.prepare(ctx)
}

func (j *job) Render(ctx context.Context, spool *coalesce.Spool) error {
	j.renders.Add(1)
	j.busy.Add(1)
	defer j.busy.Add(-1)
	j.site.encoderStarts(j)
	defer j.site.encoderEnds(j)
	live, err := os.OpenFile(filepath.Join(spool.Dir(), coalesce.LiveName), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer live.Close()
	for {
		select {
		case do := <-j.steps:
			if over, err := do(&output{spool, live}); over {
				return err
			}
		case <-ctx.Done():
			if j.die != nil {
				<-j.die
			}
			return errKilled
		}
	}
}

func (j *job) Close() {
	if j.closes.Add(1) > 1 || j.busy.Load() > 0 {
		j.site.note("a job was closed twice, or before it was done")
	}
	if j.onClose != nil {
		j.onClose()
	}
}

func (s *site) encoderStarts(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encoding[j.id] != nil {
		s.wrong = append(s.wrong, fmt.Sprintf("two encoders for %s at once", j.id.Key[:1]))
	}
	s.encoding[j.id] = j
}

func (s *site) note(wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, wrong)
}

func (s *site) encoderEnds(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.encoding, j.id)
}

// write has the encoder write, and its listeners see it.
func (j *job) write(text string) {
	j.steps <- func(out *output) (bool, error) {
		_, err := io.WriteString(out.live, text)
		out.spool.Release()
		return err != nil, err
	}
}

// hide has the encoder write what listeners may not see yet.
func (j *job) hide(text string) {
	j.steps <- func(out *output) (bool, error) {
		_, err := io.WriteString(out.live, text)
		return err != nil, err
	}
}

// final has the encoder write the file to keep beside the one that is streamed.
func (j *job) final(text string) {
	j.steps <- func(out *output) (bool, error) {
		err := os.WriteFile(filepath.Join(out.spool.Dir(), coalesce.FinalName), []byte(text), 0o600)
		return err != nil, err
	}
}

// end ends the encoder.
func (j *job) end(err error) {
	j.steps <- func(*output) (bool, error) { return true, err }
}

func (j *job) panic() {
	j.steps <- func(*output) (bool, error) { panic("a bug") }
}

// memoryStore is a Store that keeps variants in memory, and fails where it is told to.
type memoryStore struct {
	mu       sync.Mutex
	variants map[store.ID][]byte
	stages   int
	asked    []int64 // of MakeRoom

	stageErr, openErr, putErr error
	room                      bool          // what MakeRoom says
	putting                   chan struct{} // where not nil, Put waits for it
}

func (m *memoryStore) Open(id store.ID) (*store.Variant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, found := m.variants[id]
	if !found {
		return nil, store.ErrNotFound
	}
	if m.openErr != nil {
		return nil, m.openErr
	}
	return store.NewVariant(store.Info{ID: id}, bytes.NewReader(content), func() {}), nil
}

func (m *memoryStore) Stat(id store.ID) (store.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, found := m.variants[id]
	if !found {
		return store.Info{}, store.ErrNotFound
	}
	return store.Info{ID: id, Size: int64(len(content)), Stored: time.Now()}, nil
}

func (m *memoryStore) Stage() (*store.Stage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages++
	if m.stageErr != nil {
		return nil, m.stageErr
	}
	return store.TempStage()
}

func (m *memoryStore) Put(id store.ID, path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.putting != nil {
		m.mu.Unlock()
		<-m.putting
		m.mu.Lock()
	}
	if m.putErr != nil {
		return m.putErr
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	m.variants[id] = content
	return os.Remove(path)
}

func (m *memoryStore) Delete(id store.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.variants, id)
	return nil
}

func (m *memoryStore) MakeRoom(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, n)
	return m.room
}

func (m *memoryStore) List(string) ([]store.Info, error) { return nil, nil }

func (m *memoryStore) Stats() store.Stats { return store.Stats{} }

// kept is the stored variant, "" where there is none.
func (m *memoryStore) kept(id store.ID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.variants[id])
}

var (
	_ coalesce.Job = (*job)(nil)
	_ store.Store  = (*memoryStore)(nil)
)
