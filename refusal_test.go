package audioproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestBadInputGetsTheContractsError(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("max_source_size 3MB\nffmpeg "+ffmpeg.path, ""))
	for name, content := range map[string]string{
		"text.wav":  strings.Repeat("This is no audio.\n", 100),
		"empty.wav": "",
	} {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(s.root, "music.wav"), 3_000_001); err != nil {
		t.Fatal(err)
	}
	headerOnly, err := os.ReadFile("testdata/audio/speech.wav")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, "header.wav"), headerOnly[:44], 0o600); err != nil {
		t.Fatal(err)
	}
	base := "http://localhost:" + strconv.Itoa(s.port)
	for _, tc := range []struct {
		name, url string
		status    int
		code      string
		names     string // what the message says
		cache     string
		spawns    int
	}{
		{"no signature", base + "/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/plain/local://speech.wav", 401, "invalid_signature", "", "max-age=60", 0},
		{"no such route", base + "/", 404, "not_found", "", "max-age=10", 0},
		{"unknown option", s.url("bitrate:96", "speech.wav"), 422, "invalid_options", "bitrate:96", "max-age=60", 0},
		{"value out of range", s.url("f:opus/br:999", "speech.wav"), 422, "invalid_options", "br:999", "max-age=60", 0},
		{"trim of nothing", s.url("t:1:0", "speech.wav"), 422, "invalid_options", "t:1:0", "max-age=60", 0},
		{"missing", s.url("", "nothing-here.wav"), 404, "not_found", "", "max-age=10", 0},
		{"outside", s.url("", "../x.wav"), 404, "not_found", "", "max-age=10", 0},
		{"a folder", s.url("", "."), 404, "not_found", "", "max-age=10", 0},
		{"unknown scheme", base + "/insecure/plain/ftp://h/a.wav", 404, "not_found", "", "max-age=10", 0},
		{"scheme without a source", base + "/insecure/plain/s3://bucket/a.wav", 404, "not_found", "", "max-age=10", 0},
		{"too large", s.url("", "music.wav"), 413, "source_too_large", "max_source_size", "max-age=10", 0},
		{"text", s.url("", "text.wav"), 415, "undecodable_source", "", "max-age=10", 3}, // two are for evidence
		{"empty", s.url("f:flac", "empty.wav"), 415, "undecodable_source", "", "max-age=10", -1},
		{"header only", s.url("f:mp3", "header.wav"), 415, "undecodable_source", "", "max-age=10", 1},
		{"header only, into FLAC", s.url("f:flac/bd:16", "header.wav"), 415, "undecodable_source", "", "max-age=10", 0}, // which is remembered
		{"header only, into m4a", s.url("f:m4a", "header.wav"), 415, "undecodable_source", "", "max-age=10", 0},
		{"header only, into Opus", s.url("f:opus", "header.wav"), 415, "undecodable_source", "", "max-age=10", 0},
		{"behind the end", s.url("f:ogg/t:100:1", "speech.wav"), 415, "undecodable_source", "", "max-age=10", 1},
	} {
		before := len(ffmpeg.pids())
		got := s.get(tc.url)
		if got.status != tc.status || got.code() != tc.code {
			t.Errorf("%s: %d %s, want %d %s", tc.name, got.status, got.body, tc.status, tc.code)
			continue
		}
		if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != tc.cache {
			t.Errorf("%s: %v, want Cache-Control %s", tc.name, got.header, tc.cache)
		}
		if got.header.Get("ETag") != "" || got.cache() != "" {
			t.Errorf("%s: an error with a variant's fields: %v", tc.name, got.header)
		}
		var e struct{ Message string }
		if err := json.Unmarshal(got.body, &e); err != nil || !strings.Contains(e.Message, tc.names) {
			t.Errorf("%s: the message %q does not name %q", tc.name, e.Message, tc.names)
		}
		if n := len(ffmpeg.pids()) - before; tc.spawns >= 0 && n != tc.spawns {
			t.Errorf("%s: %d encoders, want %d", tc.name, n, tc.spawns)
		}
	}
	s.awaitIdle()
	if stored := s.stored(); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
}

func TestOtherMethodsAreNotFound(t *testing.T) {
	s := newSite(t, simple("", ""))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		if got := s.do(t.Context(), method, s.url("", "speech.wav")); got.status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", method, got.status)
		}
	}
}

// Nothing tells a source that is not allowed from one that is not there.
func TestSourceRefusalsAreByteIdentical(t *testing.T) {
	s := newSite(t, simple("", ""))
	outside := filepath.Join(t.TempDir(), "secret.wav")
	if err := os.WriteFile(outside, []byte("RIFF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"absolute.wav": outside, "loop.wav": "loop.wav", "climbing.wav": "../../" + filepath.Base(outside)} {
		if err := os.Symlink(target, filepath.Join(s.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(s.root, "fifo.wav"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := s.get(s.url("", "missing.wav"))
	for _, source := range []string{
		"absolute.wav", "loop.wav", "climbing.wav", "fifo.wav", "../x.wav", "a/../../x.wav", "/etc/passwd", "speech.wav/x",
		"a%00b.wav", "a%0Ab.wav", strings.Repeat("a", 1025), strings.Repeat("a/", 64) + "x.wav", "",
	} {
		got := s.get(s.url("", source))
		got.header.Set("Date", want.header.Get("Date"))
		if got.status != want.status || !bytes.Equal(got.body, want.body) || fmt.Sprint(got.header) != fmt.Sprint(want.header) {
			t.Errorf("%q: %d %v %s\nwant %d %v %s", source, got.status, got.header, got.body, want.status, want.header, want.body)
		}
	}
}

const (
	testKey  = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	testSalt = "ffeeddccbbaa99887766554433221100"
)

func TestOnlyTheSignedBytesVerify(t *testing.T) {
	s := newSite(t, strings.Replace(simple("", "key "+testKey+" "+testSalt), "\t\tinsecure\n", "", 1))
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://localhost:" + strconv.Itoa(s.port)
	rest := "/f:mp3/t:0:1/plain/local://speech.wav"
	signature := key.Sign(rest)
	for _, url := range []string{base + "/" + signature + rest, base + "/" + signature + "=" + rest, base + "/" + signature + rest + "?x=1"} {
		if got := s.get(url); got.status != http.StatusOK {
			t.Errorf("%s: %d", url, got.status)
		}
	}
	want := s.get(base + "/insecure" + rest)
	for _, url := range []string{
		base + "/" + signature + "/f%3Amp3/t:0:1/plain/local://speech.wav",
		base + "/" + signature + "/t:0:1/f:mp3/plain/local://speech.wav",
		base + "/" + signature + "/f:mp3/t:0:1/plain/local://./speech.wav",
		base + "/" + signature + "==" + rest,
		base + "/" + signature[1:] + rest,
		base + "/" + rest,
	} {
		if got := s.get(url); got.status != http.StatusUnauthorized || !bytes.Equal(got.body, want.body) {
			t.Errorf("%s: %d %s", url, got.status, got.body)
		}
	}
}

func TestExpiredUrlIsGoneForGood(t *testing.T) {
	s := newSite(t, simple("", ""))
	got := s.get(s.url("exp:1", "speech.wav"))
	if got.status != http.StatusGone || got.code() != "expired" || got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
		t.Errorf("got %d %v %s", got.status, got.header, got.body)
	}
	if soon := s.get(s.url("f:mp3/t:0:1/exp:4102444800", "speech.wav")); soon.status != http.StatusOK {
		t.Errorf("not yet expired: %d", soon.status)
	}
}
