//go:build !darwin && !dragonfly && !freebsd && !linux && !windows

package store

func freeBytes(string) (n int64, known bool) { return 0, false }
