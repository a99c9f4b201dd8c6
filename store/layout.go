package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// How variants lie in the folder.

// fanDigits is how many digits of the key name the folder that a variant lies in.
const fanDigits = 2

func (s *FileSystem) fanDir(id ID) string { return s.dirOf(id.fan()) }

func (s *FileSystem) path(id ID, size int64) string {
	return filepath.Join(s.fanDir(id), id.Key+"."+strconv.FormatInt(size, 10))
}

// parseName is the inverse of the last element of path.
func parseName(name string) (key string, size int64, ok bool) {
	key, digits, found := strings.Cut(name, ".")
	size, err := strconv.ParseInt(digits, 10, 64)
	ok = found && isHexOf(key, keyDigits) && err == nil && size >= 0 && digits == strconv.FormatInt(size, 10)
	return key, size, ok
}

// readNames lists a folder. One that is not there is empty.
func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		if info, statErr := d.Stat(); statErr == nil && !info.IsDir() {
			return nil, errNoFolder
		}
	}
	return names, err
}

// errNoFolder: what has a folder's name is none, and none of the store's business.
var errNoFolder = errors.New("not a folder")

// namesOf lists the names of a variant: none or one, but for what was put there by hand, and for a moment while
// another process replaces it.
func (s *FileSystem) namesOf(id ID) ([]string, error) {
	names, err := s.system.list(s.fanDir(id))
	own := names[:0]
	for _, name := range names {
		if !strings.HasPrefix(name, id.Key) {
			continue // before anything is parsed
		}
		if key, _, ok := parseName(name); ok && key == id.Key {
			own = append(own, name)
		}
	}
	return own, err
}

// isWhole reports whether a file is the variant of that size: an empty one is none.
func isWhole(info fs.FileInfo, size int64) bool {
	return info.Mode().IsRegular() && info.Size() == size && size > 0
}

// errBroken: what has a variant's name is none.
var errBroken = errors.New("not a whole variant")

// readEntry looks at the file of a variant. It returns errBroken where what is there is not that variant.
func (s *FileSystem) readEntry(id ID, size int64) (*entry, error) {
	info, err := os.Lstat(s.path(id, size))
	if err != nil {
		return nil, err
	}
	if !isWhole(info, size) {
		return nil, errBroken
	}
	used := lastUsed(info)
	return &entry{id: id, size: size, stored: info.ModTime(), used: used, marked: used}, nil
}
