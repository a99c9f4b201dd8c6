package audioproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// secure is a site that speaks every protocol: HTTP/1.1 and h2c in the clear, all three over TLS.
func secure(global, directive string) string {
	return strings.Replace(simple(global, directive), "{\n", `{
	storage file_system {store}-pki
	skip_install_trust
	local_certs
	auto_https disable_redirects
	servers {
		protocols h1 h2 h2c h3
	}
`, 1) + `
https://localhost:{port2} {
	audio_proxy {
		source local {root}
		insecure
		` + directive + `
	}
}
`
}

// protocol is a client of one protocol, and the address at which the site speaks it.
type protocol struct {
	name   string
	client *http.Client
	base   string
	proto  int
}

func protocols(t *testing.T, s *site) []protocol {
	t.Helper()
	insecure := &tls.Config{InsecureSkipVerify: true} // the certificate is of this site's own making
	var clear, encrypted http.Protocols
	clear.SetUnencryptedHTTP2(true)
	encrypted.SetHTTP2(true)
	quic := &http3.Transport{TLSClientConfig: insecure}
	t.Cleanup(func() { quic.Close() })
	plain := "http://localhost:" + strconv.Itoa(s.port)
	overTLS := "https://localhost:" + strconv.Itoa(s.port+1)
	all := []protocol{
		{"HTTP/1.1", &http.Client{Transport: &http.Transport{}}, plain, 1},
		{"h2c", &http.Client{Transport: &http.Transport{Protocols: &clear}}, plain, 2},
		{"HTTP/2", &http.Client{Transport: &http.Transport{Protocols: &encrypted, TLSClientConfig: insecure.Clone()}}, overTLS, 2},
		{"HTTP/3", &http.Client{Transport: quic}, overTLS, 3},
	}
	for _, p := range all {
		t.Cleanup(p.client.CloseIdleConnections)
	}
	return all
}

func (p protocol) open(ctx context.Context, t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	if resp.ProtoMajor != p.proto {
		t.Fatalf("%s: the answer came by %s", p.name, resp.Proto)
	}
	return resp
}

func (p protocol) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	resp := p.open(t.Context(), t, path, header...)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body, err}
}

// newSecureSite starts a site on which every protocol is spoken.
func newSecureSite(t *testing.T, global, directive string) *site {
	t.Helper()
	s := newSite(t, secure(global, directive))
	waitFor(t, "the site has its certificate", func() bool {
		conn, err := tls.Dial("tcp", "localhost:"+strconv.Itoa(s.port+1), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

func TestEveryProtocolStreamsAndServesRanges(t *testing.T) {
	for i, name := range []string{"HTTP/1.1", "h2c", "HTTP/2", "HTTP/3"} {
		t.Run(name, func(t *testing.T) {
			ffmpeg, open := slowly(t)
			s := newSecureSite(t, "ffmpeg "+ffmpeg.path, "")
			p := protocols(t, s)[i]
			path := "/insecure/f:mp3/plain/local://speech.wav"

			resp := p.open(t.Context(), t, path)

			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, 8192)); err != nil {
				t.Fatalf("the first bytes did not come at once: %v", err)
			}
			open()
			rest, err := io.ReadAll(resp.Body)
			if err != nil || len(rest) != 8192 || resp.Header.Get("X-Audio-Proxy") != "MISS" || resp.ContentLength != -1 {
				t.Errorf("%d more bytes, %v, %v", len(rest), err, resp.Header)
			}
			whole := p.get(t, path)
			if whole.cache() != "HIT" || whole.err != nil || whole.header.Get("Content-Length") != "16384" || len(whole.body) != 16384 {
				t.Errorf("stored: %d bytes, %v, %v", len(whole.body), whole.err, whole.header)
			}
			part := p.get(t, path, "Range", "bytes=8190-8193")
			if part.status != http.StatusPartialContent || !bytes.Equal(part.body, whole.body[8190:8194]) {
				t.Errorf("range: %d %q", part.status, part.body)
			}
			if a := p.get(t, path, "If-None-Match", whole.header.Get("ETag")); a.status != http.StatusNotModified {
				t.Errorf("not modified: %d", a.status)
			}
			if a := p.get(t, "/insecure/plain/local://missing.wav"); a.status != http.StatusNotFound || a.code() != "not_found" {
				t.Errorf("missing: %d", a.status)
			}
		})
	}
}

// Whatever the protocol, half a song must not look whole (case B03); and the connection, where it has streams,
// goes on (case J05).
func TestEveryProtocolShowsThatAStreamWasBrokenOff(t *testing.T) {
	for i, name := range []string{"HTTP/1.1", "h2c", "HTTP/2", "HTTP/3"} {
		t.Run(name, func(t *testing.T) {
			ffmpeg, open := failing(t)
			s := newSecureSite(t, "ffmpeg "+ffmpeg.path, "")
			p := protocols(t, s)[i]
			resp := p.open(t.Context(), t, "/insecure/f:mp3/plain/local://speech.wav")
			defer resp.Body.Close()

			open()

			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || err == nil || len(body) > 8192 {
				t.Errorf("%d, %d bytes, ended with %v", resp.StatusCode, len(body), err)
			}
			if p.proto == 1 && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("ended with %v, want a missing last chunk", err)
			}
			if next := p.get(t, "/insecure/plain/local://missing.wav"); next.status != http.StatusNotFound || next.err != nil {
				t.Errorf("the next request: %d %v", next.status, next.err)
			}
			waitFor(t, "nothing is left", s.isIdle)
			if stored := s.stored(); len(stored) != 0 {
				t.Errorf("stored: %v", stored)
			}
		})
	}
}

// A client that skips tracks cancels streams and keeps its connection (case J05). No encoder must stay behind.
func TestCancelledStreamsOfOneConnectionEndTheirRendersAlone(t *testing.T) {
	for _, i := range []int{2, 3} {
		ffmpeg, open := slowly(t)
		s := newSecureSite(t, "slots 8\nffmpeg "+ffmpeg.path, "")
		p := protocols(t, s)[i]
		ctx, skip := context.WithCancel(t.Context())
		var wg, opened sync.WaitGroup
		opened.Add(5)
		for n := range 5 {
			wg.Go(func() {
				has := sync.OnceFunc(opened.Done)
				defer has()
				resp := p.open(ctx, t, "/insecure/f:mp3/cb:"+strconv.Itoa(n)+"/plain/local://speech.wav")
				has()
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
		}
		stays := p.open(t.Context(), t, "/insecure/f:mp3/cb:stays/plain/local://speech.wav")
		defer stays.Body.Close()
		waitFor(t, "all have their first bytes", func() bool {
			started := 0
			for _, f := range theEngine(t).flights.Flights() {
				if f.Bytes > 0 {
					started++
				}
			}
			return started == 6
		})
		opened.Wait() // and the clients know it

		skip()

		wg.Wait()
		waitFor(t, "only the one that is heard goes on", func() bool { return theEngine(t).budget.Stats().Held == 1 })
		open()
		if body, err := io.ReadAll(stays.Body); err != nil || len(body) != 16384 {
			t.Errorf("%s: the other stream: %d bytes, %v", p.name, len(body), err)
		}
	}
}
