package audioproxy

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// How the arguments of settings are read, and what is said of wrong ones.

// once finds settings that were given twice.
type once map[string]bool

func (o once) first(d *caddyfile.Dispenser, name string) error {
	if o[name] {
		return d.Errf("%s is there twice", name)
	}
	o[name] = true
	return nil
}

// stringArg reads the one argument of a setting.
func stringArg(d *caddyfile.Dispenser) (string, error) {
	var arg string
	if !d.AllArgs(&arg) {
		return "", d.ArgErr()
	}
	return arg, nil
}

// flagArg reads a setting that takes no argument.
func flagArg(d *caddyfile.Dispenser) (bool, error) {
	if d.NextArg() {
		return false, d.ArgErr()
	}
	return true, nil
}

// wordArg reads the one argument of a setting that takes one of a few words.
func wordArg(d *caddyfile.Dispenser, words ...string) (string, error) {
	name := d.Val()
	arg, err := stringArg(d)
	if err != nil {
		return "", err
	}
	if !slices.Contains(words, arg) {
		return "", d.Errf("%s is %s, not %q", name, strings.Join(words, " or "), arg)
	}
	return arg, nil
}

func intArg(d *caddyfile.Dispenser, least int) (int, error) {
	name := d.Val()
	arg, err := stringArg(d)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < least {
		return 0, d.Errf("%s takes a whole number, %d or more, not %q", name, least, arg)
	}
	return n, nil
}

func durationArg(d *caddyfile.Dispenser) (caddy.Duration, error) {
	name := d.Val()
	arg, err := stringArg(d)
	if err != nil {
		return 0, err
	}
	duration, err := caddy.ParseDuration(arg)
	if err != nil || duration <= 0 {
		return 0, d.Errf("%s takes a duration such as 90s or 5m, not %q", name, arg)
	}
	return caddy.Duration(duration), nil
}

func sizeArg(d *caddyfile.Dispenser) (int64, error) {
	name := d.Val()
	arg, err := stringArg(d)
	if err != nil {
		return 0, err
	}
	size, err := humanize.ParseBytes(arg)
	if err != nil || size == 0 || size > math.MaxInt64 {
		return 0, d.Errf("%s takes a size such as 500MB or 2GiB, not %q", name, arg)
	}
	return int64(size), nil
}

// classArg reads the next argument, which is the name of a class.
func classArg(d *caddyfile.Dispenser) (string, error) {
	if !d.NextArg() {
		return "", d.ArgErr()
	}
	if _, err := admission.ParseClass(d.Val()); err != nil {
		return "", d.WrapErr(err)
	}
	return d.Val(), nil
}
