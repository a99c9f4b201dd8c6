//go:build !unix

package store

import (
	"io/fs"
	"os"
	"time"
)

// locksWork is false: there is no lock here that ends with the process, so nothing is ever swept by mistake.
const locksWork = false

func tryLock(*os.File) bool { return false }

func freeBytes(string) (int64, bool) { return 0, false }

func writable(dir string) error {
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func lastUsed(info fs.FileInfo) time.Time { return info.ModTime() }
