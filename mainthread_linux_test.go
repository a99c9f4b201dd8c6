package audioproxy

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// S1: signals come to the first thread, and so nothing else may be done on it. There are more system calls at once here
// than there are threads, and one of them would be on the first one if it could.
func TestTheFirstThreadIsKeptForSignals(t *testing.T) {
	var callers sync.WaitGroup
	var caught atomic.Bool
	for range 100 {
		callers.Go(func() {
			if syscall.Gettid() == os.Getpid() {
				caught.Store(true)
			}
			pause := syscall.NsecToTimespec(int64(100 * time.Millisecond))
			_ = syscall.Nanosleep(&pause, nil) // interrupted or not
			if syscall.Gettid() == os.Getpid() {
				caught.Store(true)
			}
		})
	}
	callers.Wait()
	if caught.Load() {
		t.Error("a goroutine ran on the first thread")
	}
}
