package audioproxy

import (
	"context"
	"errors"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// masterExtensions are what a file's name may end in where a URL has the variant's extension in its place, in
// the order in which they are tried: the better the master, the sooner.
var masterExtensions = []string{
	".wav", ".flac", ".aiff", ".aif", ".caf", ".w64", ".wv", ".ape", ".tta",
	".m4a", ".mp3", ".ogg", ".oga", ".opus", ".aac", ".mp2", ".wma", ".mka", ".webm", ".ac3", ".dts", ".au", ".amr",
	".aifc", ".alac", ".bwf", ".dsf", ".eac3", ".m4b", ".mp4", ".mpc", ".shn", ".spx", ".tak", ".voc",
}

// readFixed reads a path of a site that serves one fixed variant: the path is the source's, as it is, or with
// the variant's extension added to it or in its extension's place.
func (h *Handler) readFixed(ctx context.Context, file string) (*variant, error) {
	for _, candidate := range h.candidates(file) {
		src, err := urlapi.ParseCanonical(urlapi.SchemeLocal + "://" + candidate)
		if err != nil {
			return nil, err
		}
		v := &variant{options: *h.fixed, source: src}
		if v.input, err = h.sources[src.Scheme].Open(ctx, src.Path); err == nil {
			if err = h.identify(ctx, v); err != nil {
				v.close()
			}
			return v, err
		}
		if !errors.Is(err, source.ErrNotFound) {
			return nil, err
		}
	}
	return h.readFixedStored(ctx, file)
}

// readFixedStored finds the variant of a source that is gone, where the site keeps variants for ever.
func (h *Handler) readFixedStored(ctx context.Context, file string) (*variant, error) {
	kept, err := h.app.openStore()
	if err != nil || kept == nil || h.Freshness != freshnessImmutable {
		return nil, errNotFound(source.ErrNotFound)
	}
	for _, candidate := range h.candidates(file) {
		v := &variant{options: *h.fixed}
		if v.source, err = urlapi.ParseCanonical(urlapi.SchemeLocal + "://" + candidate); err != nil {
			return nil, err
		}
		if err := h.identify(ctx, v); err != nil {
			return nil, err
		}
		if _, err := kept.Stat(v.id); err == nil {
			return v, nil
		}
	}
	return nil, errNotFound(source.ErrNotFound)
}

// candidates are the sources that a path may mean, the likeliest first.
func (h *Handler) candidates(file string) []string {
	candidates := []string{file}
	extension := h.fixed.Extension()
	stem := strings.TrimSuffix(file, extension)
	if stem == file || stem == "" || strings.HasSuffix(stem, "/") {
		return candidates
	}
	candidates = append(candidates, stem) // whose extension, if it has one, is its own: song.wav.opus
	for _, master := range masterExtensions {
		if master != extension {
			candidates = append(candidates, stem+master, stem+strings.ToUpper(master))
		}
	}
	return candidates
}
