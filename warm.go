package audioproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Warming renders variants into the store before anybody asks for them. It takes the way of a request, so that
// both share renders, keys and limits, but never faster than the budget lets it: as many entries are under way
// as there are slots, and one that the budget sends away is tried again when there is room. The classes see to it
// that requests go first.

// warmEntry is one variant to be warmed.
type warmEntry struct {
	Options string `json:"options"` // as in a URL; presets too
	Source  string `json:"source"`  // not encoded: local://album/song.wav
	Class   string `json:"class"`   // low where it is not given; never interactive
}

// warmReport is the answer to one entry, when it is settled.
type warmReport struct {
	Entry   int    `json:"entry"` // its place in the request, from 0
	Options string `json:"options"`
	Source  string `json:"source"`
	Key     string `json:"key,omitempty"`
	Status  string `json:"status"`
	Error   string `json:"error,omitempty"` // why it was refused: the codes of the URL API, and those below
	Message string `json:"message,omitempty"`
}

// What becomes of an entry. Whatever was not refused is in the store when it is reported.
const (
	warmHit     = "hit"     // it was stored already
	warmStarted = "started" // it was rendered for this entry
	warmJoined  = "joined"  // it was being rendered for somebody else
	warmRefused = "refused" // it is not stored on this entry's account
)

// Why an entry is refused, where no request would be.
var (
	endInvalidEntry = &ending{status: http.StatusBadRequest, code: "invalid_entry", keep: never}
	endNothingKept  = &ending{status: http.StatusConflict, code: "not_stored", keep: never,
		message: "Variants of this source are not kept."}
	endNotStored = &ending{status: http.StatusInsufficientStorage, code: "not_stored", keep: never,
		message: "It was rendered, but the store did not take it; the server's log says why."}
)

// maxWarmBody bounds the list, which is read before anything is rendered: some hundred thousand entries.
const maxWarmBody = 32 << 20

// postWarm answers with one line of JSON per entry, each as soon as it is settled. When the client hangs up, no
// more entries are begun and those under way lose their listener, as with any request.
func postWarm(w http.ResponseWriter, r *http.Request, app *App, _ string) error {
	if _, err := keeping(app); err != nil {
		return err
	}
	entries, err := readEntries(http.MaxBytesReader(w, r.Body, maxWarmBody))
	if err != nil {
		return err
	}
	controller := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	lines := json.NewEncoder(w)
	for report := range warmAll(r.Context(), app.engine, entries) {
		if lines.Encode(report) != nil || controller.Flush() != nil {
			return nil // nobody listens; the context has ended, and the rest with it
		}
	}
	return nil
}

// readEntries reads all entries: an array of them, or one after another.
func readEntries(body io.Reader) ([]warmEntry, error) {
	content, err := io.ReadAll(body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apiError(http.StatusRequestEntityTooLarge, "the list has more than %d bytes: send it in parts", tooLarge.Limit)
	}
	if err != nil {
		return nil, apiError(http.StatusBadRequest, "reading the list: %w", err)
	}
	entries := []warmEntry{}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("[")) {
		if err := decoder.Decode(&entries); err != nil {
			return nil, apiError(http.StatusBadRequest, "the list is not an array of {options, source, class}: %w", err)
		}
		if decoder.More() {
			return nil, apiError(http.StatusBadRequest, "there is more behind the array")
		}
		return entries, nil
	}
	for decoder.More() {
		var entry warmEntry
		if err := decoder.Decode(&entry); err != nil {
			return nil, apiError(http.StatusBadRequest, "entry %d is not {options, source, class}: %w", len(entries), err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// warmAll warms the entries, as many at a time as there are slots, and yields a report when one is settled.
func warmAll(ctx context.Context, e *engine, entries []warmEntry) func(yield func(warmReport) bool) {
	return func(yield func(warmReport) bool) {
		ctx, cancel := context.WithCancel(ctx)
		next, reports := make(chan int), make(chan warmReport)
		var workers sync.WaitGroup
		defer workers.Wait()
		defer cancel()
		for range min(len(entries), max(1, e.budget.Stats().Slots)) {
			workers.Go(guard.Func(func() {
				for i := range next {
					report := warm(ctx, entries[i])
					report.Entry, report.Options, report.Source = i, entries[i].Options, entries[i].Source
					select {
					case reports <- report:
					case <-ctx.Done():
						return
					}
				}
			}))
		}
		workers.Go(guard.Func(func() {
			defer close(next)
			for i := range entries {
				select {
				case next <- i:
				case <-ctx.Done():
					return
				}
			}
		}))
		for range entries {
			select {
			case report := <-reports:
				if !yield(report) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// warm settles one entry. A bug that one entry meets is that entry's alone.
func warm(ctx context.Context, entry warmEntry) (report warmReport) {
	err := guard.Do(func() error {
		h, v, err := findWarm(ctx, entry)
		if err != nil {
			return err
		}
		defer v.close()
		report.Key = v.id.Key
		settled, err := h.warm(ctx, v)
		report.Key, report.Status = v.id.Key, settled.Status // the source may have changed while it waited
		return err
	})
	if err != nil {
		refused := refusedEntry(err)
		refused.Key = report.Key
		return refused
	}
	return report
}

func refusedEntry(err error) warmReport {
	r := refusalOf(err)
	report := warmReport{Status: warmRefused, Error: r.code, Message: r.message()}
	if r.name == "cancelled" {
		report.Error = r.name
	}
	return report
}

func errEntry(format string, args ...any) error {
	r := endInvalidEntry.refuse(nil)
	r.text = fmt.Sprintf(format, args...)
	return r
}

// findWarm finds the site that an entry is for: of the config that runs now, the first one, in the config's
// order, that has a source of this kind and the file in it.
func findWarm(ctx context.Context, entry warmEntry) (*Handler, *variant, error) {
	class, err := entry.class()
	if err != nil {
		return nil, nil, err
	}
	src, err := urlapi.ParseCanonical(entry.Source)
	if err != nil {
		return nil, nil, err
	}
	app := runningApp()
	if app == nil {
		return nil, nil, errEntry("No site of the running config uses audio_proxy.")
	}
	err = errNotFound(source.ErrNotFound)
	for _, h := range app.sitesInOrder() {
		v, cannot := h.readWarm(ctx, entry.Options, src)
		if cannot == nil {
			v.class = class
			return h, v, nil
		}
		// What a site has against the options says more than that another one has not got the source.
		if r := refusalOf(cannot); r.status != http.StatusNotFound {
			err = cannot
		}
	}
	return nil, nil, err
}

func (e warmEntry) class() (admission.Class, error) {
	if e.Class == "" {
		return admission.Low, nil
	}
	class, err := admission.ParseClass(e.Class)
	if err != nil {
		return 0, errEntry("%v.", err)
	}
	if class == admission.Interactive {
		return 0, errEntry("Nobody listens to what is warmed: its class cannot be interactive.")
	}
	return class, nil
}

// readWarm makes of an entry what a request to this site would be. The variant's source is open, or the variant
// is stored.
func (h *Handler) readWarm(ctx context.Context, options string, src urlapi.Source) (*variant, error) {
	if h.sources[src.Scheme] == nil {
		return nil, errNotFound(source.ErrNotFound)
	}
	v := &variant{source: src}
	var err error
	if v.options, err = h.warmOptions(options); err != nil {
		return nil, err
	}
	if err := h.identify(ctx, v); err != nil {
		return nil, err
	}
	kept, err := h.app.openStore()
	if err != nil {
		return nil, err
	}
	if isKept(kept, v) {
		return v, nil
	}
	in, err := h.open(ctx, v)
	if err != nil {
		return nil, err
	}
	v.input = in
	return v, nil
}

// warmOptions reads an entry's options. A site of one fixed variant serves that alone, which need not be said.
func (h *Handler) warmOptions(segments string) (urlapi.Options, error) {
	if h.fixed != nil && segments == "" {
		return *h.fixed, nil
	}
	expanded, err := urlapi.Presets(h.Presets).Expand(segments, h.PresetsOnly)
	if err != nil {
		return urlapi.Options{}, err
	}
	options, err := urlapi.ParseOptions(expanded)
	if err == nil && h.fixed != nil && options.Canonical() != h.fixed.Canonical() {
		return options, errEntry("The site that has this source serves another variant of it.")
	}
	return options, err
}

func isKept(kept store.Store, v *variant) bool {
	if kept == nil || !v.keep {
		return false
	}
	_, err := kept.Stat(v.id)
	return err == nil
}

// warm sees to it that the variant is stored, and waits as long as that takes.
func (h *Handler) warm(ctx context.Context, v *variant) (warmReport, error) {
	kept, err := h.app.openStore()
	if err != nil {
		return warmReport{}, err
	}
	if kept == nil || !v.keep {
		return warmReport{}, endNothingKept.refuse(nil)
	}
	for {
		if isKept(kept, v) {
			return warmReport{Status: warmHit}, nil
		}
		report, err := h.warmOnce(ctx, v, kept)
		if err != nil && refusalOf(err).status == http.StatusTooManyRequests {
			if err := awaitRoom(ctx, h.app.engine.budget); err != nil {
				return warmReport{}, err
			}
			continue
		}
		if errors.Is(err, coalesce.ErrStored) {
			return warmReport{Status: warmHit}, nil
		}
		return report, err
	}
}

// warmOnce joins or starts the render and waits for its end.
func (h *Handler) warmOnce(ctx context.Context, v *variant, kept store.Store) (warmReport, error) {
	listener, cache, err := h.listen(ctx, v, kept)
	if err != nil {
		return warmReport{}, err
	}
	defer listener.Close()
	if err := listener.Complete(ctx); err != nil {
		return warmReport{}, err
	}
	if !listener.Stored() {
		return warmReport{}, endNotStored.refuse(nil)
	}
	if cache == cacheMiss {
		return warmReport{Status: warmStarted}, nil
	}
	return warmReport{Status: warmJoined}, nil
}

// roomInterval is how often the budget is asked whether it has room. A render takes longer than that.
const roomInterval = 50 * time.Millisecond

// awaitRoom waits until the budget would neither send a caller away nor have it displace another.
func awaitRoom(ctx context.Context, budget *admission.Budget) error {
	tick := time.NewTicker(roomInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if s := budget.Stats(); s.Closed || s.Held < s.Slots || s.Queued < s.Queue {
			return nil
		}
	}
}

// configured is one handler of the config, and where it stands in it.
type configured struct {
	server  string
	handler *Handler
}

// addSite notes a handler that uses the app, for those who come by another way than a request.
func (a *App) addSite(ctx caddy.Context, h *Handler) {
	name := ""
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		name = server.Name()
	}
	a.sitesMu.Lock()
	defer a.sitesMu.Unlock()
	a.sites = append(a.sites, configured{name, h})
}

// sitesInOrder are the handlers, in the order of the config: Caddy provisions servers in any order, and the
// routes of one in theirs.
func (a *App) sitesInOrder() []*Handler {
	a.sitesMu.Lock()
	defer a.sitesMu.Unlock()
	slices.SortStableFunc(a.sites, func(x, y configured) int { return strings.Compare(x.server, y.server) })
	handlers := make([]*Handler, len(a.sites))
	for i, site := range a.sites {
		handlers[i] = site.handler
	}
	return handlers
}
