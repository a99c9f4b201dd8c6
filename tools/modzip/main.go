// Command modzip puts a commit of a checkout into a module proxy that is a folder, as it would be published.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	path := flag.String("module", "", "module path")
	version := flag.String("version", "", "version to publish it as")
	repo := flag.String("repo", ".", "the checkout")
	revision := flag.String("revision", "HEAD", "the commit")
	proxy := flag.String("proxy", "", "the proxy's folder")
	flag.Parse()
	if err := publish(module.Version{Path: *path, Version: *version}, *repo, *revision, *proxy); err != nil {
		log.Fatal(err)
	}
}

func publish(m module.Version, repo, revision, proxy string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	goMod, err := os.ReadFile(filepath.Join(repo, "go.mod"))
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := zip.CreateFromVCS(&archive, m, repo, revision, ""); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":              []byte(m.Version + "\n"),
		m.Version + ".info": info,
		m.Version + ".mod":  goMod,
		m.Version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
