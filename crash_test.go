package audioproxy

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever a killed server was doing, the next one serves complete variants only, and finds no space lost.
func TestKilledServersLeaveOnlyCompleteVariants(t *testing.T) {
	s := newServer(t, strings.Replace(simple("slots 2\nqueue 20", ""),
		"store file_system {store}", "store file_system {store} {\nmax_size 2MB\n}", 1))
	const variants = 6 // of 0.5 to 0.9 MB: some are being evicted
	url := func(i int) string {
		return s.url("f:wav/bd:16/t:0:"+strconv.Itoa(3+i%3)+"/cb:"+strconv.Itoa(i), "music.wav")
	}
	whole := make(map[int]int)
	for i := range variants {
		whole[i] = len(s.get(url(i)).body)
	}
	random := rand.New(rand.NewPCG(20261130, 1))
	for round := range 20 {
		ctx, hangUp := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 4 {
			first := random.IntN(variants)
			clients.Go(func() {
				for i := first; ctx.Err() == nil; i++ {
					resp, err := s.open(ctx, http.MethodGet, url(i%variants))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // the moment is the point

		s.kill()

		hangUp()
		clients.Wait()
		s.start()
		var bytesStored int64
		for _, path := range s.stored() {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Ext(path); want != "."+strconv.FormatInt(info.Size(), 10) {
				t.Errorf("round %d: %s has %d bytes", round, filepath.Base(path), info.Size())
			}
			bytesStored += info.Size()
		}
		if bytesStored > 2_000_000 {
			t.Errorf("round %d: %d bytes are stored, more than max_size", round, bytesStored)
		}
		for i := range variants {
			if a := s.get(url(i)); a.status != http.StatusOK || a.err != nil || len(a.body) != whole[i] {
				t.Fatalf("round %d: variant %d: %d %s, %d bytes of %d, %v", round, i, a.status, a.cache(), len(a.body), whole[i], a.err)
			}
		}
	}
	waitFor(t, "all that killed servers left is swept", func() bool { return len(s.staged()) == 0 })
}

// A file that somebody else put under a variant's name, or cut short, is no variant.
func TestForeignFilesInTheStoreAreNotServed(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	s.get(url)
	good := s.get(url)
	for name, content := range map[string][]byte{"empty": nil, "cut short": good.body[:100], "other": []byte("not audio")} {
		s.awaitIdle() // nobody can join the render that stored it
		stored := s.stored()
		if len(stored) != 1 {
			t.Fatalf("%s: stored %v", name, stored)
		}
		if err := os.WriteFile(stored[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if a := s.get(url); a.cache() != "MISS" || a.err != nil || len(a.body) != len(good.body) {
			t.Errorf("%s: got %s with %d bytes", name, a.cache(), len(a.body))
		}
		if a := s.get(url); a.cache() != "HIT" || !bytes.Equal(a.body, good.body) {
			t.Errorf("%s: then %s with %d bytes", name, a.cache(), len(a.body))
		}
	}
}
