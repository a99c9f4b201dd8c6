//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package store

import "os"

// writable reports why this process may not list the folder and make entries in it. There is no way of asking
// here but to try.
func writable(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Close()
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}
