package source

import "syscall"

const openFlags = 0

// pathFaults are the errors that say something about a path, besides those that Go takes for a missing or a forbidden
// file.
var pathFaults = []syscall.Errno{
	syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR,
	123,  // ERROR_INVALID_NAME
	161,  // ERROR_BAD_PATHNAME
	206,  // ERROR_FILENAME_EXCED_RANGE
	267,  // ERROR_DIRECTORY
	1920, // ERROR_CANT_ACCESS_FILE
	1921, // ERROR_CANT_RESOLVE_FILENAME
}
