package audioproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// logged is a site that logs to files beside its store, with a signed and an unsigned way in.
func logged(global, directive string) string {
	config := strings.Replace(simple(global, directive), "admin off", "admin off\n\tdebug\n\tlog {\n\t\toutput file {store}.log\n\t}", 1)
	return strings.Replace(config, "\taudio_proxy {\n\t\tsource", "\tlog {\n\t\toutput file {store}.access\n\t}\n"+
		"\tlog_append appended {http.audio_proxy.options}\n"+
		"\theader >X-Key {http.audio_proxy.key}\n\theader >X-Wait {http.audio_proxy.queue_wait}\n"+
		"\taudio_proxy {\n\t\tsource", 1)
}

// lines of a log of the site, as JSON.
func (s *site) lines(log string) (lines []map[string]any) {
	s.t.Helper()
	file, err := os.Open(s.store + log)
	if err != nil {
		return nil
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			s.t.Fatalf("%s: %v", scanner.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines
}

// line waits for a line of a log.
func (s *site) line(log, what string, is func(map[string]any) bool) (found map[string]any) {
	s.t.Helper()
	waitFor(s.t, what+" is logged", func() bool {
		for _, line := range s.lines(log) {
			if is(line) {
				found = line
			}
		}
		return found != nil
	})
	return found
}

// leftBy is the access log's field of the nth request.
func (s *site) leftBy(n int) map[string]any {
	s.t.Helper()
	waitFor(s.t, "the request is logged", func() bool { return len(s.lines(".access")) > n })
	line := s.lines(".access")[n]
	field, _ := line["audio_proxy"].(map[string]any)
	if field != nil {
		field["status"], field["appended"] = line["status"], line["appended"]
	}
	return field
}

func TestRequestsLeaveTheirOutcomeForOthers(t *testing.T) {
	s := newSite(t, logged("", "class high {\n\theader X-Class high\n}"))
	url := s.url("t:0:1/f:mp3", "speech.wav")
	for n, want := range []map[string]any{
		{"cache": "miss", "outcome": "complete", "status": 200.0},
		{"cache": "hit", "outcome": "complete", "status": 200.0},
	} {
		a := s.get(url, "X-Class", "high")
		want["class"], want["source"], want["options"] = "high", "local://speech.wav", "f:mp3/t:0:1"
		want["key"] = a.header.Get("X-Key")
		want["appended"] = want["options"]
		got := s.leftBy(n)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("request %d: %s is %v, want %v", n, name, got[name], value)
			}
		}
		if len(a.header.Get("X-Key")) != 64 || !strings.HasSuffix(a.header.Get("X-Wait"), "s") {
			t.Errorf("request %d: placeholders in header fields: %v", n, a.header)
		}
		_, waited := got["queue_wait"]
		rendered, _ := got["render_time"].(float64)
		if miss := want["cache"] == "miss"; waited != miss || (rendered > 0) != miss {
			t.Errorf("request %d: %v", n, got)
		}
	}
	for n, tc := range []struct{ url, outcome string }{
		{s.url("f:mp3", "nothing.wav"), "not_found"},
		{s.url("f:mp9", "speech.wav"), ""}, // of which nothing is known
	} {
		s.get(tc.url)
		if got := s.leftBy(2 + n); tc.outcome == "" && got != nil || tc.outcome != "" && got["outcome"] != tc.outcome {
			t.Errorf("%s left %v, want the outcome %q", tc.url, got, tc.outcome)
		}
	}
}

// atLeisure is shell text of an encoder that takes as long as its source plays.
const atLeisure = `exec ffmpeg -re "$@"`

func TestBrokenOffStreamIsLoggedAsSuch(t *testing.T) {
	ffmpeg := script(t, atLeisure)
	s := newSite(t, logged("ffmpeg "+ffmpeg.path, ""))
	resp, err := s.open(t.Context(), http.MethodGet, s.url("f:flac/bd:16", "music.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := syscall.Kill(ffmpeg.pids()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	got := s.leftBy(0)

	if got["outcome"] != outcomeBrokenOff || got["broken_by"] != "failed" || got["status"] != 200.0 {
		t.Errorf("left %v", got)
	}
	line := s.line(".log", "the render", func(l map[string]any) bool { return l["msg"] == "render" })
	if line["outcome"] != "failed" || line["source"] != "local://music.wav" || line["stored"] != false || line["level"] != "info" {
		t.Errorf("the render's line: %v", line)
	}
	failure := s.line(".log", "why", func(l map[string]any) bool { return l["msg"] == "a render failed" })
	if failure["level"] != "warn" || failure["key"] != line["key"] || !strings.Contains(fmt.Sprint(failure["exit"]), "killed") {
		t.Errorf("the failure's line: %v", failure)
	}
}

func TestClientThatHangsUpIsNoFailure(t *testing.T) {
	s := newSite(t, logged("ffmpeg "+script(t, atLeisure).path, ""))
	ctx, hangUp := context.WithCancel(t.Context())
	resp, err := s.open(ctx, http.MethodGet, s.url("f:flac/bd:16", "music.wav"))
	if err != nil {
		t.Fatal(err)
	}
	hangUp()
	resp.Body.Close()

	if got := s.leftBy(0); got["outcome"] != outcomeClientGone || got["status"] != 200.0 {
		t.Errorf("left %v", got)
	}
	line := s.line(".log", "the render", func(l map[string]any) bool { return l["msg"] == "render" })
	if line["outcome"] != "cancelled" || line["bytes"].(float64) == 0 {
		t.Errorf("the render's line: %v", line)
	}
	for _, l := range s.lines(".log") {
		if l["level"] == "warn" && strings.Contains(fmt.Sprint(l["logger"]), "audio_proxy") && !strings.Contains(fmt.Sprint(l["msg"]), "insecure") {
			t.Errorf("a client that hung up is worth a warning: %v", l)
		}
	}
}

func TestRendersLineTellsAllThereIs(t *testing.T) {
	s := newSite(t, logged("", ""))
	a := s.get(s.url("t:0:1/f:mp3", "speech.wav"))
	line := s.line(".log", "the render", func(l map[string]any) bool { return l["msg"] == "render" })
	for name, want := range map[string]any{
		"outcome": "complete", "key": a.header.Get("X-Key"), "options": "f:mp3/t:0:1", "source": "local://speech.wav",
		"class": "interactive", "bytes": float64(len(a.body)), "stored": true, "level": "info",
	} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	for _, name := range []string{"wait", "first_byte", "duration"} {
		if d, ok := line[name].(float64); !ok || d <= 0 || d > 20 {
			t.Errorf("%s is %v", name, line[name])
		}
	}
}

// Our lines have neither keys nor signatures, nor what an operator's own authentication puts into a query.
func TestLogsHoldNothingSecret(t *testing.T) {
	t.Setenv("AUDIO_KEY", testKey)
	t.Setenv("AUDIO_SALT", testSalt)
	s := newSite(t, logged("", "key {env.AUDIO_KEY} {env.AUDIO_SALT}"))
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.root+"/text.wav", []byte(strings.Repeat("This is no audio.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	var signatures []string
	for _, rest := range []string{"/f:mp3/t:0:1/plain/local://speech.wav", "/f:mp3/plain/local://text.wav", "/f:mp3/plain/local://nothing.wav", "/f:mp9/plain/local://speech.wav"} {
		signatures = append(signatures, key.Sign(rest))
		s.get(fmt.Sprintf("http://localhost:%d/%s%s?token=verysecret", s.port, key.Sign(rest), rest))
	}
	s.line(".log", "the last refusal", func(l map[string]any) bool { return l["msg"] == "request refused" && l["code"] == "invalid_options" })

	ours := 0
	for _, line := range s.lines(".log") {
		text := fmt.Sprint(line)
		secrets := []string{testKey, testSalt}
		if strings.Contains(fmt.Sprint(line["logger"]), "audio_proxy") {
			ours++
			secrets = append(append(secrets, signatures...), "verysecret")
		}
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
	}
	if ours < 5 {
		t.Errorf("only %d lines are ours", ours)
	}
}

func TestLoggedSourceHasNoToken(t *testing.T) {
	for name, want := range map[string]string{
		"local://Ünïcode 東京?.wav":             "local://Ünïcode 東京?.wav",
		"https://h/a.wav?X-Amz-Signature=abc": "https://h/a.wav?…",
	} {
		src, err := urlapi.ParseCanonical(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := loggable(src); got != want {
			t.Errorf("%q is logged as %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"local://a\x1b[2J.wav", "local://a\u202ewav.exe", "local://a\nb.wav", "local://a\u2028b.wav"} {
		if src, err := urlapi.ParseCanonical(name); err == nil {
			t.Errorf("%q is read as %q, and could be logged", name, src)
		}
	}
}
