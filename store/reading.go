package store

import (
	"io"
	"os"
	"sync"
)

// reading is one open variant of a FileSystem.
type reading struct {
	file *os.File

	mu       sync.Mutex
	position func() int64
	letGo    func()
}

// watch says how the reader can be told to go, and where it is if not where the file's offset is.
func (r *reading) watch(position func() int64, letGo func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position, r.letGo = position, letGo
}

// at is where the reader is. The file's own offset says so even where the kernel copies the file to a socket.
func (r *reading) at() int64 {
	r.mu.Lock()
	position := r.position
	r.mu.Unlock()
	if position != nil {
		return position()
	}
	n, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1 // it is closed
	}
	return n
}

// end gives the file up, and tells the reader.
func (r *reading) end() {
	r.mu.Lock()
	letGo := r.letGo
	r.mu.Unlock()
	if letGo != nil {
		letGo()
	}
	r.file.Close() // afterwards, so that the reader knows what its failing to read means
}
