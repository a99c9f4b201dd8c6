package audioproxy

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The verdicts of check are those that requests get, for every file of the corpus.
func TestCheckSaysWhatRequestsGet(t *testing.T) {
	const options = "f:opus/t:0:1"
	s := corpusSite(t, "")
	out, err := command("check", "--json", "--options", options, s.root)
	if err == nil || !strings.Contains(err.Error(), "cannot be served") {
		t.Errorf("the corpus passes: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if rows := len(readCorpus(t)); len(lines) < rows-10 { // some rows are folders, or named twice
		t.Fatalf("%d verdicts for %d files", len(lines), rows)
	}
	for _, line := range lines {
		var v checked
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		segments := strings.Split(v.Path, "/")
		for i := range segments {
			segments[i] = url.PathEscape(segments[i])
		}
		a := s.get(s.url(options, strings.Join(segments, "/")))
		if v.Status != a.status || v.Broken != (a.err != nil) || v.Code != a.code() {
			t.Errorf("%q is %d %s, broken off %v; a request gets %d %s, %v", v.Path, v.Status, v.Code, v.Broken, a.status, a.code(), a.err)
		}
	}
}

func TestCheckPrintsWhatCannotBeServed(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"good.mp3": "testdata/audio/speech.mp3", "sub/good.wav": "testdata/audio/speech.wav", "cover.svg": "docs/admission.svg"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := command("check", "--options", "f:mp3/t:0:1", dir)
	if err == nil || err.Error() != "1 of 3 files cannot be served" || !strings.HasPrefix(out, "cover.svg: 415 undecodable_source: ") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := command("check", "--ext", "mp3,wav", "--options", "f:mp3/t:0:1", dir); err != nil || out != "All can be served: 2 files.\n" {
		t.Errorf("what can be served: %v\n%s", err, out)
	}
	out, err = command("check", "--json", filepath.Join(dir, "good.mp3"))
	var v checked
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || v != (checked{Path: "good.mp3", Status: http.StatusOK}) {
		t.Errorf("one file: %v %s", err, out)
	}
	if out, err := command("check", "--max-source-size", "1kB", filepath.Join(dir, "good.mp3")); err == nil || !strings.Contains(out, "413 source_too_large") {
		t.Errorf("a file that is too large: %v %s", err, out)
	}
	for _, wrong := range [][]string{{"--options", "f:gif", dir}, {"--slots", "0", dir}, {filepath.Join(dir, "nowhere")}, {"--max-source-size", "much", dir}} {
		if _, err := command(append([]string{"check"}, wrong...)...); err == nil {
			t.Errorf("check %v passes", wrong)
		}
	}
}
