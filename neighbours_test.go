package audioproxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// around is a Caddyfile whose site holds these lines. {audio} stands for a directive that is ready to serve.
func around(global, siteLines string) string {
	return strings.ReplaceAll(`{
	admin off
	persist_config off
	grace_period 5s
	audio_proxy {
		store file_system {store}
		`+global+`
	}
}
http://localhost:{port} {
	`+siteLines+`
}
`, "{audio}", "source local {root}\ninsecure")
}

// raw sends HEAD for a path exactly as it is spelled here: net/http's client escapes what it thinks should be.
func (s *site) raw(target string) answer {
	s.t.Helper()
	conn, err := net.Dial("tcp", "localhost:"+strconv.Itoa(s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n", target, s.port)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodHead})
	if err != nil {
		s.t.Errorf("%s: %v", target, err)
		return answer{err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body, err}
}

// Compression drops lengths, holds bytes back and makes nonsense of offsets (case A07). Audio must pass it by.
func TestEncodeInFrontLeavesAudioAlone(t *testing.T) {
	ffmpeg, open := slowly(t)
	s := newSite(t, around("ffmpeg "+ffmpeg.path, `encode zstd gzip {
		match header Content-Type *
	}
	audio_proxy {
		{audio}
	}`))
	url := s.url("f:mp3", "speech.wav")
	resp, err := s.open(t.Context(), http.MethodGet, url, "Accept-Encoding", "gzip, zstd")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 8192)); err != nil {
		t.Errorf("the first bytes are held back: %v", err)
	}
	open()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(rest) != 8192 || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("the stream: %d more bytes, %v, %v", len(rest), err, resp.Header)
	}
	whole := s.get(url, "Accept-Encoding", "gzip")
	if whole.header.Get("Content-Encoding") != "" || whole.header.Get("Content-Length") != "16384" || whole.cache() != "HIT" {
		t.Errorf("stored: %v", whole.header)
	}
	part := s.get(url, "Accept-Encoding", "gzip", "Range", "bytes=8190-8193")
	if part.status != http.StatusPartialContent || part.header.Get("Content-Encoding") != "" || !bytes.Equal(part.body, whole.body[8190:8194]) {
		t.Errorf("range: %d %v %q", part.status, part.header, part.body)
	}
}

// Peaks gain by compression, and are then another representation.
func TestPeaksMayBeCompressed(t *testing.T) {
	for _, freshness := range []string{"immutable", "revalidate"} {
		t.Run(freshness, func(t *testing.T) {
			peaksMayBeCompressed(t, newSite(t, around("", `encode gzip
	audio_proxy {
		{audio}
		freshness `+freshness+`
	}`)))
		})
	}
}

func peaksMayBeCompressed(t *testing.T, s *site) {
	url := s.url("f:peaks", "speech.wav")
	plain := s.get(url)
	for _, which := range []string{"stream", "stored"} {
		if which == "stream" {
			url = s.url("f:peaks/pts:900", "speech.wav")
			plain = answer{}
		}
		a := s.get(url, "Accept-Encoding", "gzip")
		if a.header.Get("Content-Encoding") != "gzip" || a.header.Get("Content-Length") == strconv.Itoa(len(plain.body)) {
			t.Errorf("%s: %v", which, a.header)
			continue
		}
		tag := a.header.Get("ETag")
		if !strings.HasPrefix(tag, "W/") && !strings.HasSuffix(tag, `-gzip"`) {
			t.Errorf("%s: the compressed peaks have the plain ones' ETag %s", which, tag)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, s.get(url).body) {
			t.Errorf("%s: unpacked: %d bytes, %v", which, len(got), err)
		}
		if same := s.get(url, "Accept-Encoding", "gzip", "If-None-Match", tag); same.status != http.StatusNotModified {
			t.Errorf("%s: with its own tag: %d, want 304", which, same.status)
		}
	}
	if a := s.get(s.url("f:mp3", "speech.wav"), "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Errorf("audio: %v", a.header)
	}
}

// Whoever renders the error, status and lifetimes are the contract's. What was behind it stays in the log.
func TestErrorRoutesRenderErrors(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, around("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, `audio_proxy {
		{audio}
		errors caddy
		cors https://app.example
	}
	handle_errors {
		respond "page {err.status_code}: {err.message}"
	}`))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	rendering := s.started(url)
	waitFor(t, "the slot is taken", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	full := s.get(s.url("f:mp3/t:0:2", "speech.wav"))
	open()
	<-rendering
	outside := filepath.Join(t.TempDir(), "x.wav")
	if err := os.Symlink(outside, filepath.Join(s.root, "link.wav")); err != nil {
		t.Fatal(err)
	}
	missing := s.get(s.url("", "missing.wav"))
	for name, tc := range map[string]struct {
		answer
		status  int
		control string
	}{
		"full":     {full, 429, "no-store"},
		"missing":  {missing, 404, "max-age=10"},
		"options":  {s.get(s.url("x:1", "speech.wav")), 422, "max-age=60"},
		"range":    {s.get(url, "Range", "bytes=999999999-"), 416, "no-store"},
		"expired":  {s.get(s.url("exp:1", "speech.wav")), 410, "public, max-age=31536000, immutable"},
		"unsigned": {s.get(strings.Replace(url, "insecure", "x", 1)), 401, "max-age=60"},
	} {
		page := fmt.Sprintf("page %d: ", tc.status)
		if tc.answer.status != tc.status || tc.header.Get("Cache-Control") != tc.control || !strings.HasPrefix(string(tc.body), page) {
			t.Errorf("%s: %d %v %s", name, tc.answer.status, tc.header, tc.body)
		}
		if got := tc.header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
			t.Errorf("%s: the page has Content-Type %s", name, got)
		}
		if tc.header.Get("Access-Control-Allow-Origin") == "" || tc.header.Get("ETag") != "" {
			t.Errorf("%s: %v", name, tc.header)
		}
	}
	if full.header.Get("Retry-After") == "" {
		t.Errorf("full: %v", full.header)
	}
	if refused := s.get(s.url("", "link.wav")); !bytes.Equal(refused.body, missing.body) {
		t.Errorf("the page tells what is not allowed (%s) from what is not there (%s)", refused.body, missing.body)
	}
}

// After the first byte there is no page any more, only the end of the stream without its end (case J04).
func TestABrokenOffStreamPassesTheNeighbours(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip"} {
		ffmpeg, open := failing(t)
		s := newSite(t, around("ffmpeg "+ffmpeg.path, `encode gzip {
		match header Content-Type *
	}
	header X-Site yes
	audio_proxy {
		{audio}
		errors caddy
		freshness revalidate
	}
	handle_errors {
		respond "page {err.status_code}"
	}`))
		resp, err := s.open(t.Context(), http.MethodGet, s.url("f:mp3", "speech.wav"), "Accept-Encoding", encoding)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		open()
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || err == nil || bytes.Contains(body, []byte("page")) {
			t.Errorf("%s: %d, %d bytes ending in %v", encoding, resp.StatusCode, len(body), err)
		}
	}
}

func TestOtherHandlersDoTheirWork(t *testing.T) {
	s := newSite(t, around("", `header X-Site yes
	header Cache-Control private
	route /auth {
		@ok header X-User alice
		respond @ok 200
		respond 401
	}
	@locked path */local://music.wav
	forward_auth @locked localhost:{port} {
		uri /auth
	}
	basic_auth /private/* {
		bob $2a$04$KIXQ1m2RVAhbN3n9Ebz4UuOTpbUFFDArL.0ZX1Zg3A6hv/6CdRFMu
	}
	intercept {
		@gone status 404
		handle_response @gone {
			respond "intercepted" 404
		}
	}
	handle_path /private/* {
		audio_proxy {
			{audio}
		}
	}
	audio_proxy {
		{audio}
	}`))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	for name, a := range map[string]answer{"first": s.get(url), "second": s.get(url)} {
		if a.header.Get("X-Site") != "yes" || a.status != http.StatusOK {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
	if a := s.get(s.url("f:mp3/t:0:1", "music.wav")); a.status != http.StatusUnauthorized {
		t.Errorf("forward_auth let a stranger in: %d", a.status)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "music.wav"), "X-User", "alice"); a.status != http.StatusOK {
		t.Errorf("forward_auth kept alice out: %d", a.status)
	}
	if a := s.get(strings.Replace(url, "/insecure", "/private/insecure", 1)); a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") == "" {
		t.Errorf("basic_auth let a stranger in: %d", a.status)
	}
	if a := s.get(s.url("", "nothing-here.wav")); a.status != http.StatusNotFound || string(a.body) != "intercepted" {
		t.Errorf("intercept: %d %s", a.status, a.body)
	}
}

// Signatures are over the path as it was sent, behind the prefix that the site took off (case G07). Whatever a
// rewrite does to the spelling must not matter.
func TestSignaturesAreOverTheBytesBehindThePrefix(t *testing.T) {
	s := newSite(t, around("", strings.ReplaceAll(`handle_path /audio/* {
		audio_proxy {
			{signed}
		}
	}
	handle /stripped/* {
		uri strip_prefix /stripped
		audio_proxy {
			{signed}
		}
	}
	audio_proxy {
		{signed}
	}`, "{signed}", "source local {root}\nkey "+testKey+" "+testSalt)))
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a[1].wav", "a b.wav", "a+b.wav", "100%.wav", `q"<>|.wav`, "caf\u00e9.wav", "cafe\u0301.wav", "x;y=z.wav", "日本.wav"} {
		s.master(name, "testdata/audio/speech.wav")
	}
	for _, path := range []string{
		"speech.wav", "a[1].wav", "a%5B1%5D.wav", "a%5b1].wav", "a%20b.wav", "a+b.wav", "a%2Bb.wav", "a%2bb.wav", "100%25.wav",
		`q"<>|.wav`, "q%22%3C%3E%7c.wav", "caf\u00e9.wav", "caf%C3%A9.wav", "cafe%cc%81.wav", "x;y=z.wav", "%E6%97%A5本.wav", "%73peech.wav",
	} {
		rest := "/f:mp3/t:0:1/plain/local://" + path
		signed := "/" + key.Sign(rest) + rest
		for _, prefix := range []string{"", "/audio", "/stripped", "/%61udio"} {
			if a := s.raw(prefix + signed + "?x=1"); a.status != http.StatusOK {
				t.Errorf("%s%s: %d %s", prefix, rest, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"./speech.wav", "x/../speech.wav", "x//..///speech.wav"} { // folded away by a rewrite
		rest := "/f:mp3/t:0:1/plain/local://" + path
		for _, prefix := range []string{"", "/audio", "/stripped"} {
			if a := s.raw(prefix + "/" + key.Sign(rest) + rest); a.status != http.StatusOK {
				t.Errorf("%s%s: %d %s", prefix, rest, a.status, a.body)
			}
		}
	}
	rest := "/f:mp3/t:0:1/plain/local://a[1].wav"
	for _, other := range []string{"/f:mp3/t:0:1/plain/local://a%5B1%5D.wav", "/f:mp3/t:0:1/plain/local://a[1%5D.wav"} {
		for _, prefix := range []string{"", "/audio", "/stripped"} {
			if a := s.raw(prefix + "/" + key.Sign(rest) + other); a.status != http.StatusUnauthorized {
				t.Errorf("%s: %d for the signature of %s", prefix+other, a.status, rest)
			}
		}
	}
	// The absolute form of a request line, as proxies get it.
	if a := s.raw("http://localhost:" + strconv.Itoa(s.port) + "/audio/" + key.Sign(rest) + rest); a.status != http.StatusOK {
		t.Errorf("absolute form: %d", a.status)
	}
}

func TestWhatIsNotFoundMayPassThrough(t *testing.T) {
	s := newSite(t, around("", `audio_proxy {
		{audio}
		pass_thru
		cors *
	}
	root {root}
	file_server`))
	if err := os.WriteFile(filepath.Join(s.root, "page.html"), []byte("a page"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://localhost:" + strconv.Itoa(s.port)
	if a := s.get(base + "/page.html"); string(a.body) != "a page" || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a file: %d %v %q", a.status, a.header, a.body)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "speech.wav")); a.cache() != "MISS" {
		t.Errorf("a variant: %d", a.status)
	}
	for name, a := range map[string]answer{
		"missing":  s.get(s.url("", "missing.wav")),
		"outside":  s.get(s.url("", "../x.wav")),
		"no route": s.get(base + "/nothing"),
	} {
		if a.status != http.StatusNotFound || a.code() != "" {
			t.Errorf("%s: %d %s, want file_server's own 404", name, a.status, a.body)
		}
	}
	for want, url := range map[int]string{422: s.url("x:1", "speech.wav"), 401: base + "/x/plain/local://speech.wav"} {
		if a := s.get(url); a.status != want {
			t.Errorf("%s: %d, want %d: only what is not found passes", url, a.status, want)
		}
	}
}

func TestSeveralDirectivesInOneSite(t *testing.T) {
	s := newSite(t, "(audio) {\n\tsource local {root}\n\tinsecure\n\tpreset {args[0]} {args[1]}\n\tpresets_only\n}\n"+around("", `@beta host beta.localhost
	handle_path /a/* {
		audio_proxy {
			import audio short f:mp3/t:0:1
		}
	}
	handle_path /b/* {
		audio_proxy {
			import audio short f:opus/t:0:1
		}
	}
	audio_proxy @beta {
		import audio long f:flac/t:0:2
	}
	audio_proxy /insecure/p:mine/* {
		import audio mine f:ogg/t:0:1
	}`))
	base := "http://localhost:" + strconv.Itoa(s.port)
	for path, want := range map[string]string{
		"/a/insecure/p:short/plain/local://speech.wav": "audio/mpeg",
		"/b/insecure/p:short/plain/local://speech.wav": "audio/ogg",
		"/insecure/p:mine/plain/local://speech.wav":    "audio/ogg",
	} {
		if a := s.get(base + path); a.status != http.StatusOK || a.header.Get("Content-Type") != want {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
	for _, options := range []string{"p:long", "f:mp3", ""} {
		if a := s.get(strings.Replace(s.url(options, "speech.wav"), "/insecure", "/a/insecure", 1)); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%q where only the preset short is served: %d", options, a.status)
		}
	}
	for _, options := range []string{"p:short/cb:1", "dl:a.mp3/p:short", "p:short/exp:4102444800"} {
		if a := s.get(strings.Replace(s.url(options, "speech.wav"), "/insecure", "/a/insecure", 1)); a.status != http.StatusOK {
			t.Errorf("%q: %d, want 200: it says nothing of the work", options, a.status)
		}
	}
	spelled := s.get(strings.Replace(s.url("p:short", "speech.wav"), "/insecure", "/b/insecure", 1))
	if spelled.cache() != "HIT" {
		t.Errorf("a preset again: %s", spelled.cache())
	}
}
