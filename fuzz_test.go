package audioproxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Whatever stands in a Caddyfile, it is an error or a config, and never a panic.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfile")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("{\naudio_proxy {\nclass_limit\n}\n}\n:1 {\naudio_proxy {\nclass low {\n}\n}\n}\n")
	f.Add(":1 {\naudio_proxy {\nsource local a {\nb\n}\nclass low\n}\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		adapted, _, err := adapt(text)
		if err != nil {
			return
		}
		if err := json.Unmarshal(adapted, new(caddy.Config)); err != nil {
			t.Errorf("adapted to what is no config: %v\n%s", err, adapted)
		}
	})
}
