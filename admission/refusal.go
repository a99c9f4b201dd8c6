package admission

import (
	"errors"
	"fmt"
	"time"
)

// What a [Refusal] is, for errors.Is.
var (
	ErrFull      = errors.New("no slot is free and the queue is full")
	ErrDisplaced = errors.New("displaced from the queue by a better class")
	ErrTimeout   = errors.New("waited too long in the queue")
	ErrShutdown  = errors.New("shutting down")
)

// Other errors a ticket can end with.
var (
	// ErrGivenUp is what a ticket holds after its owner gave it up.
	ErrGivenUp = errors.New("given up by its owner")

	// ErrPending is returned by [Ticket.Lease] before the ticket is decided.
	ErrPending = errors.New("still waiting")

	// ErrTaken is returned by [Ticket.Lease] when the lease was taken before.
	// There is one owner, and whoever took it first is it.
	ErrTaken = errors.New("the lease was taken before")
)

// Reason says why a caller was sent away.
type Reason uint8

// The reasons. The zero value is none at all.
const (
	Full      Reason = iota + 1 // no slot and no room to wait
	Displaced                   // a better class took the place in the queue
	Timeout                     // waited longer than its owner allows
	Shutdown                    // the budget is closed
)

var reasons = [...]struct {
	name string
	err  error
}{
	Full:      {"full", ErrFull},
	Displaced: {"displaced", ErrDisplaced},
	Timeout:   {"timeout", ErrTimeout},
	Shutdown:  {"shutdown", ErrShutdown},
}

// String returns the reason as metrics name it, and "" for none.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasons[r].name
}

// Refusal is the error of a caller that was sent away. errors.Is matches it
// with [ErrFull], [ErrDisplaced], [ErrTimeout] and [ErrShutdown].
type Refusal struct {
	Reason Reason
	Class  Class

	// RetryAfter is when it is worth coming back: a whole number of seconds,
	// at least one.
	RetryAfter time.Duration
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("render of class %s refused: %v (retry after %s)", r.Class, r.Unwrap(), r.RetryAfter)
}

// Unwrap returns the sentinel error of the reason.
func (r *Refusal) Unwrap() error {
	if int(r.Reason) >= len(reasons) {
		return nil
	}
	return reasons[r.Reason].err
}
