package ffmpeg

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

var integrated = regexp.MustCompile(`(?s)Summary:.*?I:\s+(-?[\d.]+) LUFS`)

// loudnessOf is a file's integrated loudness as ffmpeg's ebur128 measures it, in LUFS.
func loudnessOf(t *testing.T, path string) float64 {
	t.Helper()
	_, stderr, err := runTool(t, "", "ffmpeg", "-hide_banner", "-nostats", "-nostdin", "-i", "file:"+path, "-af", "ebur128=framelog=verbose", "-f", "null", "-")
	m := integrated.FindStringSubmatch(stderr)
	if err != nil || m == nil {
		t.Fatalf("no measurement: %v\n%s", err, stderr)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// speechLike has the envelope of speech: syllables of 4 Hz in phrases with pauses, over a pitch that wanders.
const speechLike = "aevalsrc='0.3*max(0,sin(2*PI*4*t))*gt(sin(2*PI*0.3*t),-0.7)" +
	"*(sin(2*PI*(130+20*sin(2*t))*t)+0.5*sin(2*PI*700*t)+0.3*sin(2*PI*2500*t))'"

// musicLike has chords that decay, and a movement from soft to loud.
const musicLike = "aevalsrc='0.25*(0.3+0.7*abs(sin(0.2*t)))*exp(-3*mod(t,0.5))*(sin(2*PI*220*t)+sin(2*PI*277*t)+sin(2*PI*330*t))" +
	"|0.2*(sin(2*PI*110*t)+sin(2*PI*440*t))*exp(-2*mod(t,0.25))'"

// Normalized audio lands within 1 LU of its target, at the source's rate, as long as it was to the sample.
func TestLoudness(t *testing.T) {
	t.Parallel()
	sources := []struct{ name, path string }{
		{"speech 44.1 kHz", makeAudio(t, "speech.wav", speechLike+":s=44100:d=13.377")},
		{"speech 96 kHz, quiet", makeAudio(t, "quiet.flac", speechLike+":s=96000:d=12.1", "-af", "volume=-20dB", "-sample_fmt", "s32")},
		{"music 44.1 kHz", makeAudio(t, "music.wav", musicLike+":s=44100:d=20.5")},
		{"music 96 kHz", makeAudio(t, "music.flac", musicLike+":s=96000:d=11")},
	}
	for _, source := range sources {
		for _, target := range []urlapi.Milli{-16000, -23000} {
			t.Run(fmt.Sprintf("%s to %d", source.name, target/1000), func(t *testing.T) {
				facts := probeFacts(t, source.path)
				opts := urlapi.Options{Format: urlapi.FLAC, Loudness: &urlapi.Loudness{Integrated: target, TruePeak: -1500, Range: 11000}}
				if !Needs(opts).Facts {
					t.Fatal("the rate to go back to must be asked for")
				}
				o := mustRender(t, source.path, opts, facts)
				if got := loudnessOf(t, o.final); math.Abs(got-float64(target)/1000) > 1 {
					t.Errorf("%.1f LUFS, want %d", got, target/1000)
				}
				if got := probe(t, o.final, "stream=sample_rate"); got != strconv.Itoa(facts.SampleRate) {
					t.Errorf("%s Hz, want %d", got, facts.SampleRate)
				}
				if got, want := frames(t, o.final), frames(t, source.path); got != want {
					t.Errorf("%d frames, want %d", got, want)
				}
			})
		}
	}
}

// loudnorm looks three seconds ahead: what is shorter, or silent, must come out all the same.
func TestLoudnessOfLittle(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"10 ms":   makeAudio(t, "short.wav", "sine=r=48000:d=0.01"),
		"2 s":     makeAudio(t, "two.wav", "sine=r=44100:d=2"),
		"silence": makeAudio(t, "silence.wav", "anullsrc=r=44100:cl=mono", "-t", "4"),
	} {
		for _, format := range audioFormats {
			t.Run(name+" "+string(format), func(t *testing.T) {
				opts := urlapi.Options{Format: format, Loudness: &urlapi.Loudness{Integrated: -16000, TruePeak: -1500, Range: 11000}}
				facts := probeFacts(t, source)
				o := mustRender(t, source, opts, facts)
				got := samples(t, o.final)
				if len(got) == 0 {
					t.Fatal("nothing came out")
				}
				for i, v := range got {
					if math.IsNaN(v) || name == "silence" && math.Abs(v) > 0.001 {
						t.Fatalf("sample %d is %v", i, v)
					}
				}
			})
		}
	}
}

// enhance:voice is five stages; each is heard.
func TestEnhanceVoice(t *testing.T) {
	t.Parallel()
	through := func(name, generator string) (before, after []float64) {
		source := makeAudio(t, name+".wav", generator, "-c:a", "pcm_f32le")
		o := mustRender(t, source, urlapi.Options{Format: urlapi.WAV, BitDepth: "32f", Enhance: "voice"}, Facts{})
		before, after = samples(t, source), samples(t, o.final)
		if len(before) != len(after) {
			t.Errorf("%s: %d samples became %d", name, len(before), len(after))
		}
		// The filters need a moment: the last second tells.
		return before[len(before)-44100:], after[len(after)-44100:]
	}
	change := func(name, generator string) float64 {
		before, after := through(name, generator)
		return rms(after) - rms(before)
	}
	sine := func(hertz, amplitude float64) string {
		return fmt.Sprintf("aevalsrc=%g*sin(2*PI*%g*t):s=44100:d=3", amplitude, hertz)
	}
	// Make-up gain of 2 (6 dB) applies to all that stays below the compressor's threshold of -18 dB.
	const makeUp = 6.0
	if got := change("voice", sine(500, 0.03)); math.Abs(got-makeUp) > 1 {
		t.Errorf("a quiet voice changes by %.1f dB, want the make-up gain of %.0f", got, makeUp)
	}
	if got := change("rumble", sine(30, 0.03)); got > makeUp-12 {
		t.Errorf("high-pass: rumble changes by %.1f dB, want at most %.0f", got, makeUp-12)
	}
	if got := change("hiss", "anoisesrc=c=white:a=0.002:r=44100:seed=1:d=3"); got > makeUp-3 {
		t.Errorf("noise reduction: a faint hiss changes by %.1f dB, want at most %.0f", got, makeUp-3)
	}
	if got := change("sibilance", sine(9000, 0.1)); got > makeUp-2 {
		t.Errorf("de-esser: a hard s changes by %.1f dB, want at most %.0f", got, makeUp-2)
	}
	if got := change("shouting", sine(500, 0.7)); got > makeUp-5 {
		t.Errorf("compressor: shouting changes by %.1f dB, want at most %.0f", got, makeUp-5)
	}
	_, limited := through("peaks", "aevalsrc=if(lt(mod(t\\,1)\\,0.003)\\,1\\,0.02)*sin(2*PI*700*t):s=44100:d=3")
	loudest := 0.0
	for _, v := range limited {
		loudest = max(loudest, math.Abs(v))
	}
	if loudest > 0.978 || loudest < 0.5 {
		t.Errorf("limiter: peaks at %.3f, want at most 0.977", loudest)
	}
}
