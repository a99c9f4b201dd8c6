package audioproxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// old is a client that speaks HTTP/1.0, as nginx does to its upstreams unless it is told otherwise.
type old struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

// askOld sends a request over a connection, after what a proxy in between says first.
func askOld(t *testing.T, conn net.Conn, before, method, path string, header ...string) *old {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	request := before + method + " " + path + " HTTP/1.0\r\nHost: localhost\r\n"
	for i := 0; i+1 < len(header); i += 2 {
		request += header[i] + ": " + header[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	return &old{t, conn, bufio.NewReader(conn)}
}

// answer reads the answer to its end. Without a length, every end of the connection but a reset looks complete.
func (o *old) answer(method string) answer {
	o.t.Helper()
	resp, err := http.ReadResponse(o.reader, &http.Request{Method: method})
	if err != nil {
		return answer{err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body, err}
}

// ways are how an old client may be connected to a site, and whether the connection can be reset.
var ways = []struct {
	name, before string
	resets       bool
	caddyfile    func(global string) string
	network      string // "tls" is over TCP
}{
	{"TCP", "", true, func(global string) string { return simple(global, "") }, "tcp"},
	{"TCP with an access log", "", true, func(global string) string { return logged(global, "") }, "tcp"},
	{"TCP behind a careless handler", "", true, func(global string) string { return behindBareWriter(global, "") }, "tcp"},
	{"TLS", "", true, func(global string) string { return secure(global, "") }, "tls"},
	{"TCP with the PROXY protocol", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", true, func(global string) string { return proxied(simple(global, "")) }, "tcp"},
	{"a Unix socket", "", false, func(global string) string { return overUnix(simple(global, "")) }, "unix"},
	{"a Unix socket with the PROXY protocol", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", false, func(global string) string { return proxied(overUnix(simple(global, ""))) }, "unix"},
}

func proxied(caddyfile string) string {
	return strings.Replace(caddyfile, "{\n", "{\n\tservers {\n\t\tlistener_wrappers {\n\t\t\tproxy_protocol {\n\t\t\t\ttimeout 5s\n\t\t\t}\n\t\t}\n\t}\n", 1)
}

func overUnix(caddyfile string) string {
	return strings.Replace(caddyfile, "localhost:{port} {\n", "localhost:{port} {\n\tbind unix//{socket}\n", 1)
}

// oldSite starts a site that is reached in one of the ways, and returns a function that connects to it.
func oldSite(t *testing.T, way int, global string) (*site, func() net.Conn) {
	t.Helper()
	w := ways[way]
	dir, err := os.MkdirTemp("", "ap") // the path of a socket has 100 characters
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	s := newSite(t, strings.ReplaceAll(w.caddyfile(global), "{socket}", socket))
	dial := func() (net.Conn, error) {
		switch w.network {
		case "unix":
			return net.Dial("unix", socket)
		case "tls":
			return tls.Dial("tcp", "localhost:"+strconv.Itoa(s.port+1), &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
		}
		return net.Dial("tcp", "localhost:"+strconv.Itoa(s.port))
	}
	return s, func() (conn net.Conn) {
		waitFor(t, "the site can be reached", func() bool {
			conn, err = dial()
			return err == nil
		})
		return conn
	}
}

const oldPath = "/insecure/f:mp3/plain/local://speech.wav"

func TestHTTP10GetsTheFinishedFile(t *testing.T) {
	for way, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			_, dial := oldSite(t, way, "")
			head := askOld(t, dial(), w.before, "HEAD", oldPath).answer("HEAD")

			first := askOld(t, dial(), w.before, "GET", oldPath).answer("GET")

			second := askOld(t, dial(), w.before, "GET", oldPath).answer("GET")
			if first.status != 200 || first.err != nil || first.cache() != "MISS" || second.cache() != "HIT" || !bytes.Equal(first.body, second.body) {
				t.Errorf("%d %s, %d bytes, %v; then %s", first.status, first.cache(), len(first.body), first.err, second.cache())
			}
			if first.header.Get("Content-Length") != strconv.Itoa(len(first.body)) || len(first.body) == 0 {
				t.Errorf("%d bytes with Content-Length %q", len(first.body), first.header.Get("Content-Length"))
			}
			for _, name := range []string{"ETag", "Accept-Ranges", "Cache-Control", "Content-Type"} {
				if a, b, c := head.header.Get(name), first.header.Get(name), second.header.Get(name); a != b || b != c || a == "" {
					t.Errorf("%s: %q of HEAD, %q, then %q", name, a, b, c)
				}
			}
			part := askOld(t, dial(), w.before, "GET", "/insecure/f:wav/plain/local://speech.wav", "Range", "bytes=4-7").answer("GET")
			if part.status != http.StatusPartialContent || len(part.body) != 4 {
				t.Errorf("a range: %d, %d bytes", part.status, len(part.body))
			}
		})
	}
}

// N09: an encoder that died midway left an old client over a Unix socket with what looked complete, and one over TCP
// too where the site has an access log.
func TestHTTP10NeverGetsHalfASong(t *testing.T) {
	for way, w := range ways {
		for name, dies := range map[string]string{"fails": "exit 1", "aborts": "kill -ABRT $$", "is killed": "kill -KILL $$"} {
			t.Run(w.name+", the encoder "+name, func(t *testing.T) {
				ffmpeg, open := standing(t, dies)
				s, dial := oldSite(t, way, "range_wait 200ms\nffmpeg "+ffmpeg.path)
				client := askOld(t, dial(), w.before, "GET", oldPath)
				if w.resets { // and so a stream may begin
					if _, err := client.reader.Peek(1); err != nil {
						t.Fatalf("nothing came after range_wait: %v", err)
					}
				} else {
					begin := time.Now()
					waitFor(t, "range_wait has long passed", func() bool { return time.Since(begin) > time.Second })
				}

				open()

				a := client.answer("GET")
				switch {
				case w.resets && a.err == nil:
					t.Errorf("%d with %d bytes, as if they were all", a.status, len(a.body))
				case !w.resets && (a.status != http.StatusInternalServerError || a.code() != "render_failed" || a.err != nil):
					t.Errorf("%d %s %v, want an error", a.status, a.body, a.err)
				}
				s.awaitIdle()
				// The handler of a connection that was taken over is nobody's to wait for when Caddy stops.
				waitFor(t, "the request is over", func() bool { return way != 1 || len(s.lines(".access")) == 1 })
			})
		}
	}
}

// What waits for the end is held to the limits of a render, and gets the file however long that took.
func TestHTTP10WithoutAResetWaitsPastRangeWait(t *testing.T) {
	ffmpeg, open := slowly(t)
	_, dial := oldSite(t, 5, "range_wait 100ms\nffmpeg "+ffmpeg.path)
	client := askOld(t, dial(), "", "GET", oldPath)
	begin := time.Now()
	waitFor(t, "range_wait has passed", func() bool { return time.Since(begin) > 400*time.Millisecond })
	open()
	if a := client.answer("GET"); a.status != http.StatusOK || len(a.body) != 16384 || a.header.Get("Content-Length") != "16384" {
		t.Errorf("%d, %d bytes, %v", a.status, len(a.body), a.header)
	}
}

// The access log says who ended it.
func TestAResetIsLoggedAsBrokenOff(t *testing.T) {
	ffmpeg, open := failing(t)
	s, dial := oldSite(t, 1, "range_wait 100ms\nffmpeg "+ffmpeg.path)
	client := askOld(t, dial(), "", "GET", oldPath)
	if _, err := client.reader.Peek(1); err != nil {
		t.Fatal(err)
	}
	open()
	client.answer("GET")
	if got := s.leftBy(0); got["outcome"] != outcomeBrokenOff || fmt.Sprint(got["broken_by"]) != "failed" {
		t.Errorf("left %v", got)
	}
}
