// Package coalesce gives everybody who asks for one variant the same render of it.
//
// A Group holds one flight per variant. A flight waits for a slot of the render budget, renders into a spool
// (a file that the encoder writes itself), and ends complete, failed or cancelled. Listeners join at any moment
// and read the spool from its beginning, behind the encoder's write position. A flight belongs to the process:
// a listener that leaves takes nothing from the others, and the last one to leave cancels it.
//
// The package knows nothing of encoders (a Job does the rendering) or of HTTP.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// Endings other than complete. A Job's own error, an *admission.Refusal and these are what a listener can be
// told.
var (
	// ErrTimeout: the render ran, and ran out of time.
	ErrTimeout = errors.New("the render took too long")
	// ErrTooLarge: the variant grew beyond its bound.
	ErrTooLarge = errors.New("the variant is larger than allowed")
	// ErrCancelled: somebody ended the flight before it was done.
	ErrCancelled = errors.New("the render was cancelled")
	// ErrClosed: the group was closed. It is an ErrCancelled.
	ErrClosed = fmt.Errorf("%w: shutting down", ErrCancelled)
	// ErrPrepared is what a job's Prepare returns when there is nothing to render.
	ErrPrepared = errors.New("there is nothing to render")
	// ErrNoSpace: the file system of the spool is full. Jobs return it (wrapped) to have another spool tried.
	ErrNoSpace = errors.New("no space left for the render")
)

// Job is what a flight does for its listeners.
type Job interface {
	// Prepare does what must be known before the render can start. It runs in the flight's slot, as Render does,
	// and returns once everything it started is gone. ErrPrepared says that there is nothing to render: the flight
	// is complete with that, and has no file.
	Prepare(ctx context.Context) error
	// Render writes the variant into the spool. It returns once everything it started is gone; nil means
	// that the variant is proven complete. It calls spool.Release as soon as followers may see what is
	// written. It may be called again with another spool after ErrNoSpace.
	Render(ctx context.Context, spool *Spool) error
	// Close gives up what the job holds. It is called once, whether or not Render was, and last of all. It may
	// give up the last hold on the Group, and so close it; it must not panic.
	Close()
}

// Terms are how a flight is run. They are those of whoever starts it; who joins takes them as they are.
type Terms struct {
	Store store.Store // nil: nothing is kept

	// Timeout is how long a flight may have its slot, and also how long it may wait for it: the first ends with
	// ErrTimeout, the second with an *admission.Refusal. It must be positive.
	Timeout time.Duration
	// MaxSize bounds the variant, in bytes; 0 = unbounded. A spool may outgrow it by what is written until
	// somebody looks, some 25 ms later; listeners see nothing beyond it.
	MaxSize int64

	// FinishAbandoned lets a render that nobody listens to any more go on for the store while nobody waits for
	// its slot.
	FinishAbandoned bool

	// Ended, when set, is told how the flight went, from its own goroutine.
	Ended func(Summary)
}

// Summary is how a flight went.
type Summary struct {
	ID        store.ID
	Job       Job           // what it was started with; it is closed later
	Class     string        // of its best listener, when it asked for a slot; "" = it never did
	Wait      time.Duration // from its start to its slot
	FirstByte time.Duration // from the start of the render; 0 = there was none
	Render    time.Duration // 0 = never began
	Bytes     int64
	Stored    bool
	StoreErr  error // why a complete variant was not kept
	Err       error // nil = complete
}
