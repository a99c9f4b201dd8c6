package urlapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func mustParse(t testing.TB, options string) urlapi.Options {
	t.Helper()
	o, err := urlapi.ParseOptions(options)
	if err != nil {
		t.Fatalf("%q: %v", options, err)
	}
	return o
}

func milli(n urlapi.Milli) *urlapi.Milli { return &n }

func TestParseOptionsFillsEveryField(t *testing.T) {
	for options, want := range map[string]urlapi.Options{
		"": {Format: urlapi.MP3},
		"f:ogg/q:-0.5/sr:44100/ch:2/t:1.5:30/fade:0.25:2/gain:-3.125/norm:ebu:-23:-2:7.5/enhance:voice/dl:a%20b.ogg/cb:v2:x/exp:2000000000": {
			Format: urlapi.Ogg, Quality: milli(-500), SampleRate: 44100, Channels: 2,
			Trim: &urlapi.Trim{Start: 1500, Duration: 30000}, Fade: &urlapi.Fade{In: 250, Out: 2000}, Gain: milli(-3125),
			Loudness: &urlapi.Loudness{Integrated: -23000, TruePeak: -2000, Range: 7500}, Enhance: "voice",
			Download: "a b.ogg", CacheBuster: "v2:x", Expires: 2000000000,
		},
		"f:wav/bd:32f/sr:096000":        {Format: urlapi.WAV, BitDepth: "32f", SampleRate: 96000},
		"f:opus/br:0096":                {Format: urlapi.Opus, BitRate: 96},
		"f:peaks":                       {Format: urlapi.Peaks, Channels: 1, Points: 800, PeaksFormat: "json"},
		"f:peaks/ch:2/pts:1/pk_fmt:dat": {Format: urlapi.Peaks, Channels: 2, Points: 1, PeaksFormat: "dat"},
		"f:peaks/norm:ebu:-20": {
			Format: urlapi.Peaks, Channels: 1, Points: 800, PeaksFormat: "json",
			Loudness: &urlapi.Loudness{Integrated: -20000, TruePeak: -1500, Range: 11000},
		},
	} {
		got := mustParse(t, options)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(urlapi.Options{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", options, diff)
		}
	}
}

// Each row is refused for its last segment.
func TestParseOptionsRefusesTheLast(t *testing.T) {
	for _, options := range []string{
		"f", "f:", ":", "f:mp3:mp3", "F:mp3", "f%3Amp3", "f:mp3 ", "info", "p:preview",
		"br:96:1", "br:+96", "br:96.0", "br: 96", "br:0x60", "br:1_0", "br:٣", "br:99999999999999999999", "br:-0",
		"f:wav/br:96", "f:peaks/br:96",
		"q:-0.001", "q:9.001", "q:1.2345", "q:", "f:ogg/q:-1.001", "f:ogg/q:10.001", "f:m4a/q:0.099", "f:m4a/q:2.001",
		"f:aac/q:0", "f:opus/q:-1", "f:flac/q:12.5",
		"f:flac/sr:0", "sr:48001", "f:aac/sr:96000", "f:m4a/sr:88200", "f:ogg/sr:48001", "f:wav/sr:-1", "ch:3", "ch:1.0", "f:wav/bd:32", "f:wav/bd:16f", "f:opus/bd:16",
		"t::5", "t:5:", "t:5:-1", "t:5:0", "t:5:0.000", "t:--5", "t:5-", "t:", "t:1000000000.001", "t:0:1000000000.001",
		"t:9223372036854775808", "t:99999999999999999999999999", "t:1,5", "t:NaN", "t:inf", "t:5:1:1",
		"fade:-1", "fade:1:", "fade::1", "fade:1:1:1", "fade:0:1", "t:5/fade:1:1", "t:0:5/fade:5.001", "t:0:5/fade:4:1.001",
		"gain:-100.001", "gain:100.001", "gain:--1", "gain:1e1",
		"norm:EBU", "norm:ebu:", "norm:ebu:-16:", "norm:ebu::-1", "norm:ebu:-16:-1:7:1", "norm:ebu:-4.999", "norm:ebu:-70.001",
		"norm:ebu:-16:-9.001", "norm:ebu:-16:0.001", "norm:ebu:-16:-1:50.001", "norm:ebu:-16:-1:0.999",
		"enhance:", "enhance:Voice", "f:wav/pts:800", "f:peaks/pk_fmt:", "f:peaks/pts:1.5", "f:peaks/ch:6",
		"dl:%zz", "dl:100%", "dl:a%00b", "dl:a%0d%0ab", "dl:a%7Fb", "dl:a\x01b", "dl:%ff", "dl:%C2%85",
		"cb:a\x00b", "cb:a\x7fb", "cb:a%0ab", "cb:%7f",
		"exp:-1", "exp:1.5", "exp:253402300800", "exp:1/exp:1", "f:mp3/f:mp3", "dl:a/dl:b",
	} {
		_, err := urlapi.ParseOptions(options)
		last := options[strings.LastIndexByte(options, '/')+1:]
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) || refused.Segment != last || refused.Reason == "" {
			t.Errorf("%q: got %v, want %q blamed", options, err, last)
		}
	}
}

func TestParseOptionsAccepts(t *testing.T) {
	for options, canonical := range map[string]string{
		"t:1000000000:1000000000":     "f:mp3/t:1000000000:1000000000",
		"t:000000000000000000001.500": "f:mp3/t:1.5",
		"t:0:0.001":                   "f:mp3/t:0:0.001",
		"t:0:5/fade:4:1":              "f:mp3/fade:4:1/t:0:5",
		"fade:1:0":                    "f:mp3/fade:1:0",
		"fade:-0":                     "f:mp3/fade:0:0",
		"t:5/fade:9":                  "f:mp3/fade:9:0/t:5",
		"gain:-0.000":                 "f:mp3/gain:0",
		"gain:-0.5":                   "f:mp3/gain:-0.5",
		"gain:100.0":                  "f:mp3/gain:100",
		"q:0":                         "f:mp3/q:0",
		"q:9.0":                       "f:mp3/q:9",
		"f:ogg/q:10":                  "f:ogg/q:10",
		"f:aac/q:0.10":                "f:aac/q:0.1",
		"f:flac/q:12":                 "f:flac/q:12",
		"f:wav/bd:16/sr:384000":       "bd:16/f:wav/sr:384000",
		"norm:ebu:-70:-9:1":           "f:mp3/norm:ebu:-70:-9:1",
		"norm:ebu:-5:-0:50":           "f:mp3/norm:ebu:-5:0:50",
		"exp:253402300799":            "f:mp3",
		"exp:1/cb:a%":                 "cb:a%/f:mp3",
		"cb:%25:+?":                   "cb:%25:+?/f:mp3",
		"dl:a%2Fb%3a.mp3":             "dl:a%2Fb%3a.mp3/f:mp3",
		"dl:a:b+c":                    "dl:a:b+c/f:mp3",
		"pk_fmt:dat/pts:1/f:peaks":    "ch:1/f:peaks/pk_fmt:dat/pts:1",
		"f:peaks/dl:x/cb:y/enhance:voice/norm:ebu/exp:5": "cb:y/ch:1/dl:x/enhance:voice/f:peaks/norm:ebu:-16:-1.5:11/pk_fmt:json/pts:800",
	} {
		if got := mustParse(t, options).Canonical(); got != canonical {
			t.Errorf("%q: canonical %q, want %q", options, got, canonical)
		}
	}
}

// Where a rule between two options is broken, their order in the URL does not change whom it blames.
func TestBlameDoesNotDependOnOrder(t *testing.T) {
	for options, segment := range map[string]string{
		"q:2/br:96": "q:2", "br:96/f:flac": "br:96", "bd:32f/f:flac": "bd:32f", "fade:1:1.001/t:0:2": "fade:1:1.001",
		"sr:8000/f:peaks": "sr:8000", "pts:9": "pts:9", "q:11/f:opus": "q:11",
	} {
		_, err := urlapi.ParseOptions(options)
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) || refused.Segment != segment {
			t.Errorf("%q: got %v, want %q blamed", options, err, segment)
		}
	}
}

func TestOptionErrorIsShort(t *testing.T) {
	_, err := urlapi.ParseOptions("cb:x/" + strings.Repeat("é", 5000))
	if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "é") {
		t.Errorf("got %v", err)
	}
}

// Options that were made in Go and not read from a URL have a canonical form as well.
func TestCanonicalOfAChangedDownload(t *testing.T) {
	o := mustParse(t, "dl:a.mp3")
	o.Download = "b/c d.mp3"
	if got := o.Canonical(); got != "dl:b%2Fc%20d.mp3/f:mp3" {
		t.Errorf("canonical %q", got)
	}
}

func TestMilliString(t *testing.T) {
	for n, want := range map[urlapi.Milli]string{
		0: "0", 1: "0.001", -1: "-0.001", 10: "0.01", -500: "-0.5", 1000: "1", 12500: "12.5", -1001: "-1.001", 120: "0.12", 100000: "100",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(n), got, want)
		}
	}
}

func TestCacheKeyAndItsForm(t *testing.T) {
	plain := urlapi.CacheKey("f:mp3", "local://a.wav")
	validated := urlapi.CacheKey("f:mp3", "local://a.wav", "1-2")
	// printf 'f:mp3\nlocal://a.wav\n1-2' | sha256sum
	if plain == validated || validated != "2a37584aa54866a28caf87d5943876b55a4ae4483ec5529858bcfc95abea0689" {
		t.Errorf("keys %s and %s", plain, validated)
	}
	if !urlapi.IsKey(plain) {
		t.Error("a key is not a key")
	}
	for _, s := range []string{"", plain[1:], plain + "0", strings.ToUpper("a" + plain[1:]), "../" + plain[3:], plain[:63] + "g", plain[:63] + "/"} {
		if urlapi.IsKey(s) {
			t.Errorf("%q passes for a key", s)
		}
	}
}
