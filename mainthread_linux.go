package audioproxy

import "runtime"

// The kernel gives a signal to the process to its first thread where it can, whatever that thread does at the moment.
// In a system call on a file system that hangs it never sees the signal: SIGTERM would not end the server. So the first
// thread is kept for the main goroutine, which only waits once the server runs.
func init() {
	runtime.LockOSThread()
}
