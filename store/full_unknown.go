//go:build !unix && !windows

package store

func isFull(error) bool { return false }
