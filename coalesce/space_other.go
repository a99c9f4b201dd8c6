//go:build !unix

package coalesce

func spaceError(err error) error { return err }
