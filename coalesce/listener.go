package coalesce

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// ErrStored is what Ready returns when the flight found the variant in the store after all: it had just been
// put there. Open it from the store.
var ErrStored = errors.New("the variant is in the store")

// Listener is one reader of a flight. Its methods are for one goroutine; Close it when done.
type Listener struct {
	flight *flight
	class  admission.Class
	offset int64
	left   bool
}

// Ready blocks until there is something to read. Where the flight has failed it returns how, even if there is
// something to read: an error from here can still be answered, one from More or Read cannot.
func (l *Listener) Ready(ctx context.Context) error {
	return l.flight.await(ctx, func() bool { return l.flight.visible > 0 })
}

// Complete blocks until the whole variant is there, and returns how the flight ended when it failed.
func (l *Listener) Complete(ctx context.Context) error {
	return l.flight.await(ctx, func() bool { return false })
}

// More blocks until there is something to Read. It returns io.EOF at the end of a complete variant, and how the
// flight ended where it ended otherwise.
func (l *Listener) More(ctx context.Context) error {
	more := false
	err := l.flight.await(ctx, func() bool {
		more = l.flight.visible > l.offset
		return more
	})
	switch {
	case more && !errors.Is(err, store.ErrLetGo):
		return nil // a flight that failed is heard out first
	case err != nil:
		return err
	}
	return io.EOF
}

// Read reads on in the variant, as far as it has been written. It does not wait: 0 and no error mean that the
// listener has caught up.
func (l *Listener) Read(p []byte) (int, error) {
	f := l.flight
	for {
		f.mu.Lock()
		live, visible, dropped := f.live, f.visible, f.dropped
		f.mu.Unlock()
		if dropped {
			return 0, store.ErrLetGo
		}
		if visible <= l.offset {
			return 0, nil
		}
		n, err := live.ReadAt(p[:min(int64(len(p)), visible-l.offset)], l.offset)
		l.offset += int64(n)
		f.heard.Add(int64(n))
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, os.ErrClosed):
			// The render moved to another spool between our look and our read: look again.
		case errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF // somebody cut the file: this is not the variant's end
		default:
			return 0, err
		}
	}
}

// Final is the finished file, once Complete has returned nil. It is open until the listener is closed; read it
// with ReadAt.
func (l *Listener) Final() (io.ReaderAt, int64) {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	return heardFile{f.final, f}, f.finalSize
}

// heardFile is a finished file whose readers are seen to move.
type heardFile struct {
	file   *os.File
	flight *flight
}

func (h heardFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.file.ReadAt(p, off)
	h.flight.heard.Add(int64(n))
	return n, err
}

// OnLetGo has letGo called when the flight, which has ended, cannot wait for its listeners any more: they stand
// still, and the room that its files take is needed. The listener is told store.ErrLetGo from then on, so letGo need
// only end what keeps it from reading. It is called from another goroutine, maybe more than once, and not after
// Close; it must not call the listener.
func (l *Listener) OnLetGo(letGo func()) {
	l.flight.lettingGo.Lock()
	defer l.flight.lettingGo.Unlock()
	l.flight.letGo[l] = letGo
}

// Stored reports, once Complete has returned nil, whether the store took the variant.
func (l *Listener) Stored() bool {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored
}

// Times are how long the flight waited for its slot, and took from there to its first byte.
func (l *Listener) Times() (wait, prepare, firstByte time.Duration) {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.summary.Wait, f.prepared, f.summary.FirstByte
}

// Close leaves the flight. The last one to leave ends it, unless it is complete already or may go on for the
// store. Closing twice is harmless.
func (l *Listener) Close() {
	if !l.left {
		l.left = true
		l.flight.lettingGo.Lock()
		delete(l.flight.letGo, l)
		l.flight.lettingGo.Unlock()
		l.flight.leave(l.class)
	}
}
