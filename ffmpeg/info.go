package ffmpeg

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Info is the answer of the info endpoint. What is not known is left out of its JSON.
type Info struct {
	Format     string            `json:"format,omitempty"`
	Duration   float64           `json:"duration,omitempty"`    // seconds
	SampleRate int               `json:"sample_rate,omitempty"` // Hz
	Channels   int               `json:"channels,omitempty"`
	BitDepth   int               `json:"bit_depth,omitempty"`
	BitRate    int64             `json:"bitrate,omitempty"` // bit/s
	Size       int64             `json:"size,omitempty"`    // bytes
	Tags       map[string]string `json:"tags,omitempty"`
}

// Info describes the source. Size is what its storage says, 0 when it doesn't.
func (f Facts) Info(size int64) Info {
	return Info{
		Format:     formatWord(f.Container, f.Codec),
		Duration:   math.Round(f.Duration*1e6) / 1e6,
		SampleRate: f.SampleRate,
		Channels:   f.Channels,
		BitDepth:   f.StoredBits,
		BitRate:    f.BitRate,
		Size:       cmp.Or(size, f.Size),
		Tags:       f.Tags,
	}
}

// formatWord is the URL's word for a container where it has one, else ffprobe's first name.
func formatWord(container, codec string) string {
	first, _, _ := strings.Cut(container, ",")
	switch {
	case first == "mov":
		return "m4a"
	case first == "ogg" && codec == "opus":
		return "opus"
	}
	return first
}

// Bounds on tags: how many, and how long a key or a value may be, in bytes.
const (
	infoTagCount = 32
	infoTagLimit = 512
)

// infoTags bounds tags and makes them fit to be shown. Where there are too many, the ones that people look for
// stay, then those first in the alphabet.
func infoTags(tags map[string]string) map[string]string {
	clean := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		name := infoText(strings.ToLower(infoText(key)))
		if _, taken := clean[name]; name != "" && !taken {
			clean[name] = infoText(tags[key])
		}
	}
	if len(clean) <= infoTagCount {
		return clean
	}
	order := slices.SortedFunc(maps.Keys(clean), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	for _, key := range order[infoTagCount:] {
		delete(clean, key)
	}
	return clean
}

// infoText is the beginning of s that is shown. It is a copy: what was cut off would stay in memory with it.
func infoText(s string) string {
	s = cutBytes(s, 8*infoTagLimit) // the rest could be megabytes, and doesn't matter
	return strings.Clone(cutBytes(printable(s), infoTagLimit))
}

func rank(key string) int {
	if slices.Contains(carried, key) {
		return 0
	}
	return 1
}

// printable is valid UTF-8 without what could redraw a terminal or turn the direction of text. Line breaks
// stay: lyrics have them.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
