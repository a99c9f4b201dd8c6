package source

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

const (
	// trusted is how long a folder is held open, to be shared by the requests of that time. When it is over the
	// folder is looked up by its name again: another one may have taken it (a symbolic link that was switched, a mount
	// that came late), and what is held open can't be unmounted.
	trusted = time.Second

	// maxFolders bounds the folders that are held open, and with maxNames and maxNameBytes the memory for what is in
	// them: about 6 MB.
	maxFolders = 32

	// maxNames is how many names in a folder are listed. Listing more takes longer than asking for each of a file's
	// possible names would.
	maxNames     = 2000
	maxNameBytes = 128 << 10
)

// folder is one that is held open.
type folder struct {
	*os.Root
	until   time.Time // trusted
	listing atomic.Pointer[listing]

	// Guarded by folders.mu.
	users   int
	retired bool // closed when the last user is done
}

// folders are those of one place that are open. They close by themselves.
type folders struct {
	system system
	calls  *calls // closes them

	mu     sync.Mutex
	open   map[string]*folder // by path; the root's is "."
	closed bool
}

// use returns the folder, opening it where it is not open. fresh reports that it was opened for this call. Give it
// back with release.
func (fs *folders) use(dir string, until time.Time, open func() (*os.Root, error)) (f *folder, fresh bool, err error) {
	fs.mu.Lock()
	if f = fs.open[dir]; f != nil {
		f.users++
		fs.mu.Unlock()
		return f, false, nil
	}
	closed := fs.closed
	fs.mu.Unlock()
	if closed {
		return nil, false, os.ErrClosed
	}
	root, err := open() // without the lock: it may take for ever
	if err != nil {
		return nil, false, err
	}
	f = &folder{Root: root, until: until, users: 1}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed || fs.open[dir] != nil {
		f.retired = true // somebody was faster; this one is for this call alone
		return f, true, nil
	}
	fs.makeRoom()
	fs.open[dir] = f
	time.AfterFunc(time.Until(until), guard.Func(func() { fs.retire(dir, f) }))
	return f, true, nil
}

// makeRoom retires any folder but the root where there are too many.
func (fs *folders) makeRoom() {
	for dir, f := range fs.open {
		if len(fs.open) < maxFolders {
			return
		}
		if dir != "." {
			fs.drop(dir, f)
		}
	}
}

func (fs *folders) release(f *folder) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.users--
	fs.closeUnused(f)
}

// retire has the folder opened anew by whoever needs it next.
func (fs *folders) retire(dir string, f *folder) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.open[dir] == f {
		fs.drop(dir, f)
	}
}

// retireAll does so for all that are open.
func (fs *folders) retireAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for dir, f := range fs.open {
		fs.drop(dir, f)
	}
}

func (fs *folders) drop(dir string, f *folder) {
	delete(fs.open, dir)
	f.retired = true
	fs.closeUnused(f)
}

func (fs *folders) closeUnused(f *folder) {
	if f.retired && f.users == 0 {
		fs.calls.later(func() { f.Root.Close() })
	}
}

// listing is what was in a folder.
type listing struct {
	folder os.FileInfo         // as it was then
	names  map[string]struct{} // folded; nil where there are too many, or they can't be read
}

// find returns the paths, all of files in this folder, that there may be something at.
func (fs *folders) find(f *folder, paths []string) (found []string, err error) {
	names := fs.names(f)
	var buffer [maxFoldedName]byte
	for _, p := range paths {
		if len(p) > maxPathBytes {
			continue
		}
		_, name := split(p)
		// Where names are compared without regard to case or to how accents are composed, this has to find what
		// opening would find. Letters beyond ASCII are left to the file system, then.
		folded, ok := foldASCII(buffer[:0], name)
		var exists bool
		if names != nil && ok {
			_, exists = names[string(folded)]
		} else if exists, err = fs.exists(f, name); err != nil {
			return nil, err
		}
		if exists {
			found = append(found, p)
		}
	}
	return found, nil
}

func (fs *folders) exists(f *folder, name string) (bool, error) {
	if name == "." || checkPath(name) != "" {
		return false, nil
	}
	err := fs.system.lookUp(f.Root, name)
	if err == nil {
		return true, nil
	}
	if err = classify(err); errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return false, err
}

// names are those in the folder, or nil where there is no list of them. A list is good until something is added to or
// taken from the folder, and no longer than the folder is held open.
func (fs *folders) names(f *folder) map[string]struct{} {
	now, err := fs.system.stat(f.Root)
	if err != nil {
		return nil
	}
	if l := f.listing.Load(); l != nil && os.SameFile(l.folder, now) && l.folder.ModTime().Equal(now.ModTime()) {
		return l.names
	}
	l := &listing{folder: now}
	if names, err := fs.system.list(f.Root, maxNames+1); err == nil {
		l.names = index(names)
	}
	f.listing.Store(l)
	return l.names
}

// index makes the list, if it is not too long.
func index(names []string) map[string]struct{} {
	bytes := 0
	for _, name := range names {
		bytes += len(name)
	}
	if len(names) > maxNames || bytes > maxNameBytes {
		return nil
	}
	folded := make(map[string]struct{}, len(names))
	for _, name := range names {
		folded[foldCase(name)] = struct{}{}
	}
	return folded
}

// maxFoldedName is the longest name that file systems take.
const maxFoldedName = 255

// foldASCII writes a name in lower case to buffer; ok says that it is ASCII, and not too long.
func foldASCII(buffer []byte, name string) (folded []byte, ok bool) {
	if len(name) > maxFoldedName {
		return nil, false
	}
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return nil, false
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buffer = append(buffer, c)
	}
	return buffer, true
}

// foldCase makes names equal that differ in case alone. To upper case first: there are letters, such as the Kelvin sign,
// that are not ASCII until they are folded.
func foldCase(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// system is what is asked of the operating system, for tests to count and to answer otherwise. None of it waits for
// anything but the file system: not for the other end of a FIFO, nor for a device.
type system struct {
	openRoot   func(name string) (*os.Root, error)
	openFolder func(root *os.Root, path string) (*os.Root, error)
	openFile   func(root *os.Root, path string) (*os.File, error)
	stat       func(folder *os.Root) (os.FileInfo, error)
	lookUp     func(folder *os.Root, name string) error
	list       func(folder *os.Root, atMost int) ([]string, error)
}

var realSystem = system{
	openRoot: os.OpenRoot,
	openFolder: func(root *os.Root, path string) (*os.Root, error) {
		return root.OpenRoot(path + "/") // with the slash, a FIFO is refused before it is opened
	},
	openFile: func(root *os.Root, path string) (*os.File, error) {
		return root.OpenFile(path, os.O_RDONLY|openFlags, 0)
	},
	stat: func(folder *os.Root) (os.FileInfo, error) { return folder.Stat(".") },
	lookUp: func(folder *os.Root, name string) error {
		_, err := folder.Lstat(name)
		return err
	},
	list: listNames,
}

func listNames(folder *os.Root, atMost int) ([]string, error) {
	f, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(atMost)
	if errors.Is(err, io.EOF) {
		return nil, nil // an empty folder
	}
	return names, err
}
