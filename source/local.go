package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// Bounds of a path below the root: what the URL API admits.
const (
	maxPathBytes      = 1024
	maxPathComponents = 64
)

// Local opens the regular files below one directory, and nothing else. Symbolic links are followed while they are
// relative and stay inside; an absolute one is refused even where it points inside (the rule of os.Root).
//
// The directory is held open from OpenLocal to Close: if another one takes its name, Local goes on serving the one it
// was opened on.
type Local struct{ root *os.Root }

var _ Opener = (*Local)(nil)

// OpenLocal opens the directory that paths are relative to.
func OpenLocal(root string) (*Local, error) {
	if root == "" {
		return nil, errors.New("opening source root: no directory given")
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening source root: %w", err)
	}
	return &Local{root: r}, nil
}

// Close lets go of the directory. Inputs that were opened stay open.
func (l *Local) Close() error { return l.root.Close() }

// Open opens the file at a slash-separated path relative to the root, in folded form. It never waits for anything but
// the file system: not for the other end of a FIFO, nor for a device.
func (l *Local) Open(ctx context.Context, path string) (*Input, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if reason := checkPath(path); reason != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, reason)
	}
	f, err := l.root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, classify(err)
	}
	in, err := newLocalInput(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return in, nil
}

// newLocalInput looks at the file that was opened, not at its name, so that the answer is about what will be read.
func newLocalInput(f *os.File, path string) (*Input, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, classify(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrNotFound, f.Name())
	}
	return &Input{
		File:      f,
		Ext:       extension(path),
		Size:      info.Size(),
		Validator: fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano()),
		opened:    info,
	}, nil
}

// checkPath keeps from the file system what no well-formed source has. Its length comes first: a path must not be
// expensive to refuse.
func checkPath(path string) (reason string) {
	switch {
	case len(path) > maxPathBytes:
		return "path too long"
	case strings.Count(path, "/") >= maxPathComponents:
		return "path too deep"
	case !fs.ValidPath(path):
		return "path not in folded form, or not UTF-8"
	case strings.ContainsFunc(path, unicode.IsControl):
		return "control character in path"
	}
	return ""
}

// classify tells trouble on our side from a file that cannot be had. Everything that depends on the path is the
// latter: missing, forbidden, a loop, a name too long, a way out of the root.
func classify(err error) error {
	for _, trouble := range troubles {
		if errors.Is(err, trouble) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrNotFound, err)
}
