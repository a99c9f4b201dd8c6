package audioproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// player is a client that reads only when it is told to.
type player struct {
	t    *testing.T
	conn net.Conn
	body io.Reader
}

// play asks for a path and reads the header of the answer.
func (s *site) play(path string) *player {
	s.t.Helper()
	conn, err := net.Dial("tcp", "localhost:"+strconv.Itoa(s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost:"+strconv.Itoa(s.port)+"\r\nConnection: close\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v, %v", path, resp, err)
	}
	return &player{s.t, conn, resp.Body}
}

// impatiently has Caddy cut a connection that stands still for so long.
func impatiently(idle, caddyfile string) string {
	timeouts := "\ttimeouts {\n\t\t\twrite_idle " + idle + "\n\t\t}\n"
	if strings.Contains(caddyfile, "servers {\n") {
		return strings.Replace(caddyfile, "servers {\n", "servers {\n\t"+timeouts, 1)
	}
	return strings.Replace(caddyfile, "{\n", "{\n\tservers {\n\t"+timeouts+"\t}\n", 1)
}

// A player that is paused stops reading. Caddy's own limit for that is a minute; ours is what the site says.
func TestAPausedListenerGoesOnAfterCaddysOwnLimit(t *testing.T) {
	s := newSite(t, impatiently("300ms", simple("", "client_idle 20s")))
	s.generate("long.wav", 120)
	path := "/insecure/f:wav/bd:32f/plain/local://long.wav" // 21 MB: more than the sockets' buffers hold
	want := s.get("http://localhost:" + strconv.Itoa(s.port) + path)
	for _, cache := range []string{"stored", "stream"} {
		if cache == "stream" {
			path = strings.Replace(path, "f:wav", "cb:2/f:wav", 1)
		}
		paused := s.play(path)
		begin := time.Now()

		waitFor(t, "Caddy's own limit has passed", func() bool { return time.Since(begin) > 900*time.Millisecond })

		body, err := io.ReadAll(paused.body)
		if err != nil || len(body) != len(want.body) {
			t.Errorf("%s: %d bytes of %d, %v", cache, len(body), len(want.body), err)
		}
	}
	waitFor(t, "nothing is left", s.isIdle)
}

// A listener that never comes back is given up. It was one listener: the render, the slot and the others do not
// notice (case C05).
func TestAListenerThatStandsStillIsCutAndHoldsNothing(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, "client_idle 500ms"))
	s.generate("long.wav", 120)
	path := "/insecure/f:wav/bd:32f/plain/local://long.wav"
	paused, begin := s.play(path), time.Now()
	url := "http://localhost:" + strconv.Itoa(s.port) + path

	quick := s.get(url)

	if quick.err != nil || quick.status != http.StatusOK || len(quick.body) < 20_000_000 {
		t.Errorf("a quick listener of the same: %d, %d bytes, %v", quick.status, len(quick.body), quick.err)
	}
	waitFor(t, "the slot is free, whoever has not read yet", func() bool { return theEngine(t).budget.Stats().Held == 0 })
	if other := s.get(s.url("f:mp3/t:0:1", "speech.wav")); other.status != http.StatusOK {
		t.Errorf("another variant: %d %s", other.status, other.body)
	}
	// It is at the store's file by now, which is cut off no earlier.
	waitFor(t, "client_idle has long passed", func() bool { return time.Since(begin) > 2*time.Second })
	s.awaitIdle()
	if body, err := io.ReadAll(paused.body); err == nil || len(body) >= len(quick.body) {
		t.Errorf("it got %d bytes and %v", len(body), err)
	}
	if again := s.get(url); again.cache() != "HIT" || !bytes.Equal(again.body[200:], quick.body[200:]) {
		t.Errorf("the variant was not kept whole: %s", again.cache())
	}
	if n := len(ffmpeg.pids()); n != 2 {
		t.Errorf("%d encoders ran, want 2", n)
	}
}

// The streams of HTTP/2 and 3 have deadlines of their own kind: timers that end the stream.
func TestAPausedStreamGoesOnToo(t *testing.T) {
	s := newSite(t, impatiently("300ms", secure("", "client_idle 20s")))
	s.generate("long.wav", 120)
	for _, p := range protocols(t, s)[1:] {
		resp := p.open(t.Context(), t, "/insecure/f:wav/bd:32f/plain/local://long.wav")
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()

		waitFor(t, "Caddy's own limit has passed", func() bool { return time.Since(begin) > 900*time.Millisecond })

		if rest, err := io.Copy(io.Discard, resp.Body); err != nil || rest < 21_000_000 {
			t.Errorf("%s: %d more bytes, %v", p.name, rest, err)
		}
	}
}
