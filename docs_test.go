package audioproxy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// fenced blocks of a language, in Markdown.
func blocks(t *testing.T, file, language string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

// Every Caddyfile that the documentation shows, and the example, is one that Caddy would load.
func TestCaddyfilesInTheDocumentationLoad(t *testing.T) {
	t.Setenv("AUDIO_KEY", testKey)
	t.Setenv("AUDIO_SALT", testSalt)
	t.Setenv("AUDIO_PROXY_STORE", filepath.Join(t.TempDir(), "store"))
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("examples/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	caddyfiles := []string{string(example)}
	for _, file := range append(files, "README.md") {
		caddyfiles = append(caddyfiles, blocks(t, file, "caddyfile")...)
	}
	if len(caddyfiles) < 2 {
		t.Fatal("found no Caddyfile in README.md")
	}
	for _, text := range caddyfiles {
		text = strings.ReplaceAll(text, "/srv/masters", "testdata/audio")
		adapted, warnings, err := adapt(text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		for _, w := range warnings {
			t.Errorf("warning: %s\n%s", w, text)
		}
		if err := validate(t, adapted); err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		serves(t, text)
	}
}

// serves has a Caddyfile of the documentation serve, on a port of this machine instead of a name on the Internet.
func serves(t *testing.T, text string) {
	t.Helper()
	s := &site{t: t, port: freePorts(t)}
	text = regexp.MustCompile(`(?m)^(?:\S+\.example\.com|:8080) \{`).ReplaceAllString(text, "http://localhost:{port} {")
	text = regexp.MustCompile(`(?m)^\t(?:tls|admin) .*\n`).ReplaceAllString(text, "")
	const quiet = "{\n\tadmin off\n\tpersist_config off\n"
	if global := strings.Index(text, "{\n\taudio_proxy {"); global == 0 || global > 0 && text[global-1] == '\n' {
		text = text[:global] + quiet + text[global+2:]
	} else {
		text = quiet + "}\n" + text
	}
	s.load(text)
	defer func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	}()
	path, want := "/health", 200
	switch {
	case strings.Contains(text, "reverse_proxy"):
		want = 502 // its nodes are not here
	case strings.Contains(text, "variant f:"):
		path = "/speech.opus"
	}
	if a := s.get(fmt.Sprintf("http://localhost:%d%s", s.port, path)); a.status != want && (want != 502 || a.status != 503) {
		t.Errorf("%s is answered %d %s by\n%s", path, a.status, a.body, text)
	}
}

// The shell lines that sign a URL make a signature that verifies.
func TestSigningExampleInTheReadmeVerifies(t *testing.T) {
	for _, block := range blocks(t, "README.md", "sh") {
		if !strings.Contains(block, "AUDIO_KEY=") {
			continue
		}
		out, err := exec.Command("sh", "-euc", block).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		setting := func(name string) string {
			return regexp.MustCompile(name + `=(\S+)`).FindStringSubmatch(block)[1]
		}
		key, err := urlapi.NewKey(setting("AUDIO_KEY"), setting("AUDIO_SALT"))
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(strings.TrimSpace(string(out)), "https://audio.example.com")
		signature, rest, ok := urlapi.Split(path)
		if !ok || !(urlapi.Keyring{key}).Verify(signature, rest) {
			t.Errorf("%s does not verify", out)
		}
		return
	}
	t.Fatal("README.md does not show how to sign")
}
