package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Capabilities are what an installed ffmpeg can do for us. Distributions leave encoders out (for their
// licences, or to be small); it is kinder to say so when a site is loaded than at each request.
type Capabilities struct {
	Version      string // as ffmpeg states it: "5.1.9-0+deb12u1", "n7.1", "N-118000-g…"
	Major, Minor int    // 0 for builds that don't say
	encoders     []string
	filters      []string
	demuxers     []string
}

// Oldest is the oldest ffmpeg release that the argument lists are written for, as major and minor.
var Oldest = [2]int{4, 4}

// encoderOf is what each format needs; filters what the options need, by the key in the URL ("" = always).
var (
	encoderOf = map[urlapi.Format]string{
		urlapi.MP3: "libmp3lame", urlapi.Opus: "libopus", urlapi.Ogg: "libvorbis", urlapi.AAC: "aac", urlapi.M4A: "aac",
		urlapi.FLAC: "flac", urlapi.WAV: "pcm_s16le", urlapi.Peaks: "pcm_s16le",
	}
	filtersOf = map[string][]string{
		"":        {"aresample", "aformat", "pan"},
		"t":       {"atrim", "asetpts"},
		"fade":    {"afade"},
		"gain":    {"volume"},
		"norm":    {"loudnorm"},
		"enhance": {"highpass", "afftdn", "deesser", "acompressor", "alimiter"},
	}
)

// Inspect asks an ffmpeg what it is and what it can do. An error means that it is no ffmpeg that we can run.
func Inspect(ctx context.Context, run Run) (Capabilities, error) {
	ask := func(arg string) (string, error) {
		answer := bounded{limit: 1 << 20}
		stderr, err := run(ctx, FFmpeg, []string{"-hide_banner", arg}, &answer)
		if err != nil {
			return "", fmt.Errorf("ffmpeg %s: %w: %s", arg, err, Tail(stderr))
		}
		return string(answer.content), nil
	}
	version, errV := ask("-version")
	encoders, errE := ask("-encoders")
	filters, errF := ask("-filters")
	demuxers, errD := ask("-demuxers")
	if err := errors.Join(errV, errE, errF, errD); err != nil {
		return Capabilities{}, err
	}
	c := Capabilities{encoders: names(encoders), filters: names(filters), demuxers: names(demuxers)}
	if err := c.readVersion(version); err != nil {
		return Capabilities{}, err
	}
	return c, nil
}

var versionLine = regexp.MustCompile(`^ffmpeg version (n?(\d+)\.(\d+)\S*|\S+)`)

func (c *Capabilities) readVersion(text string) error {
	m := versionLine.FindStringSubmatch(text)
	if m == nil {
		first, _, _ := strings.Cut(text, "\n")
		return fmt.Errorf("not ffmpeg's version: %q", cutBytes(Tail([]byte(first)), 100))
	}
	c.Version = m[1]
	c.Major, _ = strconv.Atoi(m[2])
	c.Minor, _ = strconv.Atoi(m[3])
	return nil
}

// listed is a line of -encoders, -filters or -demuxers: flags, a name, and what it is.
var listed = regexp.MustCompile(`(?m)^ [A-Z.| ]{2,6} ([\w,]+) +\S`)

func names(list string) []string {
	var found []string
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		found = append(found, m[1])
	}
	return found
}

// TooOld says that the version is known to be older than Oldest.
func (c Capabilities) TooOld() bool {
	return c.Major != 0 && (c.Major < Oldest[0] || c.Major == Oldest[0] && c.Minor < Oldest[1])
}

// Lacks is the encoder that a format needs and this ffmpeg doesn't have, or "".
func (c Capabilities) Lacks(format urlapi.Format) string {
	if encoder := encoderOf[format]; !slices.Contains(c.encoders, encoder) {
		return encoder
	}
	return ""
}

// Missing names everything that this ffmpeg cannot do, each as one phrase for a log; none when it can do all.
func (c Capabilities) Missing() []string {
	var missing []string
	if c.TooOld() {
		missing = append(missing, fmt.Sprintf("version %s is older than %d.%d", c.Version, Oldest[0], Oldest[1]))
	}
	for _, format := range []urlapi.Format{urlapi.MP3, urlapi.Opus, urlapi.Ogg, urlapi.AAC, urlapi.M4A, urlapi.FLAC, urlapi.WAV, urlapi.Peaks} {
		if encoder := c.Lacks(format); encoder != "" {
			missing = append(missing, fmt.Sprintf("no encoder %s, which f:%s needs", encoder, format))
		}
	}
	if !slices.Contains(c.demuxers, "ffmetadata") {
		missing = append(missing, "no demuxer ffmetadata, which every render needs")
	}
	for _, option := range []string{"", "t", "fade", "gain", "norm", "enhance"} {
		for _, filter := range filtersOf[option] {
			if !slices.Contains(c.filters, filter) {
				missing = append(missing, fmt.Sprintf("no filter %s, which %s needs", filter, neededBy(option)))
			}
		}
	}
	return missing
}

func neededBy(option string) string {
	if option == "" {
		return "every render"
	}
	return "the option " + option
}
