package audioproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

func init() {
	caddy.RegisterModule(new(LocalSource))
}

// SourceModule is a guest module in the namespace audio_proxy.sources: a kind of place that audio comes from.
// Its name is the scheme of the sources it opens.
type SourceModule interface {
	source.Opener
	// Scope tells one place of this kind from another, where the same path may name different audio; "" where
	// a source's name alone says where it is.
	Scope() string
}

// LocalSource opens the files below one folder.
type LocalSource struct {
	// The folder that local:// paths are relative to. Nothing outside it is ever opened.
	Root string `json:"root"`

	root  string
	local *source.Local
}

// CaddyModule returns the Caddy module information.
func (*LocalSource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.sources.local", New: func() caddy.Module { return new(LocalSource) }}
}

// Provision opens the folder. It is not closed when the config is cleaned up, since requests may still be on their
// way then; the garbage collector closes it when the last one is done.
func (s *LocalSource) Provision(caddy.Context) error {
	root, err := replace(s.Root)
	if err != nil {
		return fmt.Errorf("source local: %w", err)
	}
	if root == "" {
		return fmt.Errorf("source local: which folder? Write: source local <root>")
	}
	if s.root, err = filepath.Abs(root); err != nil {
		return fmt.Errorf("source local: %w", err)
	}
	if s.local, err = source.OpenLocal(s.root); err != nil {
		return fmt.Errorf("source local: %w", err)
	}
	return nil
}

// Open opens a file.
func (s *LocalSource) Open(ctx context.Context, path string) (*source.Input, error) {
	return s.local.Open(ctx, path)
}

// Scope is the folder: another site's local://song.wav is another song.
func (s *LocalSource) Scope() string { return s.root }

// scopeOf is the scope of a source module in the form that store IDs have it.
func scopeOf(scheme string, module SourceModule) string {
	sum := sha256.Sum256([]byte(scheme + "\n" + module.Scope()))
	return hex.EncodeToString(sum[:8])
}

// Interface guards
var (
	_ SourceModule      = (*LocalSource)(nil)
	_ caddy.Provisioner = (*LocalSource)(nil)
)
