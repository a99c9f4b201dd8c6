package urlapi_test

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestEncoderLimits(t *testing.T) {
	const accepted = ""
	for options, blamed := range map[string]string{
		// field case F06
		"f:opus/br:999":   "br:999",
		"f:opus/sr:44100": "sr:44100",
		"f:mp3/sr:192000": "sr:192000",
		"f:ogg/br:8":      accepted, // an 8 kHz mono source can have it
		"f:ogg/br:500":    accepted, // a stereo source can have it
		"f:aac/br:999":    "br:999", // more than 48 kHz stereo can have
		"f:ogg/br:128":    accepted,

		"f:opus/br:512": accepted, "f:opus/br:513": "br:513",
		"f:opus/br:256/ch:1": accepted, "f:opus/br:257/ch:1": "br:257", "f:opus/br:512/ch:2": accepted,
		"br:513/f:opus": "br:513",
		"f:opus/br:1":   accepted,
		"f:opus/q:10":   accepted,

		"f:ogg/br:7": "br:7", "f:ogg/br:501": "br:501",
		"f:ogg/br:8/ch:2": "br:8", "f:ogg/br:500/ch:1": "br:500", "f:ogg/br:240/ch:1": accepted,
		"f:ogg/br:128/sr:8000": "br:128", "f:ogg/br:84/sr:8000": accepted, "f:ogg/br:84/sr:8000/ch:1": "br:84",
		"f:ogg/br:32/sr:44100": accepted, "f:ogg/br:32/sr:44100/ch:2": "br:32",
		"f:ogg/br:32/sr:7999": "br:32", "f:ogg/q:3/sr:7999": accepted, "f:ogg/sr:1": accepted,

		"f:aac/br:576": accepted, "f:aac/br:577": "br:577", "f:m4a/br:577": "br:577",
		"f:aac/br:576/sr:48000": accepted, "f:aac/br:577/sr:48000": "br:577",
		"f:m4a/br:288/sr:48000/ch:1": accepted, "f:m4a/br:289/sr:48000/ch:1": "br:289",
		"f:aac/sr:7350": accepted, "f:aac/sr:44000": "sr:44000", "f:m4a/sr:1": "sr:1",

		"f:mp3/br:1": accepted, "f:mp3/br:10000": accepted, "br:10000/sr:8000/ch:1": accepted,
		"sr:22000": "sr:22000", "sr:22050": accepted, "sr:48000": accepted,

		"f:flac/sr:65534": accepted, "f:flac/sr:65535": "sr:65535", "f:flac/sr:96001": "sr:96001",
		"f:flac/sr:384000": accepted, "f:flac/sr:352800": accepted, "f:flac/sr:1": accepted,
		"f:wav/sr:65535": accepted, "f:wav/sr:1": accepted, "f:wav/sr:384000": accepted,
	} {
		_, err := urlapi.ParseOptions(options)
		var refused *urlapi.OptionError
		switch errors.As(err, &refused) {
		case blamed == accepted && err == nil:
		case refused != nil && blamed == refused.Segment:
		default:
			t.Errorf("%s: got %v, want %q blamed", options, err, blamed)
		}
	}
}

// encoders are ffmpeg's arguments for the formats that have limits.
var encoders = map[urlapi.Format][]string{
	urlapi.MP3:  {"-c:a", "libmp3lame", "-f", "mp3"},
	urlapi.Opus: {"-c:a", "libopus", "-f", "ogg"},
	urlapi.Ogg:  {"-c:a", "libvorbis", "-f", "ogg"},
	urlapi.AAC:  {"-c:a", "aac", "-f", "adts"},
	urlapi.FLAC: {"-c:a", "flac", "-f", "flac"},
}

func encodes(t *testing.T, f urlapi.Format, hz, channels, kbits int) bool {
	t.Helper()
	args := []string{"-nostdin", "-v", "quiet", "-f", "lavfi", "-i", "anoisesrc=r=44100:d=0.2",
		"-ar", fmt.Sprint(hz), "-ac", fmt.Sprint(channels)}
	if kbits != 0 {
		args = append(args, "-b:a", fmt.Sprintf("%dk", kbits))
	}
	args = append(args, encoders[f]...)
	err := exec.Command("ffmpeg", append(args, "-y", "/dev/null")...).Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err) // a machine without ffmpeg cannot test this module
	}
	return err == nil
}

// The tables say what the real encoders do, on both sides of every edge. AAC's bit rates have no such edge: its
// encoder takes less than it was told.
func TestLimitsAreTheEncoders(t *testing.T) {
	if testing.Short() {
		t.Log("-short: a few edges only")
	}
	rates := map[urlapi.Format][]int{
		urlapi.MP3:  {8000, 22000, 22050, 48000, 7350},
		urlapi.Opus: {8000, 44100, 48000},
		urlapi.AAC:  {7350, 7349, 44000, 48000},
		urlapi.FLAC: {65534, 65535, 65540, 96001, 384000},
		urlapi.Ogg:  {100, 7999, 48000},
	}
	for f, hzs := range rates {
		for _, hz := range hzs {
			if got, want := encodes(t, f, hz, 2, 0), urlapi.AcceptsSampleRate(f, hz); got != want {
				t.Errorf("%s at %d Hz: the encoder says %v, we say %v", f, hz, got, want)
			}
		}
	}
	vorbisRates := []int{8000, 8999, 9000, 9001, 15000, 16000, 19000, 22050, 26000, 32000, 40000, 44100, 48000}
	if testing.Short() {
		vorbisRates = vorbisRates[:1]
	}
	for _, hz := range vorbisRates {
		checkBitRateEdges(t, urlapi.Ogg, hz)
	}
	checkBitRateEdges(t, urlapi.Opus, 48000)
	if encodes(t, urlapi.Ogg, 7999, 2, 32) {
		t.Error("libvorbis has bit rates below 8 kHz")
	}
}

func checkBitRateEdges(t *testing.T, f urlapi.Format, hz int) {
	t.Helper()
	for channels := 1; channels <= 2; channels++ {
		low, high := urlapi.BitRates(f, hz, channels)
		for kbits, want := range map[int]bool{low - 1: false, low: true, high: true, high + 1: false} {
			if kbits == 0 {
				continue
			}
			if got := encodes(t, f, hz, channels, kbits); got != want {
				t.Errorf("%s at %d Hz, %d channels, %d kbit/s: the encoder says %v, we say %v", f, hz, channels, kbits, got, want)
			}
		}
	}
}
