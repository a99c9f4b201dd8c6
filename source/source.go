// Package source opens the audio that variants are made from. A source is opened once: what was checked is what is
// read, and what is handed to ffmpeg, so nothing can be swapped in between.
//
// What a path may be called is the business of package urlapi; this package says what may be opened, and trusts no
// path for having been checked before.
package source

import (
	"context"
	"errors"
)

var (
	// ErrNotFound is the one answer for all that a client must not tell apart: a source that is not there, is not
	// allowed, leads out of the root or is not a regular file. It is wrapped around the reason, which is for the log.
	ErrNotFound = errors.New("source not found")

	// ErrUnavailable says that nothing is known about the source, because the machine or the place it is kept at is in
	// trouble: out of file descriptors, an I/O error, a share that does not answer. Asking again may help. It is
	// wrapped around the system's error, so that errors.Is(err, syscall.EMFILE) still says what has run out.
	ErrUnavailable = errors.New("source unavailable")

	// ErrChanged says that a source was written to while it was open. What was made from it must not be kept.
	ErrChanged = errors.New("source changed while it was read")
)

// Opener opens the sources of one kind. The path is that of urlapi.Source. Errors are ErrNotFound, ErrUnavailable (also
// when the context's deadline passes) or the context's own. It may be called concurrently. ctx is about the opening
// alone: it may end as soon as Open has returned.
//
// Opening is also how to ask for the validator alone: close the Input again. For a local file that costs little more
// than a stat, and tells whether the file could be read as well.
type Opener interface {
	Open(ctx context.Context, path string) (*Input, error)
}

// Finder is an Opener that can tell for many paths at once, and cheaply, which are worth opening.
type Finder interface {
	// Existing returns the paths that something may be found at, in the order they were given in. What it leaves out
	// is not there; what it returns may still turn out not to be, nor to be a file. Errors are those of Open, but for
	// ErrNotFound.
	Existing(ctx context.Context, paths []string) ([]string, error)
}
