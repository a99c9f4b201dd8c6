package source

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

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

	opened  os.FileInfo
	more    atomic.Int32 // holders besides the first
	calls   *calls       // makes the system calls on File; nil: whoever wants one does
	timeout time.Duration
}

// NewInput makes an Input of a file, for an Opener of another kind: of audio that was fetched into a file, say. The
// file is the Input's from then on; where NewInput fails, which it does for anything but a regular file, it is closed.
//
// ext is the extension of the source's name, or the name itself, and may be anything a client sent. validator must
// change whenever the content does; without such a thing it is "", and then nothing about the source is remembered.
func NewInput(file *os.File, ext, validator string) (*Input, error) {
	in, err := newInput(file, ext)
	if err == nil && strings.ContainsAny(validator, "\r\n") {
		err = fmt.Errorf("%w: the validator has a line break", ErrUnavailable)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	in.Validator = validator
	return in, nil
}

// newInput looks at the file that was opened, not at its name, so that the answer is about what will be read.
func newInput(f *os.File, name string) (*Input, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err) // the file is there: it was opened
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrNotFound, f.Name())
	}
	return &Input{File: f, Ext: extension(name), Size: info.Size(), opened: info}, nil
}

// Revision tells contents apart that one name had one after another: the Validator where there is one. Else it is what
// the operating system knows of the file, which is enough to share a render by, but not to keep anything by; "" where
// that is not known either.
func (in *Input) Revision() string {
	if in.Validator != "" {
		return in.Validator
	}
	return revision(in.opened)
}

// Hold keeps the input open for one more holder, who closes it too.
func (in *Input) Hold() { in.more.Add(1) }

// Close gives back the descriptor, once every holder has closed the input. Children that already got it keep theirs.
// Closing a local file never blocks: it is done a moment later, however long the file system takes.
func (in *Input) Close() error {
	if in.more.Add(-1) >= 0 {
		return nil
	}
	if in.calls == nil {
		return in.File.Close()
	}
	in.calls.later(func() { in.File.Close() })
	return nil
}

// Reader returns a reader over the whole source with an offset of its own, for any number of them at once. A file system
// that does not answer is ErrUnavailable, in the time that opening the source might have taken.
func (in *Input) Reader() *io.SectionReader { return io.NewSectionReader(content{in}, 0, in.Size) }

// content reads an Input within bounds.
type content struct{ in *Input }

func (c content) ReadAt(p []byte, at int64) (int, error) {
	in := c.in
	if in.calls == nil {
		return in.File.ReadAt(p, at)
	}
	read := func() ([]byte, error) {
		own := make([]byte, len(p)) // a read that comes back late must not write to what is the caller's
		n, err := in.File.ReadAt(own, at)
		return own[:n], err
	}
	piece, err := call(context.Background(), in.calls, in.timeout, read, func([]byte) {})
	return copy(p, piece), err
}

// Unchanged compares the open file with what it was when it was opened, by inode, size and modification time, and
// returns ErrChanged if it has been written to since. A new file under the same name is no change: this one is still
// what it was. It waits until ctx ends, and no longer than the opening of this input might have taken; a file system
// that does not answer by then is ErrUnavailable.
func (in *Input) Unchanged(ctx context.Context) error {
	look := func() (os.FileInfo, error) {
		now, err := in.File.Stat()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return now, nil
	}
	var now os.FileInfo
	var err error
	if in.calls == nil {
		now, err = look()
	} else {
		now, err = call(ctx, in.calls, in.timeout, look, func(os.FileInfo) {})
	}
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
