package audioproxy

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
)

// slowly is an encoder that writes some bytes, and as many again when the returned function is called.
func slowly(t *testing.T) (e *encoders, open func()) { return standing(t, `printf '%08192d' 2`) }

// failing is one that fails then.
func failing(t *testing.T) (e *encoders, open func()) { return standing(t, `exit 1`) }

// standing is an encoder that writes 8192 bytes, stands still until the returned function is called, and then does
// what the shell text says.
func standing(t *testing.T, then string) (e *encoders, open func()) {
	t.Helper()
	e = script(t, "")
	gate := e.path + ".open"
	content, err := os.ReadFile(e.path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, toOutput+"printf '%08192d' 1; while [ ! -e "+gate+" ]; do sleep 0.02; done; "+then+"\n"...)
	if err := os.WriteFile(e.path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// probing is an ffprobe that is counted, and does what the shell text says: `exec ffprobe "$@"` is the real thing.
func probing(t *testing.T, text string) *encoders {
	t.Helper()
	dir := t.TempDir()
	e := &encoders{path: filepath.Join(dir, "ffprobe"), log: filepath.Join(dir, "pids")}
	content := "#!/bin/sh\ncase \" $* \" in *\" -i \"*) ;; *) exec ffprobe \"$@\";; esac\necho $$ >> " + e.log + "\n" + text + "\n"
	if err := os.WriteFile(e.path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return e
}

func base64url(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func paddedBase64url(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }
