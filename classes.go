package audioproxy

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// ClassRule gives a class to the requests that match. The class decides who waits and who is sent away; it is
// no part of the variant.
type ClassRule struct {
	// interactive, high, normal or low.
	Class string `json:"class"`

	// Which requests, with any of Caddy's request matchers.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	class    admission.Class
	matchers caddyhttp.MatcherSets
}

func (h *Handler) provisionClasses(ctx caddy.Context) error {
	h.defaultClass = admission.Default
	if h.DefaultClass != "" {
		class, err := admission.ParseClass(h.DefaultClass)
		if err != nil {
			return fmt.Errorf("default_class: %w", err)
		}
		h.defaultClass = class
	}
	for i := range h.Classes {
		if err := h.Classes[i].provision(ctx); err != nil {
			return fmt.Errorf("class %s: %w", h.Classes[i].Class, err)
		}
	}
	return nil
}

func (c *ClassRule) provision(ctx caddy.Context) error {
	var err error
	if c.class, err = admission.ParseClass(c.Class); err != nil {
		return err
	}
	if len(c.MatcherSetsRaw) == 0 {
		return fmt.Errorf("no matcher: use default_class %s for all requests", c.Class)
	}
	matchers, err := ctx.LoadModule(c, "MatcherSetsRaw")
	if err != nil {
		return fmt.Errorf("loading matchers: %w", err)
	}
	return c.matchers.FromInterface(matchers)
}

// classify finds the class of a request.
func (h *Handler) classify(r *http.Request) (admission.Class, error) {
	for _, rule := range h.Classes {
		matched, err := rule.matchers.AnyMatchWithError(r)
		if err != nil {
			return 0, err
		}
		if matched {
			return rule.class, nil
		}
	}
	return h.defaultClass, nil
}
