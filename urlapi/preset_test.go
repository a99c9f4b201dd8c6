package urlapi

import (
	"errors"
	"testing"
)

func TestPresetsExpand(t *testing.T) {
	presets := Presets{"preview": "f:opus/br:96/t:0:30/fade:0.5:1", "plain": ""}
	for _, tc := range []struct {
		in, canonical string
		only          bool
		refused       string // the segment
	}{
		{in: "p:preview", canonical: "br:96/f:opus/fade:0.5:1/t:0:30"},
		{in: "p:preview/br:64", canonical: "br:64/f:opus/fade:0.5:1/t:0:30"},
		{in: "t:5:10/p:preview/dl:a.opus", canonical: "br:96/dl:a.opus/f:opus/fade:0.5:1/t:5:10"},
		{in: "p:plain", canonical: "f:mp3"},
		{in: "f:wav", canonical: "f:wav"},
		{in: "", canonical: "f:mp3"},
		{in: "p:unknown", refused: "p:unknown"},
		{in: "p:", refused: "p:"},
		{in: "p:preview/p:plain", refused: "p:plain"},
		{in: "p:preview/q:2", refused: "q:2"}, // br of the preset and q exclude each other
		{in: "p:preview", only: true, canonical: "br:96/f:opus/fade:0.5:1/t:0:30"},
		{in: "p:preview/cb:2/dl:x", only: true, canonical: "br:96/cb:2/dl:x/f:opus/fade:0.5:1/t:0:30"},
		{in: "p:preview/br:64", only: true, refused: "br:64"},
		{in: "f:wav", only: true, refused: "f:wav"},
		{in: "", only: true, refused: ""},
	} {
		expanded, err := presets.Expand(tc.in, tc.only)
		var options Options
		if err == nil {
			options, err = ParseOptions(expanded)
		}
		if tc.canonical == "" {
			var refused *OptionError
			if !errors.As(err, &refused) || refused.Segment != tc.refused {
				t.Errorf("%q (only: %v): %v, want a refusal of %q", tc.in, tc.only, err, tc.refused)
			}
			continue
		}
		if err != nil || options.Canonical() != tc.canonical {
			t.Errorf("%q (only: %v): %q, %v; want %q", tc.in, tc.only, options.Canonical(), err, tc.canonical)
		}
	}
}

func TestPresetsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		name, options string
		ok            bool
	}{
		{"preview-30", "f:opus/t:0:30", true},
		{"plain", "", true},
		{"", "f:opus", false},
		{"a/b", "f:opus", false},
		{"bad", "f:avi", false},
		{"gone", "exp:2000000000", false},
		{"nested", "p:preview", false},
	} {
		if err := (Presets{}).Check(tc.name, tc.options); (err == nil) != tc.ok {
			t.Errorf("%q %q: %v", tc.name, tc.options, err)
		}
	}
}
