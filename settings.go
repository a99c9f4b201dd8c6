package audioproxy

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// The words that settings take.
const (
	freshnessImmutable  = "immutable"
	freshnessRevalidate = "revalidate"
	deliveryStream      = "stream"
	deliveryComplete    = "complete"
	errorsJSON          = "json"
	errorsCaddy         = "caddy"
)

// defaultClientIdle is how long a listener may stand still. Caddy's own limit is a minute, which a paused player
// exceeds.
const defaultClientIdle = 10 * time.Minute

// provisionSettings checks what needs no other module, and fills in the defaults.
func (h *Handler) provisionSettings() error {
	if err := h.provisionVariant(); err != nil {
		return err
	}
	if err := h.checkPresets(); err != nil {
		return err
	}
	if err := checkOrigin(h.CORS); err != nil {
		return err
	}
	if h.ClientIdle < 0 {
		return errors.New("client_idle must be positive")
	}
	if h.ClientIdle == 0 {
		h.ClientIdle = caddy.Duration(defaultClientIdle)
	}
	if h.Freshness == "" && h.fixed != nil {
		h.Freshness = freshnessRevalidate
	}
	return errors.Join(
		oneOf("freshness", &h.Freshness, freshnessImmutable, freshnessRevalidate),
		oneOf("delivery", &h.Delivery, deliveryStream, deliveryComplete),
		oneOf("cache", &h.Cache, cachePublic, cachePrivate),
		oneOf("errors", &h.Errors, errorsJSON, errorsCaddy),
	)
}

// checkOrigin refuses what no browser sends as an Origin: it would never match, and look right.
func checkOrigin(cors string) error {
	if cors == "" || cors == "*" {
		return nil
	}
	u, err := url.Parse(cors)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != cors || cors != strings.ToLower(cors) {
		return fmt.Errorf("cors takes an origin such as https://app.example.com, without a path, or *; not %q", cors)
	}
	return nil
}

// oneOf checks a setting that takes one of a few words, and sets the first where it is not given.
func oneOf(name string, setting *string, words ...string) error {
	if *setting == "" {
		*setting = words[0]
	}
	for _, word := range words {
		if *setting == word {
			return nil
		}
	}
	return fmt.Errorf("%s is %s or %s, not %q", name, words[0], words[1], *setting)
}

// provisionVariant reads the options of a site that serves one fixed variant.
func (h *Handler) provisionVariant() error {
	if h.Variant == nil {
		return nil
	}
	options, err := urlapi.ParseOptions(*h.Variant)
	if err != nil {
		return fmt.Errorf("variant: %w", err)
	}
	if options.Expires != 0 {
		return errors.New("variant: a fixed variant cannot expire (option: exp)")
	}
	switch {
	case len(h.Keys) > 0 || h.Insecure:
		return errors.New("variant: its URLs have no signature, so key and insecure have no place beside it")
	case h.SourcesRaw[urlapi.SchemeLocal] == nil:
		return errors.New("variant: its URLs are paths below a folder, so it needs one: source local <root>")
	case len(h.Presets) > 0 || h.PresetsOnly:
		return errors.New("variant: its URLs have no options, so presets have no place beside it")
	}
	h.fixed = &options
	return nil
}

func (h *Handler) checkPresets() error {
	for name, options := range h.Presets {
		if err := urlapi.Presets(h.Presets).Check(name, options); err != nil {
			return fmt.Errorf("preset %s: %w", name, err)
		}
	}
	if h.PresetsOnly && len(h.Presets) == 0 {
		return errors.New("presets_only: there is no preset that could be asked for")
	}
	return nil
}
