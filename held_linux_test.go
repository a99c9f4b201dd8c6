package audioproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// small is a site over a store of so many bytes, with Caddy's admin endpoint on {port2}.
func small(bytes int) string {
	return strings.Replace(observed("slots 2", "client_idle 5m"), "store file_system {store}",
		fmt.Sprintf("store file_system {store} {\nmax_size %d\n}", bytes), 1)
}

// stalledPlayer asks for a path, reads the header of the answer, and no more; its own buffer takes next to nothing.
func (s *site) stalledPlayer(path string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(s.t.Context(), "tcp", "localhost:"+strconv.Itoa(s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", path, s.port); err != nil {
		s.t.Fatal(err)
	}
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
		s.t.Fatalf("%s: %q, %v", path, status, err)
	}
	return conn
}

// unnamed is how many bytes this process holds of files below a folder that have no name any more.
func unnamed(t *testing.T, dir string) (size int64) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]bool) // by inode: a file may be open more than once
	for _, fd := range open {
		path := "/proc/self/fd/" + fd.Name()
		name, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(name, dir) || !strings.HasSuffix(name, " (deleted)") {
			continue // it may be closed by now
		}
		if info, err := os.Stat(path); err == nil && !seen[info.Sys().(*syscall.Stat_t).Ino] {
			seen[info.Sys().(*syscall.Stat_t).Ino] = true
			size += info.Size()
		}
	}
	return size
}

// sizeOf adds up the files below a folder.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // what is gone by now takes no room
	})
	return size
}

// onDisk is all that a site's variants take, with a name or without.
func (s *site) onDisk() int64 { return sizeOf(s.store) + unnamed(s.t, s.store) }

// heldStatus is what the admin API says readers hold.
func (s *site) heldStatus() int64 {
	s.t.Helper()
	status := read[serverStatus](s.t, s.admin(http.MethodGet, "/audio_proxy/status", ""))
	if status.HeldBytes != status.Store.HeldBytes {
		s.t.Errorf("readers hold %d bytes, %d of them the store's", status.HeldBytes, status.Store.HeldBytes)
	}
	return status.HeldBytes
}

// heldMetric is what the metrics say readers hold.
func (s *site) heldMetric() int64 { return int64(s.scrape()["store_held_bytes"]) }

// takeTime reads so many bytes in a few seconds, without a pause.
func takeTime(conn net.Conn, n int64) error {
	const pieces = 200
	for i := range pieces {
		if _, err := io.CopyN(io.Discard, conn, n/pieces); err != nil {
			return fmt.Errorf("after %d of %d pieces: %w", i, pieces, err)
		}
		<-time.After(20 * time.Millisecond) // a pace, not a wait for anything
	}
	return nil
}

const (
	stalledClients = 12

	// stalledVariant is the size of what they ask for, more than the sockets' buffers take: 60 s of 32-bit mono.
	stalledVariant = 60 * 44100 * 4
)

// stalledPath is the path of one of the variants that clients of a test ask for.
func stalledPath(i int) string {
	return fmt.Sprintf("/insecure/f:wav/bd:32f/cb:%d/plain/local://long.wav", i)
}

// Case S8: stalled readers of stored variants, and of renders that have just been stored.
func TestStalledReadersHoldNoMoreThanTheStoreMayKeep(t *testing.T) {
	for _, kind := range []string{"stored", "just rendered"} {
		t.Run(kind, func(t *testing.T) {
			const maxSize = 2*stalledVariant + 1<<20 // two variants
			s := newSite(t, small(maxSize))
			s.generate("long.wav", 60)
			whole := s.get("http://localhost:" + strconv.Itoa(s.port) + stalledPath(0))
			if whole.err != nil || len(whole.body) < stalledVariant {
				t.Fatalf("the variant has %d bytes, %v", len(whole.body), whole.err)
			}
			// Given a client that takes its time, and reads on while others come that stand still,
			moved := make(chan error, 1)
			go func(conn net.Conn) { moved <- takeTime(conn, int64(len(whole.body))) }(s.stalledPlayer(stalledPath(0)))
			for i := 1; i <= stalledClients; i++ {
				if kind == "stored" {
					if a := s.get("http://localhost:" + strconv.Itoa(s.port) + stalledPath(i)); a.status != http.StatusOK || a.err != nil {
						t.Fatalf("variant %d: %d, %v", i, a.status, a.err)
					}
				}
				s.stalledPlayer(stalledPath(i))
				waitFor(t, "nothing renders", func() bool { return len(theEngine(t).flights.Flights()) == 0 })
				waitFor(t, "readers hold no more than the store", func() bool { return s.onDisk() <= 2*maxSize })
			}
			waitFor(t, "status and metrics tell what readers hold", func() bool {
				held := unnamed(t, s.store)
				return held > 0 && s.heldStatus() == held && s.heldMetric() == held
			})
			if err := <-moved; err != nil {
				t.Errorf("the one that moves was cut %v", err)
			}
		})
	}
}

// Case S8: what the store refuses, since it is larger than the whole store.
func TestStalledReadersOfWhatIsNotStoredAreLetGo(t *testing.T) {
	const maxSize = 1 << 20
	s := newSite(t, small(maxSize))
	s.generate("long.wav", 60)
	var conns []net.Conn
	for i := range stalledClients {
		conns = append(conns, s.stalledPlayer(stalledPath(i)))
		waitFor(t, "nothing renders", func() bool {
			return theEngine(t).budget.Stats().Held == 0 && len(theEngine(t).flights.Flights()) == 0
		})
	}
	// One that reads gets all of it, whatever others hold.
	if a := s.get("http://localhost:" + strconv.Itoa(s.port) + stalledPath(stalledClients)); a.err != nil || len(a.body) < stalledVariant {
		t.Errorf("one that reads got %d bytes, %v", len(a.body), a.err)
	}
	// Of those that stand still one is left, for a while.
	waitFor(t, "all but one are let go", func() bool { return s.onDisk() < stalledVariant+2<<20 })
	waitFor(t, "status tells of it", func() bool {
		held := s.heldStatus()
		return held >= stalledVariant && held < stalledVariant+1<<20
	})
	cut := 0
	for _, conn := range conns {
		if _, err := io.CopyN(io.Discard, conn, stalledVariant); err != nil {
			cut++
		}
		conn.Close()
	}
	if cut < stalledClients-2 {
		t.Errorf("%d of %d were cut", cut, stalledClients)
	}
	waitFor(t, "nothing is held", func() bool { return s.heldStatus() == 0 && s.heldMetric() == 0 })
}

// Whoever is let go can tell: the transfer has no end, whatever protocol it goes by.
func TestWhoIsLetGoSeesNoEnd(t *testing.T) {
	s := newSecureSite(t, "", "client_idle 5m")
	s.generate("long.wav", 120)
	kept := pooled[*pooledStore](storePool)[0]
	for i, p := range protocols(t, s) {
		for j, header := range [][]string{nil, {"Range", "bytes=1000-"}} {
			path := stalledPath(10*i + j)
			whole := p.get(t, path)
			if whole.status != http.StatusOK || whole.err != nil {
				t.Fatalf("%s: %d, %v", p.name, whole.status, whole.err)
			}
			waitFor(t, "it is stored", func() bool { return len(s.stored()) == 1 && s.isIdle() })
			key, _, _ := strings.Cut(filepath.Base(s.stored()[0]), ".")
			infos, err := kept.List(key)
			if err != nil || len(infos) != 1 {
				t.Fatal(infos, err)
			}
			stalled := p.open(t.Context(), t, path, header...)
			if stalled.Header.Get("X-Audio-Proxy") != "HIT" {
				t.Fatalf("%s: it is a %s", p.name, stalled.Header.Get("X-Audio-Proxy"))
			}
			if _, err := io.ReadFull(stalled.Body, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if err := kept.Delete(infos[0].ID); err != nil {
				t.Fatal(err)
			}
			letAllGo(kept)
			n, err := io.Copy(io.Discard, stalled.Body)
			if err == nil || 1000+n >= int64(len(whole.body))-1000 {
				t.Errorf("%s %v: got %d bytes more, %v", p.name, header, n, err)
			}
			stalled.Body.Close()
			waitFor(t, "nothing is held", func() bool { return kept.Stats().HeldBytes == 0 })
			kept.SetMaxBytes(defaultStoreSize)
			if again := p.get(t, "/insecure/f:mp3/t:0:1/plain/local://speech.wav"); again.status != http.StatusOK || again.err != nil {
				t.Errorf("%s: afterwards %d, %v", p.name, again.status, again.err)
			}
			for _, path := range s.stored() {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// letAllGo makes the room for readers so small that the one who holds a file is let go, as soon as another comes.
func letAllGo(kept *pooledStore) {
	held := kept.Stats().HeldBytes
	kept.Ledger().SetLimit(held)
	for !comeAndStay(kept.Ledger(), held) {
	}
}

// comeAndStay holds a file beside one that is held, and reports whether that one had to go for it. It may be this one
// that has to, as long as the other moves: the sockets' buffers take some time to fill.
func comeAndStay(ledger *store.Ledger, held int64) bool {
	var told atomic.Bool
	other := ledger.Holding(held)
	reader := other.Read(func() int64 { return time.Now().UnixNano() }, func() { told.Store(true) })
	other.Hold()
	defer reader.Close()
	for ledger.Held() > held {
		if told.Load() {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
