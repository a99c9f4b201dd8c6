package audioproxy

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Field cases about what listeners get, and what is kept of it. Numbers are those of the collection that the cases
// come from (see testdata/corpus.README.md).

// Whoever promises a length for a stream guesses it, and players stop at the promised byte (case A01). The source
// is one whose own claim is a quarter too long.
func TestAStreamPromisesNoLength(t *testing.T) {
	s := corpusSite(t, "")
	url := s.url("f:mp3", "lossy/vbr-no-xing-quiet-then-loud.mp3")

	first := s.get(url)
	second := s.get(url)

	if first.cache() != "MISS" || first.header.Get("Content-Length") != "" || first.err != nil {
		t.Errorf("first: %s, Content-Length %q, %v", first.cache(), first.header.Get("Content-Length"), first.err)
	}
	// The stored copy has its Xing header filled in, over as many bytes as were left for it.
	if second.cache() != "HIT" || second.header.Get("Content-Length") != strconv.Itoa(len(first.body)) || len(second.body) != len(first.body) {
		t.Errorf("second: %s, Content-Length %s and %d bytes, the first had %d",
			second.cache(), second.header.Get("Content-Length"), len(second.body), len(first.body))
	}
	for name, a := range map[string]answer{"first": first, "second": second} {
		if seconds := float64(len(decodeAll(t, [][]byte{a.body})[0])) / decodedRate; seconds < 39.8 || seconds > 40.2 {
			t.Errorf("%s decodes to %.2f s, want 40", name, seconds)
		}
	}
}

// An m4a cut at key frames would come in one piece at the end, and Ogg pages may wait for seconds (case A09). The
// encoder gets its source at the speed at which it plays; 12 s pass if anything waits for the end.
func TestTheFirstSecondIsHeardAtOnce(t *testing.T) {
	ffmpeg := script(t, `exec ffmpeg -re "$@"`)
	s := newSite(t, simple("slots 3\nffmpeg "+ffmpeg.path, ""))
	s.generate("slow.wav", 12)
	formats := []string{"m4a", "opus", "mp3"}
	took := make([]chan time.Duration, len(formats))
	for i, format := range formats {
		took[i] = make(chan time.Duration, 1)
		go func() {
			defer close(took[i])
			started := time.Now()
			resp, err := s.open(t.Context(), http.MethodGet, s.url("f:"+format, "slow.wav"))
			if err != nil {
				return
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, 1500)); err == nil {
				took[i] <- time.Since(started)
			}
		}()
	}
	for i, format := range formats {
		if d, ok := <-took[i]; !ok || d > 4*time.Second {
			t.Errorf("f:%s: the first 1500 bytes took %v (read: %v); 2.5 s are enough on an idle machine", format, d, ok)
		}
	}
	s.awaitIdle()
}

// A client that preloads a few seconds and hangs up must not leave them as the song (case B01).
func TestAPreloadThatWasCutOffIsNotTheSong(t *testing.T) {
	ffmpeg, open := slowly(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:mp3", "speech.wav")
	resp, err := s.open(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}

	resp.Body.Close()

	s.awaitIdle()
	if stored := s.stored(); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
	open()
	if a := s.get(url); a.cache() != "MISS" || len(a.body) != 2*8192 || a.err != nil {
		t.Errorf("the next request: %s with %d bytes, %v", a.cache(), len(a.body), a.err)
	}
}

// A server that is killed while it renders must not find the half of it finished, nor take for a variant what lies in
// the place of one (case B02).
func TestWhatAKilledServerLeftIsNoVariant(t *testing.T) {
	ffmpeg, open := slowly(t)
	s := newServer(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:mp3", "speech.wav")
	resp, err := s.open(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	open()
	whole := func(when string) {
		t.Helper()
		if a := s.get(url); a.cache() != "MISS" || a.err != nil || len(a.body) != 2*8192 {
			t.Errorf("%s: %s with %d bytes, %v", when, a.cache(), len(a.body), a.err)
		}
		waitFor(t, "nothing is staged", func() bool { return len(s.staged()) == 0 })
	}

	s.kill()
	s.start()
	whole("killed in the middle")

	for name, content := range map[string]string{"empty": "", "foreign": "<html>not found</html>"} {
		s.kill()
		stored := s.stored()
		if len(stored) != 1 {
			t.Fatalf("stored: %v", stored)
		}
		if err := os.WriteFile(stored[0], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		whole(name)
	}
}

// breaking is an encoder that writes 256 KiB, and ends as the shell text says when the returned function is called.
func breaking(t *testing.T, ending string) (e *encoders, fail func()) {
	t.Helper()
	e = script(t, "")
	gate := e.path + ".fail"
	content, err := os.ReadFile(e.path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, toOutput+"head -c 262144 /dev/zero | tr '\\0' A; while [ ! -e "+gate+" ]; do sleep 0.02; done; "+ending+"\n"...)
	if err := os.WriteFile(e.path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// When the encoder dies after audio has gone out, nobody may take what there is for the whole: not the client, not
// those who joined it, not the store (case B03; LAME's abort over samples that are no numbers is in the corpus).
func TestAFailureAfterTheFirstByteIsNoSuccess(t *testing.T) {
	for name, ending := range map[string]string{"exit": "echo Error while encoding >&2; exit 1", "crash": "kill -ABRT $$"} {
		t.Run(name, func(t *testing.T) {
			ffmpeg, fail := breaking(t, ending)
			s := newSite(t, simple("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, ""))
			url := s.url("f:mp3", "speech.wav")
			var listeners []<-chan answer
			for range 4 {
				listeners = append(listeners, s.started(url))
			}
			waitFor(t, "four listen, and bytes are there", func() bool {
				flights := theEngine(t).flights.Flights()
				return len(flights) == 1 && flights[0].Listeners == 4 && flights[0].Bytes > 0
			})

			fail()

			for i, c := range listeners {
				if a := <-c; a.status != http.StatusOK || a.err == nil || len(a.body) != 262144 {
					t.Errorf("listener %d: %d, %d bytes, %v", i, a.status, len(a.body), a.err)
				}
			}
			s.awaitIdle()
			if stored := s.stored(); len(stored) != 0 {
				t.Errorf("stored: %v", stored)
			}
			// Now the encoder ends at once: perhaps before anything has gone out, which makes an error of it, once a
			// third has been asked for evidence.
			if a := s.get(url); a.status == http.StatusOK && a.err == nil || len(ffmpeg.pids()) < 2 || len(ffmpeg.pids()) > 3 {
				t.Errorf("the next request: %d, %v, %d encoders in all", a.status, a.err, len(ffmpeg.pids()))
			}
		})
	}
}

// Exit status 0 is no song (case B06; sources without samples are in the corpus).
func TestAnEncoderThatWritesNothingHasNotSucceeded(t *testing.T) {
	ffmpeg := script(t, `exit 0`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	for _, format := range allFormats {
		if a := s.get(s.url("f:"+format.name, "speech.wav")); a.status != undecodable.status || a.code() != undecodable.code {
			t.Errorf("f:%s: %d %s", format.name, a.status, a.body)
		}
	}
	s.awaitIdle()
	if stored := s.stored(); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
}

// The first listener is quicker than the upload: what it gets must not become the song (case B10).
func TestAFileThatIsStillBeingWrittenIsNotTheSong(t *testing.T) {
	for _, freshness := range []string{"immutable", "revalidate"} {
		for _, name := range []string{"lossless/alac.m4a", "wav/plain-speech-44k1-mono.wav"} {
			t.Run(freshness+" "+filepath.Base(name), func(t *testing.T) {
				s := newSite(t, simple("", "freshness "+freshness))
				whole, err := os.ReadFile(filepath.Join(unpackCorpus(t), name))
				if err != nil {
					t.Fatal(err)
				}
				upload, err := os.Create(filepath.Join(s.root, "upload"+filepath.Ext(name)))
				if err != nil {
					t.Fatal(err)
				}
				defer upload.Close()
				written := 0
				write := func(n int) {
					n = min(n, len(whole)-written)
					if _, err := upload.Write(whole[written : written+n]); err != nil {
						t.Fatal(err)
					}
					written += n
				}
				write(len(whole) / 2)
				url := s.url("f:mp3", "upload"+filepath.Ext(name))

				early := s.started(url)
				var first answer
				for uploading := true; uploading; { // a little at a time, for as long as it takes
					select {
					case first = <-early:
						uploading = false
					case <-time.After(time.Millisecond):
						write(16)
					}
				}
				write(len(whole))

				if first.status == http.StatusOK && first.err == nil {
					t.Errorf("half a file is a song of %d bytes", len(first.body))
				}
				a := s.get(url)
				if a.status != http.StatusOK || a.cache() != "MISS" {
					t.Fatalf("after the upload: %d %s", a.status, a.cache())
				}
				if seconds := float64(len(decodeAll(t, [][]byte{s.get(url).body})[0])) / decodedRate; seconds < 2.97 || seconds > 3.03 {
					t.Errorf("after the upload: %.3f s, want 3", seconds)
				}
			})
		}
	}
}

// A player asks twice for one click, spelled as it likes, whether anything is kept or not (case C01).
func TestOneVariantHoweverSpelledIsRenderedOnce(t *testing.T) {
	for _, store := range []string{"file_system {store}", "off"} {
		t.Run(store[:3], func(t *testing.T) {
			ffmpeg, open := gated(t)
			s := newSite(t, strings.Replace(simple("ffmpeg "+ffmpeg.path, ""), "file_system {store}", store, 1))
			var asked []<-chan answer
			for i := range 20 {
				options := []string{"f:opus/br:96", "br:96/f:opus"}[i%2]
				url := s.url(options, "speech.wav")
				if i%4 >= 2 {
					url = strings.Replace(s.url(options, ""), "plain/local://", "enc/"+base64url("local://speech.wav"), 1)
				}
				asked = append(asked, s.started(url))
			}
			part := s.started(s.url("f:opus/br:96", "speech.wav"), "Range", "bytes=50000-")
			waitFor(t, "all have joined", func() bool {
				flights := theEngine(t).flights.Flights()
				return len(flights) == 1 && flights[0].Listeners == 21
			})

			open()

			first := <-asked[0]
			for i, c := range asked[1:] {
				if a := <-c; a.err != nil || !bytes.Equal(a.body, first.body) {
					t.Errorf("request %d: %d bytes, %v, want the %d that the first got", i+1, len(a.body), a.err, len(first.body))
				}
			}
			if a := <-part; a.status != http.StatusPartialContent || !bytes.Equal(a.body, first.body[50000:]) {
				t.Errorf("the range: %d, %d bytes", a.status, len(a.body))
			}
			if n := len(ffmpeg.pids()); n != 1 {
				t.Errorf("%d encoders ran, want 1", n)
			}
		})
	}
}
