package audioproxy

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Field cases about slots, subprocesses and connections.

// Impatient clients must not use the slots up by leaving (case D01).
func TestABurstOfImpatientClientsCostsNoSlot(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 2\nqueue 50\nffmpeg "+ffmpeg.path, ""))
	var clients sync.WaitGroup
	for i := range 500 {
		clients.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%51)*time.Millisecond)
			defer cancel()
			if resp, err := s.open(ctx, http.MethodGet, s.url("f:mp3/cb:"+strconv.Itoa(i), "speech.wav")); err == nil {
				resp.Body.Close()
			}
		})
	}
	clients.Wait()
	s.awaitIdle()

	first, second := s.started(s.trim(0)), s.started(s.trim(1))

	s.reach(2, 0)
	open()
	for _, a := range []answer{<-first, <-second} {
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("got %d, %v", a.status, a.err)
		}
	}
}

// What needs no render must not wait for one (case D05): a balancer would take the node out.
func TestCheapAnswersDoNotWaitForSlots(t *testing.T) {
	ffmpeg := script(t, `case "$*" in *"-b:a 40k"*) exec ffmpeg "$@";; esac; exec sleep 60`)
	s := newSite(t, simple("slots 1\nqueue 1\nffmpeg "+ffmpeg.path, ""))
	stored := s.url("f:mp3/br:40/t:0:1", "speech.wav")
	s.get(stored)
	etag := s.get(stored).header.Get("ETag")
	s.awaitIdle()
	defer s.awaitIdle()
	for i := range 2 {
		hangUp, gone := s.leaving(s.trim(i + 5))
		defer gone.Wait()
		defer hangUp()
		s.reach(1, i)
	}
	base := "http://localhost:" + strconv.Itoa(s.port)
	for _, tc := range []struct {
		method, url string
		status      int
		header      []string
	}{
		{http.MethodGet, base + "/x/plain/local://speech.wav", 401, nil},
		{http.MethodGet, s.url("", "nothing-here.wav"), 404, nil},
		{http.MethodGet, s.url("exp:1", "speech.wav"), 410, nil},
		{http.MethodGet, s.url("br:0", "speech.wav"), 422, nil},
		{http.MethodGet, s.trim(9), 429, nil},
		{http.MethodHead, s.trim(9), 200, nil},
		{http.MethodGet, stored, 304, []string{"If-None-Match", etag}},
		{http.MethodGet, stored, 200, nil},
		{http.MethodGet, stored, 206, []string{"Range", "bytes=0-1"}},
		{http.MethodGet, s.url("info", "speech.wav"), 200, nil},
		{http.MethodGet, base + "/health", 200, nil},
		{http.MethodGet, base + "/ready", 503, nil},
	} {
		started := time.Now()
		a := s.do(t.Context(), tc.method, tc.url, tc.header...)
		if took := time.Since(started); a.status != tc.status || took > 2*time.Second {
			t.Errorf("%s %s: %d after %v, want %d at once", tc.method, tc.url, a.status, took, tc.status)
		}
	}
	if stats := theEngine(t).budget.Stats(); stats.Held != 1 || stats.Queued != 1 || len(ffmpeg.pids()) > 2 {
		t.Errorf("meanwhile: %+v and %d encoders", stats, len(ffmpeg.pids()))
	}
}

// A slot is held for as long as the encoder lives: no longer, or short renders would wait out the second for which a
// variant lingers where there is no store; and no shorter, or there would be more encoders than slots (case D08).
func TestASlotIsHeldForAsLongAsItsEncoderLives(t *testing.T) {
	t.Run("short renders", func(t *testing.T) {
		s := newSite(t, strings.Replace(simple("slots 2\nqueue 100", ""), "file_system {store}", "off", 1))
		urls := make([]string, 60)
		for i := range urls {
			urls[i] = s.url("f:wav/bd:16/t:0:0.01/cb:"+strconv.Itoa(i), "speech.wav")
		}
		most := watchChildren(t)
		started := time.Now()

		answers := s.all(urls)

		took, n := time.Since(started), most()
		if served := count(answers, func(a answer) bool { return a.status == http.StatusOK && a.err == nil }); served != len(urls) {
			t.Errorf("%d of %d were served", served, len(urls))
		}
		// Sixty encoders of 60 ms, two at a time, are 2 s; with a second of lingering each they would be half a minute.
		if n > 2 || took > 20*time.Second {
			t.Errorf("%d encoders at a time, and %v for all", n, took)
		}
	})
	t.Run("cancelled ones", func(t *testing.T) {
		ffmpeg := script(t, `trap '' TERM; while :; do sleep 0.1; done`)
		s := newSite(t, simple("slots 2\nqueue 10\nffmpeg "+ffmpeg.path, ""))
		most := watchChildren(t)
		for i := range 6 {
			hangUp, gone := s.leaving(s.trim(i))
			waitFor(t, "it renders", func() bool { return len(ffmpeg.pids()) == i+1 })
			hangUp()
			gone.Wait()
		}
		s.awaitIdle()
		if n := most(); n > 2 {
			t.Errorf("%d encoders at a time, want 2", n)
		}
	})
}

// However a subprocess ends, it is waited for (case E02), and nothing of it stays open.
func TestEveryEndOfASubprocessIsNoticed(t *testing.T) {
	ffmpeg := script(t, `case "$*" in
	*b:a\ 33k*) `+toOutput+`head -c 65536 /dev/zero; exit 1;;
	*b:a\ 34k*) `+toOutput+`head -c 65536 /dev/zero; kill -ABRT $$;;
	*b:a\ 35k*) `+toOutput+`while printf '%04096d' 0; do sleep 0.02; done;;
	esac; exec ffmpeg "$@"`)
	s := newSite(t, simple("slots 4\nqueue 50\nffmpeg "+ffmpeg.path, ""))
	if err := os.WriteFile(filepath.Join(s.root, "text.wav"), []byte("no audio"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	round := func() {
		for range 5 {
			n++
			cb := "/cb:" + strconv.Itoa(n)
			var clients sync.WaitGroup
			for _, options := range []string{"br:32", "br:33", "br:34"} {
				clients.Go(func() { s.get(s.url("f:mp3/"+options+cb, "speech.wav")) })
			}
			clients.Go(func() { s.get(s.url("f:mp3"+cb, "text.wav")) })
			clients.Go(func() { s.get(s.url("info", "text.wav")) })
			clients.Go(func() {
				if resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3/br:35"+cb, "speech.wav")); err == nil {
					resp.Body.Close()
				}
			})
			clients.Wait()
		}
		s.awaitIdle()
		if err := os.Rename(ffmpeg.path, ffmpeg.path+".gone"); err != nil {
			t.Fatal(err)
		}
		if a := s.get(s.url("f:mp3/cb:"+strconv.Itoa(n), "speech.wav")); a.status != http.StatusInternalServerError || a.code() != "not_configured" {
			t.Errorf("without an encoder: %d %s", a.status, a.body)
		}
		if err := os.Rename(ffmpeg.path+".gone", ffmpeg.path); err != nil {
			t.Fatal(err)
		}
		s.awaitIdle() // zombies count as subprocesses
	}
	round() // what is made once is made
	goroutinesBefore, filesBefore := runtime.NumGoroutine(), openFiles()

	for range 3 {
		round()
	}

	waitFor(t, "goroutines and files are back where they were", func() bool {
		return runtime.NumGoroutine() <= goroutinesBefore+5 && openFiles() <= filesBefore+5
	})
}

// openFiles is how many files this process has open, where the system tells.
func openFiles() int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// A pipe that nobody reads fills at 64 KiB and stops the encoder (case E04; a file that makes ffmpeg complain is in
// the corpus).
func TestAnEncoderThatComplainsIsNotStopped(t *testing.T) {
	ffmpeg := script(t, `head -c 2097152 /dev/zero | tr '\0' e >&2; `+toOutput+`head -c 65536 /dev/zero | tr '\0' A`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	if a := s.get(s.url("f:mp3", "speech.wav")); a.status != http.StatusOK || a.err != nil || len(a.body) != 65536 {
		t.Errorf("got %d with %d bytes, %v", a.status, len(a.body), a.err)
	}
}

// A source that is too large is refused before it costs anything (case I01): not even a slot is waited for.
func TestALargeSourceIsRefusedBeforeItCostsAnything(t *testing.T) {
	ffmpeg, open := gated(t)
	ffprobe := probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("slots 1\nqueue 0\nmax_source_size 2MB\nffmpeg "+ffmpeg.path+"\nffprobe "+ffprobe.path, ""))
	large, err := os.Create(filepath.Join(s.root, "large.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	// A WAV header without sizes, and 300 MB that take no place on the disk.
	if _, err := large.WriteString("RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x44\xac\x00\x00\x88\x58\x01\x00\x02\x00\x10\x00data\xff\xff\xff\xff"); err != nil {
		t.Fatal(err)
	}
	if err := large.Truncate(300 << 20); err != nil {
		t.Fatal(err)
	}
	holder := s.started(s.trim(0))
	waitFor(t, "the slot is taken", func() bool { return len(ffmpeg.pids()) == 1 })
	for _, options := range []string{"f:mp3", "f:flac", "f:peaks", "f:mp3/t:0:1"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := s.do(t.Context(), method, s.url(options, "large.wav"))
			if a.status != http.StatusRequestEntityTooLarge || method == http.MethodGet && a.code() != "source_too_large" {
				t.Errorf("%s %s: %d %s", method, options, a.status, a.body)
			}
		}
	}
	if encoders, probes := len(ffmpeg.pids()), len(ffprobe.pids()); encoders != 1 || probes != 0 {
		t.Errorf("%d encoders and %d probes ran, want the one that holds the slot", encoders, probes)
	}
	open()
	<-holder
}

// overHTTP2 is a Caddyfile whose site speaks HTTP/2 without TLS, and a client that does.
func overHTTP2(caddyfile string) (string, *http.Client) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return strings.Replace(caddyfile, "admin off", "admin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}", 1),
		&http.Client{Transport: &http.Transport{Protocols: protocols, DisableCompression: true}}
}

// fetch opens a URL with a client.
func fetch(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Where many requests share a connection, a listener leaves without closing it: those who wait give up their place
// (case D04), those who listen their slot (case J05), and one who does not read holds nobody up.
func TestLeavingAStreamIsNotClosingTheConnection(t *testing.T) {
	ffmpeg, open := slowly(t)
	config, client := overHTTP2(simple("slots 10\nqueue 10\nffmpeg "+ffmpeg.path, ""))
	defer client.CloseIdleConnections()
	s := newSite(t, config)
	s.generate("long.wav", 60)
	// A stream that is not read, and more than its window of bytes for it.
	unread, err := fetch(t.Context(), client, s.url("f:mp3", "speech.wav"))
	if err != nil || unread.ProtoMajor != 2 {
		t.Fatalf("%v, %+v", err, unread)
	}
	defer unread.Body.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var kept *http.Response
	for i := range 12 { // nine render, and three wait
		streamContext := ctx
		if i == 0 {
			streamContext = t.Context()
		}
		if i < 9 {
			resp, err := fetch(streamContext, client, s.trim(i))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if i == 0 {
				kept = resp
			}
			continue
		}
		go func() {
			if resp, err := fetch(streamContext, client, s.trim(i)); err == nil {
				resp.Body.Close()
			}
		}()
	}
	s.reach(10, 3)

	leave()

	s.reach(2, 0)
	waitFor(t, "the encoders of those who left are gone", func() bool { return len(children(t)) == 2 })
	after, err := fetch(t.Context(), client, s.trim(20))
	if err != nil {
		t.Fatalf("the connection is of no use any more: %v", err)
	}
	defer after.Body.Close()
	open()
	for name, resp := range map[string]*http.Response{"kept": kept, "after": after} {
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 2*8192 {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
	}
	s.reach(0, 0)
}

// A render that fails under a hundred listeners breaks a hundred streams off, and nothing else (case J04): no panic
// reaches the log or the process, and no error page gets into the audio.
func TestAHundredBrokenStreamsBreakNothingElse(t *testing.T) {
	ffmpeg, fail := breaking(t, "exit 1")
	config, client := overHTTP2(around("ffmpeg "+ffmpeg.path, `encode gzip
	log
	header X-Site yes
	audio_proxy {
		{audio}
		errors caddy
	}
	handle_errors {
		respond "page {err.status_code}"
	}`))
	defer client.CloseIdleConnections()
	s := newServer(t, config)
	var listening, done sync.WaitGroup
	for i := range 100 {
		listening.Add(1)
		done.Go(func() {
			began := sync.OnceFunc(listening.Done)
			defer began()
			c := client
			if i%2 == 0 {
				c = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			}
			resp, err := fetch(t.Context(), c, s.url("f:mp3", "speech.wav"))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("HTTP/%d: %d", resp.ProtoMajor, resp.StatusCode)
			}
			began()
			if body, err := io.ReadAll(resp.Body); err == nil || len(body) != 262144 || strings.Contains(string(body), "page") {
				t.Errorf("HTTP/%d: %d bytes, ending in %v", resp.ProtoMajor, len(body), err)
			}
		})
	}
	listening.Wait()

	fail()

	done.Wait()
	if a := s.get("http://localhost:" + strconv.Itoa(s.port) + "/health"); a.status != http.StatusOK {
		t.Errorf("afterwards: %d", a.status)
	}
	if stored := s.stored(); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"panic", "goroutine ", "runtime error"} {
		if strings.Contains(string(log), word) {
			t.Errorf("the log speaks of %q", word)
		}
	}
	if !strings.Contains(string(log), "broke off a stream") || !strings.Contains(string(log), "handled request") {
		t.Error("the log speaks of no request, or of no broken stream")
	}
}
