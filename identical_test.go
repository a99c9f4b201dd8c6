package audioproxy

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// special puts into the root what must not be served, and returns how a URL would name each (case G06).
func (s *site) special() map[string]string {
	s.t.Helper()
	outside := filepath.Join(s.t.TempDir(), "secret.wav")
	content, err := os.ReadFile("testdata/audio/speech.wav")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(outside, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(s.root, name) }
	relative, err := filepath.Rel(s.root, outside)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute.wav": outside, "relative.wav": relative, "loop-a.wav": "loop-b.wav", "loop-b.wav": "loop-a.wav", "dangling.wav": "nowhere.wav",
		"out": filepath.Dir(relative), "null.wav": "/dev/null", "inside.wav": "speech.wav",
	} {
		if err := os.Symlink(target, in(name)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(in("fifo.wav"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Mkdir(in("directory.wav"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	refused := map[string]string{"hidden characters": "a%E2%80%AEb.wav", "control characters": "a%0Ab.wav", "NUL": "a%00b.wav",
		"too long": strings.Repeat("a", 1025), "a long name": strings.Repeat("a", 300), "too deep": strings.Repeat("a/", 64) + "x.wav",
		"climbing": "../secret.wav", "climbing later": "a/../../secret.wav", "absolute": outside, "encoded": "%2e%2e/secret.wav", "nothing": "", "itself": ".",
		"below a file": "speech.wav/x", "through a link": "out/secret.wav"}
	for _, name := range []string{"absolute.wav", "relative.wav", "loop-a.wav", "dangling.wav", "null.wav", "fifo.wav", "directory.wav"} {
		refused[name] = name
	}
	return refused
}

func sameAnswer(a, b answer) bool {
	a.header.Set("Date", b.header.Get("Date"))
	return a.status == b.status && bytes.Equal(a.body, b.body) && fmt.Sprint(a.header) == fmt.Sprint(b.header)
}

// Nothing tells a source that is not allowed from one that is not there: not the answer, and no program that is
// started for one of them.
func TestEveryWayOfAskingRefusesSourcesAlike(t *testing.T) {
	ffmpeg, ffprobe := counting(t), probing(t, `exec ffprobe "$@"`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path+"\nffprobe "+ffprobe.path, ""))
	refused := s.special()
	base := "http://localhost:" + strconv.Itoa(s.port)
	for _, options := range []string{"f:mp3", "f:peaks", "info", ""} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			want := s.do(t.Context(), method, s.url(options, "missing.wav"))
			for name, source := range refused {
				if got := s.do(t.Context(), method, s.url(options, source)); !sameAnswer(got, want) {
					t.Errorf("%s %s of %s: %d %v %s", method, options, name, got.status, got.header, got.body)
				}
			}
			for _, source := range []string{"plain/ftp://h/a.wav", "plain/s3://bucket/a.wav", "plain/https://h/a.wav", "plain/LOCAL://missing.wav", "plain/a.wav", "enc/!", "enc/" + base64url("local://../x")} {
				path := base + "/insecure/" + strings.TrimPrefix(options+"/", "/") + source
				if got := s.do(t.Context(), method, path); !sameAnswer(got, want) {
					t.Errorf("%s %s: %d %v %s", method, path, got.status, got.header, got.body)
				}
			}
		}
	}
	if n, m := len(ffmpeg.pids()), len(ffprobe.pids()); n+m != 0 {
		t.Errorf("%d encoders and %d probes ran", n, m)
	}
	if a := s.get(s.url("f:mp3/t:0:0.1", "inside.wav")); a.status != http.StatusOK {
		t.Errorf("a link that stays inside: %d", a.status)
	}
}

func TestWhatPassesThroughIsRefusedAlikeToo(t *testing.T) {
	s := newSite(t, around("", `audio_proxy {
		{audio}
		pass_thru
	}
	root {root}-none
	file_server`))
	refused := s.special()
	want := s.get(s.url("f:mp3", "missing.wav"))
	delete(refused, "NUL") // to which file_server has an answer of its own, whatever is there
	for name, source := range refused {
		if got := s.get(s.url("f:mp3", source)); !sameAnswer(got, want) {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
		}
	}
}

func TestAFixedSiteRefusesAlikeToo(t *testing.T) {
	s := newSite(t, fixed("", "f:mp3", ""))
	refused := s.special()
	want := s.get(s.path("missing.wav"))
	for name, source := range refused {
		if got := s.raw("/" + source); got.status != want.status || got.header.Get("Cache-Control") != "max-age=10" {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
	}
}
