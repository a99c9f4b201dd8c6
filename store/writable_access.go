//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import "golang.org/x/sys/unix"

// writable reports why this process may not list the folder and make entries in it. It asks for the effective
// user and capabilities: those are what will be judged by.
func writable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
