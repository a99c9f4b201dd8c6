package audioproxy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// command runs `caddy audio-proxy` with arguments, in this process.
func command(args ...string) (stdout string, err error) {
	root := &cobra.Command{Use: "audio-proxy", SilenceErrors: true, SilenceUsage: true}
	caddycmd.Commands()["audio-proxy"].CobraFunc(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}

func TestSignedPathVerifies(t *testing.T) {
	t.Setenv("AUDIO_KEY", testKey)
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/f:opus/br:96/plain/local://a.wav",
		"plain/local://a%20b.wav", // without its first slash
		"/info/plain/local://a.wav",
		"/p:anything/plain/local://a.wav",
		"/f:mp3/enc/bG9jYWw6Ly9hLndhdg",
	} {
		out, err := command("sign", "--key", "{env.AUDIO_KEY}", "--salt", testSalt, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		signature, rest, ok := urlapi.Split(strings.TrimSuffix(out, "\n"))
		if !ok || strings.TrimPrefix(rest, "/") != strings.TrimPrefix(path, "/") || !(urlapi.Keyring{key}).Verify(signature, rest) {
			t.Errorf("%s: printed %q", path, out)
		}
	}
}

func TestCommandsSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text.wav"), []byte(strings.Repeat("This is no audio.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		says string
	}{
		{"sign /plain/local://a.wav", "--key"},
		{"sign --key 12 --salt 34 /plain/local://a.wav", "32"},
		{"sign --key {env.NOT_SET} --salt 34 /plain/local://a.wav", "NOT_SET"},
		{"sign --key KEY --salt SALT /f:mp9/plain/local://a.wav", "f:mp9"},
		{"sign --key KEY --salt SALT /f:mp3/local://a.wav", "nothing would be served"},
		{"sign --key KEY --salt SALT /plain/ftp://a.wav", "nothing would be served"},
		{"sign --key KEY --salt SALT /plain/local://ä.wav", "percent-encoded"},
		{"sign --key KEY --salt SALT", "arg"},
		{"options f:opus/br:999", "br:999"},
		{"options fade:0:2", "fade"},
		{"render f:mp3 a.wav", "--root"},
		{"render --root DIR f:mp3 missing.wav", "not found"},
		{"render --root DIR f:mp3 ../a.wav", "root"},
		{"render --root DIR f:mp3 text.wav", "no audio"},
		{"render --root DIR f:mp3 s3://bucket/a.wav", "local"},
		{"render --root DIR/nothing f:mp3 a.wav", "nothing"},
		{"render --root DIR --ffmpeg DIR/ffmpeg f:mp3 text.wav", "install ffmpeg"},
	} {
		args := strings.Fields(strings.NewReplacer("KEY", testKey, "SALT", testSalt, "DIR", dir).Replace(tc.args))
		_, err := command(args...)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want it to say %q", tc.args, err, tc.says)
		}
		if err != nil && strings.Contains(err.Error(), testKey) {
			t.Errorf("%s: the error repeats the key: %v", tc.args, err)
		}
	}
}

// What `options` prints can be run in a shell, and makes the variant.
func TestPrintedArgumentsMakeTheVariant(t *testing.T) {
	out, err := command("options", "t:0:1/f:opus")
	if err != nil {
		t.Fatal(err)
	}
	canonical, line, _ := strings.Cut(out, "\n")
	if canonical != "f:opus/t:0:1" {
		t.Errorf("the canonical form is %q", canonical)
	}
	dir, err := filepath.Abs("testdata/audio")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "speech.wav"), filepath.Join(work, "in.wav")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := os.ReadFile(filepath.Join(work, ffmpeg.LiveName))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := command("render", "--root", dir, "f:opus/t:0:1", "speech.wav")
	if err != nil {
		t.Fatal(err)
	}
	if rendered != string(made) {
		t.Errorf("the shell made %d bytes, and render others, %d", len(made), len(rendered))
	}
}

func TestArgumentsThatDependOnTheSourceAreMarkedAsSuch(t *testing.T) {
	for options, depends := range map[string]bool{"f:opus": false, "f:flac": true, "f:peaks": true, "norm:ebu": true} {
		out, err := command("options", options)
		if err != nil || strings.Contains(out, "# These depend on the source") != depends {
			t.Errorf("%s: %v\n%s", options, err, out)
		}
	}
}

func TestEveryFormatRendersWithoutAServer(t *testing.T) {
	for _, options := range []string{
		"f:mp3", "f:opus", "f:ogg", "f:aac", "f:m4a", "f:flac", "f:wav", "f:peaks", "f:peaks/pk_fmt:dat", "f:mp3/fade:0:0.5", "f:ogg/norm:ebu",
	} {
		file := filepath.Join(t.TempDir(), "variant")
		stdout, err := command("render", "--root", "testdata/audio", "-o", file, options+"/t:0:1", "local://speech.wav")
		if err != nil || stdout != "" {
			t.Errorf("%s: %v %q", options, err, stdout)
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil || len(content) == 0 {
			t.Errorf("%s: %d bytes, %v", options, len(content), err)
			continue
		}
		if !strings.HasPrefix(options, "f:peaks") {
			if _, seconds := examine(t, content); seconds < 0.95 || seconds > 1.05 {
				t.Errorf("%s lasts %.3f s, want 1", options, seconds)
			}
		}
	}
}

func TestFailedRenderLeavesTheOutputAsItWas(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "variant")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command("render", "--root", "docs", "-o", file, "f:mp3", "admission.svg"); err == nil {
		t.Fatal("a picture was rendered")
	}
	content, err := os.ReadFile(file)
	entries, _ := os.ReadDir(dir)
	if err != nil || string(content) != "before" || len(entries) != 1 {
		t.Errorf("%q, %v, beside %v", content, err, entries)
	}
}

// What stands where the variant is to go is replaced only where it is a file.
func TestRenderWritesThroughPipesAndLinks(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("file", link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan int, 1)
	go func() {
		content, _ := os.ReadFile(pipe)
		heard <- len(content)
	}()
	for _, output := range []string{pipe, link} {
		if _, err := command("render", "--root", "testdata/audio", "-o", output, "f:mp3/t:0:1", "speech.wav"); err != nil {
			t.Fatalf("to %s: %v", output, err)
		}
	}
	if n := <-heard; n == 0 {
		t.Error("nothing came through the pipe")
	}
	for path, kind := range map[string]os.FileMode{pipe: os.ModeNamedPipe, link: os.ModeSymlink, file: 0} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s is %v, %v", path, info, err)
		}
	}
}
