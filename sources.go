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
	held  bool
}

// localPool holds the folders that are in use by their names. All sites and config loads that use one share what it
// costs when it does not answer.
var localPool = caddy.NewUsagePool()

// pooledLocal has nothing to close: a folder that nobody asks for is held open for a second.
type pooledLocal struct{ *source.Local }

// Destruct does nothing.
func (pooledLocal) Destruct() error { return nil }

// CaddyModule returns the Caddy module information.
func (*LocalSource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.sources.local", New: func() caddy.Module { return new(LocalSource) }}
}

// Provision finds out whether the folder can be opened.
func (s *LocalSource) Provision(ctx caddy.Context) error {
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
	pooled, _, err := localPool.LoadOrNew(s.root, func() (caddy.Destructor, error) {
		local, err := source.NewLocal(s.root)
		return pooledLocal{local}, err
	})
	if err != nil {
		return fmt.Errorf("source local: %w", err)
	}
	s.local, s.held = pooled.(pooledLocal).Local, true
	if err := s.local.Check(ctx); err != nil {
		return fmt.Errorf("source local: %w", err)
	}
	return nil
}

// Cleanup lets go of the folder. Requests that are still on their way may go on using it.
func (s *LocalSource) Cleanup() error {
	if !s.held {
		return nil
	}
	s.held = false
	_, err := localPool.Delete(s.root)
	return err
}

// Open opens a file.
func (s *LocalSource) Open(ctx context.Context, path string) (*source.Input, error) {
	return s.local.Open(ctx, path)
}

// Existing tells which of several files may be there.
func (s *LocalSource) Existing(ctx context.Context, paths []string) ([]string, error) {
	return s.local.Existing(ctx, paths)
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
	_ SourceModule       = (*LocalSource)(nil)
	_ source.Finder      = (*LocalSource)(nil)
	_ caddy.Provisioner  = (*LocalSource)(nil)
	_ caddy.CleanerUpper = (*LocalSource)(nil)
)
