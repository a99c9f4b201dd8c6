// Package guest is an example of guest modules: a source of another kind, and a store of another kind. They are small
// enough to begin one's own with, and the project's tests run them. See docs/guests.md.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

func init() {
	caddy.RegisterModule(new(Buckets))
}

// Buckets serves s3://bucket/key from a folder that has a folder for each bucket, as a gateway does on a developer's
// machine. In a Caddyfile: source s3 <folder>
type Buckets struct {
	Folder string `json:"folder"`

	root *os.Root
}

// CaddyModule returns the Caddy module information. The last part of the ID is the scheme of the sources.
func (*Buckets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "audio_proxy.sources.s3", New: func() caddy.Module { return new(Buckets) }}
}

// Provision opens the folder.
func (b *Buckets) Provision(caddy.Context) (err error) {
	b.root, err = os.OpenRoot(b.Folder)
	return err
}

// UnmarshalCaddyfile reads: s3 <folder>
func (b *Buckets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&b.Folder) {
		return d.ArgErr()
	}
	return nil
}

// Open opens an object. The path is "bucket/key". What is not there is source.ErrNotFound; what nobody can tell,
// because the place is in trouble, is source.ErrUnavailable.
func (b *Buckets) Open(_ context.Context, path string) (*source.Input, error) {
	file, err := b.root.Open(filepath.FromSlash(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", source.ErrNotFound, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", source.ErrUnavailable, err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %w", source.ErrUnavailable, err)
	}
	return source.NewInput(file, path, fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()))
}

// Scope is "", since a bucket's name says where it is. Two sites share the variants of one object.
func (*Buckets) Scope() string { return "" }

// Interface guards
var (
	_ source.Opener         = (*Buckets)(nil)
	_ caddy.Provisioner     = (*Buckets)(nil)
	_ caddyfile.Unmarshaler = (*Buckets)(nil)
)
