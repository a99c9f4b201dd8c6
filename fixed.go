package audioproxy

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
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
// the variant's extension added to it or in its extension's place. Anybody may ask for any path here, so that looking
// for what is not there has to be cheap.
func (h *Handler) readFixed(ctx context.Context, file string) (*variant, error) {
	asked, err := urlapi.ParseCanonical(urlapi.SchemeLocal + "://" + file)
	if err != nil {
		return nil, err
	}
	paths := h.candidates(file, asked.Path)
	existing, err := h.existing(ctx, paths)
	if err != nil {
		return nil, err
	}
	for _, path := range existing {
		v, err := h.openFixed(ctx, path)
		if err == nil || !isNotFound(err) {
			return v, err
		}
	}
	return h.readFixedStored(ctx, paths)
}

// existing leaves out the paths that there is surely nothing at, where the source can tell.
func (h *Handler) existing(ctx context.Context, paths []string) ([]string, error) {
	finder, ok := h.sources[urlapi.SchemeLocal].(source.Finder)
	if !ok {
		return paths, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.app.ProbeTimeout))
	defer cancel()
	found, err := finder.Existing(ctx, paths)
	return found, timedOut(err)
}

// openFixed makes the variant of a source, and opens it.
func (h *Handler) openFixed(ctx context.Context, path string) (*variant, error) {
	v, err := h.fixedVariant(ctx, path)
	if err == nil && v.input == nil {
		err = v.look(ctx)
	}
	return v, err
}

// fixedVariant makes the variant of a source. It is open where identifying it takes that.
func (h *Handler) fixedVariant(ctx context.Context, path string) (v *variant, err error) {
	v = &variant{options: *h.fixed}
	if v.source, err = urlapi.ParseCanonical(urlapi.SchemeLocal + "://" + path); err != nil {
		return nil, err
	}
	return v, h.identify(ctx, v)
}

// isNotFound reports errors of one candidate after which the others are tried: an added extension may also make a path
// too long.
func isNotFound(err error) bool {
	_, refused := errors.AsType[*urlapi.SourceError](err)
	return refused || errors.Is(err, source.ErrNotFound)
}

// readFixedStored finds the variant of a source that is gone, where the site keeps variants for ever.
func (h *Handler) readFixedStored(ctx context.Context, paths []string) (*variant, error) {
	if h.Freshness != freshnessImmutable {
		return nil, errNotFound(source.ErrNotFound)
	}
	kept, err := h.app.openStore()
	if err != nil {
		return nil, endStoreClosed.refuse(err)
	}
	if kept == nil {
		return nil, errNotFound(source.ErrNotFound)
	}
	known := h.knowable(kept)
	options := h.fixed.Canonical()
	scope := scopeOf(urlapi.SchemeLocal, h.sources[urlapi.SchemeLocal])
	for _, path := range paths {
		id := store.ID{Scope: scope, Key: urlapi.CacheKey(options, urlapi.SchemeLocal+"://"+path)}
		if known != nil && !known(id) {
			continue
		}
		switch _, err := kept.Stat(id); {
		case err == nil:
			return h.fixedVariant(ctx, path)
		case !errors.Is(err, store.ErrNotFound):
			return nil, endStoreClosed.refuse(err)
		}
	}
	return nil, errNotFound(source.ErrNotFound)
}

// searchInterval is how often a store is asked for all that a path may mean.
const searchInterval = 100 * time.Millisecond

// knowable returns what says without looking at the disk that a variant is not stored, or nil, where the store is to be
// asked. It takes a look at the disk to find what another process that shares the store has just put there; that is not
// done for each of a flood of paths that lead nowhere.
func (h *Handler) knowable(kept store.Store) func(store.ID) bool {
	index, ok := kept.(interface{ Known(store.ID) bool })
	last, now := h.searched.Load(), time.Now().UnixNano()
	if !ok || now-last > int64(searchInterval) && h.searched.CompareAndSwap(last, now) {
		return nil
	}
	return index.Known
}

// candidates are the sources that a path may mean, the likeliest first. folded is the path in canonical form.
func (h *Handler) candidates(file, folded string) []string {
	extension := h.fixed.Extension()
	stem, added := strings.CutSuffix(folded, extension)
	switch {
	case !added || !strings.HasSuffix(file, extension): // with a slash behind it, say
		return []string{folded}
	case strings.HasSuffix("/"+stem, "/"), path.Base(stem) == ".", path.Base(stem) == "..":
		return []string{folded} // nothing is called so
	}
	candidates := make([]string, 0, 2+2*len(masterExtensions))
	candidates = append(candidates, folded, stem) // whose extension, if it has one, is its own: song.wav.opus
	for _, master := range masterExtensions {
		if master != extension {
			candidates = append(candidates, stem+master, stem+strings.ToUpper(master))
		}
	}
	return candidates
}
