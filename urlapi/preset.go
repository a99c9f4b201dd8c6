package urlapi

import (
	"fmt"
	"strings"
)

// Presets are a site's names for option strings: "p:<name>" among the options stands for them. They are
// replaced before anything else looks at the options, so a preset and its spelled-out form are one variant.
type Presets map[string]string

const presetKey = "p"

// requestOptions say how one request is answered, and cause no work that a preset did not foresee.
var requestOptions = map[string]bool{"exp": true, "dl": true, "cb": true}

// Check says whether name can be one of a preset and options be what it stands for.
func (Presets) Check(name, options string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return fmt.Errorf("a preset's name is letters, digits, - and _, not %q", name)
	}
	parsed, err := ParseOptions(options)
	if err != nil {
		return err
	}
	if parsed.Expires != 0 {
		return fmt.Errorf("a preset cannot expire: leave exp to the URL")
	}
	return nil
}

// Expand replaces the preset in option segments. An option beside it overrides the preset's own. only refuses
// options that come from no preset, but for those that are about the request (exp, dl, cb). The error is an
// *OptionError.
func (p Presets) Expand(segments string, only bool) (string, error) {
	preset, given, err := p.find(segments)
	switch {
	case err != nil:
		return "", err
	case only && preset == "":
		return "", &OptionError{Segment: segments, Reason: "only presets are served here"}
	case preset == "":
		return segments, nil
	}
	expanded := make([]string, 0, 8)
	for segment := range strings.SplitSeq(segments, "/") {
		key, _, _ := strings.Cut(segment, ":")
		switch {
		case key == presetKey:
		case only && !requestOptions[key]:
			return "", &OptionError{Segment: segment, Reason: "only presets are served here"}
		default:
			expanded = append(expanded, segment)
		}
	}
	for segment := range strings.SplitSeq(p[preset], "/") {
		if key, _, _ := strings.Cut(segment, ":"); !given[key] {
			expanded = append(expanded, segment)
		}
	}
	return strings.Join(expanded, "/"), nil
}

// find returns the name of the preset that is asked for, or "", and which keys are given beside it.
func (p Presets) find(segments string) (preset string, given map[string]bool, err error) {
	given = make(map[string]bool)
	for segment := range strings.SplitSeq(segments, "/") {
		key, value, _ := strings.Cut(segment, ":")
		given[key] = true
		if key != presetKey {
			continue
		}
		if preset != "" {
			return "", nil, &OptionError{Segment: segment, Reason: "given twice"}
		}
		if _, known := p[value]; !known {
			return "", nil, &OptionError{Segment: segment, Reason: "no such preset"}
		}
		preset = value
	}
	return preset, given, nil
}
