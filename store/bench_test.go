package store

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// BenchmarkOpenHit compares a hit with opening the file and nothing else.
func BenchmarkOpenHit(b *testing.B) {
	s, all := newStore(b, 1<<30), ids(100)
	for _, id := range all {
		s.put(id, 1000)
	}
	b.Run("store", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				v, err := s.Open(all[i%len(all)])
				if err != nil {
					b.Fatal(err)
				}
				v.Close()
			}
		})
	})
	b.Run("os.Open", func(b *testing.B) {
		paths := make([]string, len(all))
		for i, id := range all {
			paths[i] = s.path(id, 1000)
		}
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				f, err := os.Open(paths[i%len(paths)])
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	})
}

// BenchmarkLargeStore is about a store of 150,000 variants: opening it, a miss in it, and counting it again.
func BenchmarkLargeStore(b *testing.B) {
	dir, all := b.TempDir(), ids(150_000)
	fill := &FileSystem{dir: dir}
	for _, id := range all {
		if err := os.MkdirAll(fill.fanDir(id), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(fill.path(id, 10), contentOf(id, 10), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := OpenFileSystem(dir, 1<<30, nil)
			if err != nil {
				b.Fatal(err)
			}
			if s.Stats().Files != int64(len(all)) {
				b.Fatal("it misses some")
			}
			s.Close()
		}
	})
	before := heap()
	s := openStore(b, dir, 1<<30, newClock())
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(float64(heap()-before)/float64(len(all)), "B/variant")
	})
	b.Run("miss", func(b *testing.B) {
		unknown := ID{"00112233445566ff", fmt.Sprintf("%064x", 1)}
		unknown.Key = all[0].Key[:fanDigits] + unknown.Key[fanDigits:]
		s.age(unknown, 2*clockSkew)
		if _, err := s.Open(unknown); !errors.Is(err, ErrNotFound) { // lists the folder, for the last time
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Open(unknown); !errors.Is(err, ErrNotFound) {
				b.Fatal(err)
			}
		}
	})
	b.Run("recount", func(b *testing.B) {
		for b.Loop() {
			s.recounted()
		}
	})
	b.Run("evict", func(b *testing.B) {
		for b.Loop() {
			if s.Stats().Files == 0 {
				b.Skip("there is nothing left")
			}
			s.SetMaxBytes(s.Stats().Bytes - 10)
		}
	})
}

// BenchmarkPut is dominated by bringing the file to the disk.
func BenchmarkPut(b *testing.B) {
	s, all := newStore(b, 1<<30), ids(1000)
	for i := 0; b.Loop(); i++ {
		s.put(all[i%len(all)], 10_000)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
