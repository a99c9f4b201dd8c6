// Package source opens the audio that variants are made from. A source is opened once: what was checked is what is
// read, and what is handed to ffmpeg, so nothing can be swapped in between.
//
// What a path may be called is the business of package urlapi; this package says what may be opened, and trusts no
// path for having been checked before.
package source

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
)

var (
	// ErrNotFound is the one answer for all that a client must not tell apart: a source that is not there, is not
	// allowed, leads out of the root or is not a regular file. It is wrapped around the reason, which is for the log.
	ErrNotFound = errors.New("source not found")

	// ErrUnavailable says that nothing is known about the source, because the machine or the place it is kept at is in
	// trouble: out of file descriptors, an I/O error, a share that does not answer. Asking again may help.
	ErrUnavailable = errors.New("source unavailable")

	// ErrChanged says that a source was written to while it was open. What was made from it must not be kept.
	ErrChanged = errors.New("source changed while it was read")
)

// Opener opens the sources of one kind. The path is that of urlapi.Source. Errors are ErrNotFound, ErrUnavailable or
// the context's own. It may be called concurrently.
//
// Opening is also how to ask for the validator alone: close the Input again. For a local file that costs little more
// than a stat, and tells whether the file could be read as well.
type Opener interface {
	Open(ctx context.Context, path string) (*Input, error)
}

// Input is an opened source. Its fields do not change. Whoever opened it closes it, once nobody reads from it any
// more.
type Input struct {
	// File is a regular file, open for reading. Give it to a child process as one of exec.Cmd's ExtraFiles. The
	// child's descriptor shares its offset with this one and with that of every other child, so several can read at
	// once only if each opens its descriptor anew (by name, /proc/self/fd/3) or reads at positions of its own.
	File *os.File

	// Ext is the extension of the source's name, in lower case and with its dot, if it is short and plain; else "".
	// It may be put into a file name or an argument as it is.
	Ext string

	// Size in bytes when the source was opened.
	Size int64

	// Validator changes whenever the content does, as far as the source's keeper can tell. It is "" where there is
	// none, and never has a line break in it.
	Validator string

	opened os.FileInfo
	more   atomic.Int32 // holders besides the first
}

// Hold keeps the input open for one more holder, who closes it too.
func (in *Input) Hold() { in.more.Add(1) }

// Close gives back the descriptor, once every holder has closed the input. Children that already got it keep theirs.
func (in *Input) Close() error {
	if in.more.Add(-1) >= 0 {
		return nil
	}
	return in.File.Close()
}

// Reader returns a reader over the whole source with an offset of its own, for any number of them at once.
func (in *Input) Reader() *io.SectionReader { return io.NewSectionReader(in.File, 0, in.Size) }

// Unchanged compares the open file with what it was when it was opened, by inode, size and modification time, and
// returns ErrChanged if it has been written to since. A new file under the same name is no change: this one is still
// what it was.
func (in *Input) Unchanged() error {
	now, err := in.File.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(in.opened, now) || now.Size() != in.opened.Size() || !now.ModTime().Equal(in.opened.ModTime()) {
		return ErrChanged
	}
	return nil
}

// maxExt is ample: no audio format that ffmpeg reads by its extension has one longer than this.
const maxExt = 8

// extension returns the extension of a slash-separated path, if it is safe to pass on. The rest of a client's file
// name never is: a percent sign is a pattern to ffmpeg, and a colon a protocol.
func extension(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return ""
	}
	ext := strings.ToLower(name[dot+1:])
	if ext == "" || len(ext) > maxExt || strings.Trim(ext, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return "." + ext
}
