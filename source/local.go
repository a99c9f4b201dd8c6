package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
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
// The directory is the one that has the name now: where another one takes the name, Local serves that within a
// second, and while nobody asks for anything it holds nothing open. A directory that is gone, or does not answer,
// makes every file in it unavailable, and none of them not found.
type Local struct {
	root    string
	calls   *calls
	folders *folders
}

var (
	_ Opener = (*Local)(nil)
	_ Finder = (*Local)(nil)
)

// NewLocal names the directory that paths are relative to, and touches nothing yet. One Local for all who use a
// directory bounds what it costs when it does not answer.
func NewLocal(root string) (*Local, error) {
	if root == "" {
		return nil, errors.New("source root: no directory given")
	}
	root, err := filepath.Abs(root) // it is opened again and again
	if err != nil {
		return nil, fmt.Errorf("source root: %w", err)
	}
	return newLocal(root, realSystem), nil
}

func newLocal(root string, system system) *Local {
	calls := newCalls(maxCalls)
	return &Local{root, calls, &folders{system: system, calls: calls, open: make(map[string]*folder)}}
}

// OpenLocal is NewLocal and Check.
func OpenLocal(root string) (*Local, error) {
	l, err := NewLocal(root)
	if err != nil {
		return nil, err
	}
	if err := l.Check(context.Background()); err != nil {
		return nil, err
	}
	return l, nil
}

// Check says whether the directory can be opened at the moment.
func (l *Local) Check(ctx context.Context) error {
	check := func() (*os.Root, error) { return l.folders.system.openRoot(l.root) }
	root, err := call(ctx, l.calls, timeAllowed(ctx), check, func(r *os.Root) { r.Close() })
	if err != nil {
		return fmt.Errorf("opening source root: %w", err)
	}
	l.calls.later(func() { root.Close() })
	return nil
}

// Close lets go of the directory at once. Inputs that were opened stay open.
func (l *Local) Close() error {
	l.folders.mu.Lock()
	l.folders.closed = true
	l.folders.mu.Unlock()
	l.folders.retireAll()
	return nil
}

// Open opens the file at a slash-separated path relative to the root, in folded form.
func (l *Local) Open(ctx context.Context, path string) (*Input, error) {
	if reason := checkPath(path); reason != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, reason)
	}
	timeout := timeAllowed(ctx)
	open := func() (*Input, error) {
		return inRoot(l, func(root *folder) (*Input, error) { return l.open(root, path) })
	}
	in, err := call(ctx, l.calls, timeout, open, func(in *Input) { in.File.Close() })
	if err != nil {
		return nil, err
	}
	in.calls, in.timeout = l.calls, timeout
	return in, nil
}

func (l *Local) open(root *folder, path string) (*Input, error) {
	name := filepath.FromSlash(path)
	f, err := l.folders.system.openFile(root.Root, name)
	if err != nil {
		// A socket, or a device without a driver, says no more than "no such device".
		if info, e := root.Stat(name); e == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w: %s is not a regular file", ErrNotFound, path)
		}
		return nil, classify(err)
	}
	in, err := newInput(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	in.Validator = validator(in.opened)
	return in, nil
}

// validator is made of size and modification time. Where every file has the same time there is none: package managers
// such as Nix, and rsync without times, set the first or second second of 1970.
func validator(info os.FileInfo) string {
	if s := info.ModTime().Unix(); s == 0 || s == 1 {
		return ""
	}
	return fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano())
}

// Existing tells which of the paths there may be files at, from lists of the folders they are in.
func (l *Local) Existing(ctx context.Context, paths []string) ([]string, error) {
	look := func() ([]string, error) {
		return inRoot(l, func(root *folder) ([]string, error) { return l.existing(root, paths) })
	}
	found, err := call(ctx, l.calls, timeAllowed(ctx), look, func([]string) {})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return found, err
}

// existing is ErrNotFound where there is none.
func (l *Local) existing(root *folder, paths []string) ([]string, error) {
	var found []string
	for start := 0; start < len(paths); {
		dir, name := split(paths[start])
		folder := paths[start][:len(paths[start])-len(name)] // with its slash
		end := start + 1
		for end < len(paths) && strings.HasPrefix(paths[end], folder) && strings.IndexByte(paths[end][len(folder):], '/') < 0 {
			end++
		}
		some, err := l.existingIn(root, dir, paths[start:end])
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		found = append(found, some...)
		start = end
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q and other names for it", ErrNotFound, paths[:min(1, len(paths))])
	}
	return found, nil
}

// split is path.Split, with "." for the root and no slash at the end.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ".", path
	}
	return path[:i], path[i+1:]
}

// existingIn looks for paths that are all in one folder.
func (l *Local) existingIn(root *folder, dir string, paths []string) (found []string, err error) {
	in := root
	if dir != "." {
		reason := checkPath(dir)
		if reason == "" && strings.Count(dir, "/")+1 >= maxPathComponents {
			reason = "path too deep"
		}
		if reason != "" {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, reason)
		}
		in, _, err = l.folders.use(dir, root.until, func() (*os.Root, error) {
			return l.folders.system.openFolder(root.Root, filepath.FromSlash(dir))
		})
		if err != nil {
			return nil, classify(err)
		}
		defer l.folders.release(in)
	}
	return l.folders.find(in, paths)
}

// inRoot does something in the root. That something is not found is believed only of the directory that has the root's
// name now: the one that is held open may have lost it.
func inRoot[T any](l *Local, do func(root *folder) (T, error)) (result T, err error) {
	for range 2 {
		root, fresh, err := l.folders.use(".", time.Now().Add(trusted), func() (*os.Root, error) {
			return l.folders.system.openRoot(l.root)
		})
		if err != nil {
			return result, fmt.Errorf("%w: opening source root: %w", ErrUnavailable, err)
		}
		result, err = do(root)
		current := fresh || !errors.Is(err, ErrNotFound) || l.hasName(root)
		l.folders.release(root)
		if current {
			return result, err
		}
		l.folders.retireAll()
	}
	return result, fmt.Errorf("%w: the source root is being replaced", ErrUnavailable)
}

// hasName reports whether the folder is still what the root's name leads to.
func (l *Local) hasName(root *folder) bool {
	held, err := root.Stat(".")
	if err != nil {
		return false
	}
	named, err := os.Stat(l.root)
	return err == nil && os.SameFile(held, named)
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
