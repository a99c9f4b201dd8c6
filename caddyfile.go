package audioproxy

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("audio_proxy", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("audio_proxy", parseDirective)
	httpcaddyfile.RegisterDirectiveOrder("audio_proxy", httpcaddyfile.Before, "file_server")
}

// parseGlobalOption reads the global option audio_proxy into the app's configuration.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		return nil, d.Err("the global option audio_proxy is there twice; write all of it into one block")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "audio_proxy", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile reads the global options:
//
//	audio_proxy {
//		slots            <n>
//		queue            <n>
//		class_limit      <class> <n>
//		ready_threshold  <n>
//		probes           <n>
//		render_timeout   <duration>
//		probe_timeout    <duration>
//		range_wait       <duration>
//		abandoned        cancel|finish
//		max_source_size  <size>
//		max_variant_size <size>
//		store            file_system [<dir>] {
//			max_size <size>
//		}
//		store            off
//		ffmpeg           <path>
//		ffprobe          <path>
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(once)
	for d.NextBlock(0) {
		name := d.Val()
		if name != "class_limit" {
			if err := seen.first(d, name); err != nil {
				return err
			}
		}
		if err := a.unmarshalOption(d, name); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) unmarshalOption(d *caddyfile.Dispenser, name string) (err error) {
	switch name {
	case "slots":
		a.Slots, err = intArg(d, 1)
	case "queue":
		var n int
		n, err = intArg(d, 0)
		a.Queue = &n
	case "class_limit":
		return a.unmarshalClassLimit(d)
	case "ready_threshold":
		var n int
		n, err = intArg(d, 0)
		a.ReadyThreshold = &n
	case "range_wait":
		a.RangeWait, err = durationArg(d)
	case "abandoned":
		a.Abandoned, err = wordArg(d, abandonedCancel, abandonedFinish)
	case "probes":
		a.Probes, err = intArg(d, 1)
	case "probe_timeout":
		a.ProbeTimeout, err = durationArg(d)
	case "render_timeout":
		a.RenderTimeout, err = durationArg(d)
	case "max_source_size":
		a.MaxSourceSize, err = sizeArg(d)
	case "max_variant_size":
		a.MaxVariantSize, err = sizeArg(d)
	case "ffmpeg":
		a.FFmpeg, err = stringArg(d)
	case "ffprobe":
		a.FFprobe, err = stringArg(d)
	case "store":
		return a.unmarshalStore(d)
	default:
		return d.Errf("unknown global option of audio_proxy: %q", name)
	}
	return err
}

func (a *App) unmarshalClassLimit(d *caddyfile.Dispenser) error {
	class, err := classArg(d)
	if err != nil {
		return err
	}
	if _, there := a.ClassLimits[class]; there {
		return d.Errf("class_limit %s is there twice", class)
	}
	n, err := intArg(d, 1)
	if err != nil {
		return d.Errf("class_limit takes a class and a whole number, 1 or more: class_limit %s <n>", class)
	}
	if a.ClassLimits == nil {
		a.ClassLimits = make(map[string]int)
	}
	a.ClassLimits[class] = n
	return nil
}

func (a *App) unmarshalStore(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("store: which? Write: store file_system [<dir>], or: store off")
	}
	kind := d.Val()
	module, err := caddyfile.UnmarshalModule(d, "audio_proxy.stores."+kind)
	if err != nil {
		return err
	}
	a.StoreRaw = caddyconfig.JSONModuleObject(module, "kind", kind, nil)
	return nil
}

// UnmarshalCaddyfile reads: file_system [<dir>] { max_size <size> }
func (s *FileSystemStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Directory = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "max_size" {
			return d.Errf("unknown option of store file_system: %q; there is max_size", d.Val())
		}
		var err error
		if s.MaxSize, err = sizeArg(d); err != nil {
			return err
		}
	}
	return nil
}

// UnmarshalCaddyfile reads: off
func (*NoStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() || d.NextBlock(d.Nesting()) {
		return d.ArgErr()
	}
	return nil
}

// parseDirective reads the directive audio_proxy.
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	if err := handler.unmarshal(h); err != nil {
		return nil, err
	}
	return handler, nil
}

// unmarshal reads the directive:
//
//	audio_proxy [<matcher>] {
//		source        local <root>
//		key           <hex> <salt-hex>
//		insecure
//		class         <class> <matcher>
//		class         <class> {
//			<matchers>
//		}
//		default_class <class>
//		preset        <name> <options>
//		presets_only
//		variant       <options>
//		freshness     immutable|revalidate
//		delivery      stream|complete
//		client_idle   <duration>
//		errors        json|caddy
//		pass_thru
//		cors          <origin>|*
//		cache         public|private
//	}
func (h *Handler) unmarshal(d httpcaddyfile.Helper) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(once)
	for d.NextBlock(0) {
		name := d.Val()
		switch name {
		case "source", "key", "class", "preset":
		default:
			if err := seen.first(d.Dispenser, name); err != nil {
				return err
			}
		}
		if err := h.unmarshalSetting(d, name); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) unmarshalSetting(d httpcaddyfile.Helper, name string) (err error) {
	switch name {
	case "source":
		return h.unmarshalSource(d.Dispenser)
	case "key":
		return h.unmarshalKey(d.Dispenser)
	case "insecure":
		h.Insecure, err = flagArg(d.Dispenser)
	case "class":
		return h.unmarshalClass(d)
	case "default_class":
		h.DefaultClass, err = classArg(d.Dispenser)
		if err == nil && d.NextArg() {
			err = d.ArgErr()
		}
	case "preset":
		return h.unmarshalPreset(d.Dispenser)
	case "presets_only":
		h.PresetsOnly, err = flagArg(d.Dispenser)
	case "variant":
		var options string
		options, err = stringArg(d.Dispenser)
		h.Variant = &options
	case "freshness":
		h.Freshness, err = wordArg(d.Dispenser, freshnessImmutable, freshnessRevalidate)
	case "delivery":
		h.Delivery, err = wordArg(d.Dispenser, deliveryStream, deliveryComplete)
	case "client_idle":
		h.ClientIdle, err = durationArg(d.Dispenser)
	case "errors":
		h.Errors, err = wordArg(d.Dispenser, errorsJSON, errorsCaddy)
	case "pass_thru":
		h.PassThru, err = flagArg(d.Dispenser)
	case "cache":
		h.Cache, err = wordArg(d.Dispenser, cachePublic, cachePrivate)
	case "cors":
		h.CORS, err = stringArg(d.Dispenser)
	default:
		return d.Errf("unknown subdirective of audio_proxy: %q", name)
	}
	return err
}

func (h *Handler) unmarshalPreset(d *caddyfile.Dispenser) error {
	var name, options string
	if !d.AllArgs(&name, &options) {
		return d.Err("preset takes a name and options: preset <name> <options>")
	}
	if _, there := h.Presets[name]; there {
		return d.Errf("preset %s is there twice", name)
	}
	if err := urlapi.Presets(nil).Check(name, options); err != nil {
		return d.Errf("preset %s: %v", name, err)
	}
	if h.Presets == nil {
		h.Presets = make(map[string]string)
	}
	h.Presets[name] = options
	return nil
}

func (h *Handler) unmarshalSource(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("source: of which kind? Write: source local <root>")
	}
	kind := d.Val()
	if _, there := h.SourcesRaw[kind]; there {
		return d.Errf("source %s is there twice; a site has one of each kind", kind)
	}
	module, err := caddyfile.UnmarshalModule(d, "audio_proxy.sources."+kind)
	if err != nil {
		return err
	}
	if h.SourcesRaw == nil {
		h.SourcesRaw = make(caddy.ModuleMap)
	}
	h.SourcesRaw[kind] = caddyconfig.JSON(module, nil)
	return nil
}

// UnmarshalCaddyfile reads: local <root>
func (s *LocalSource) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&s.Root) {
		return d.Err("source local takes one folder: source local <root>")
	}
	if d.NextBlock(d.Nesting()) {
		return d.Errf("unknown option of source local: %q", d.Val())
	}
	return nil
}

func (h *Handler) unmarshalKey(d *caddyfile.Dispenser) error {
	var pair KeyPair
	if !d.AllArgs(&pair.Key, &pair.Salt) {
		return d.Err("key takes two arguments: key <hex> <salt-hex>")
	}
	h.Keys = append(h.Keys, pair)
	return nil
}

func (h *Handler) unmarshalClass(d httpcaddyfile.Helper) error {
	class, err := classArg(d.Dispenser)
	if err != nil {
		return err
	}
	matcher, named, err := d.MatcherToken()
	if err != nil {
		return err
	}
	switch {
	case !named && d.Val() != class:
		return d.Errf("class %s: %q is no matcher; write @name, a path, or a block of matchers", class, d.Val())
	case named && d.NextArg():
		return d.ArgErr()
	case !named:
		if matcher, err = caddyhttp.ParseCaddyfileNestedMatcherSet(d.Dispenser); err != nil {
			return err
		}
	}
	if len(matcher) == 0 {
		return d.Errf("class %s: no matcher; for all requests there is default_class %s", class, class)
	}
	h.Classes = append(h.Classes, ClassRule{Class: class, MatcherSetsRaw: caddyhttp.RawMatcherSets{matcher}})
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ caddyfile.Unmarshaler = (*FileSystemStore)(nil)
	_ caddyfile.Unmarshaler = (*NoStore)(nil)
	_ caddyfile.Unmarshaler = (*LocalSource)(nil)
)
