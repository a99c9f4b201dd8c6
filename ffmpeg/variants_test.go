package ffmpeg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// probeFacts are a file's facts.
func probeFacts(t testing.TB, path string) Facts {
	t.Helper()
	facts, err := Probe(t.Context(), runReal, Source{URL: "file:" + path, Protocols: "file"})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// samples decodes a file to interleaved doubles.
func samples(t testing.TB, path string) []float64 {
	t.Helper()
	out, _, _ := decoded(t, path)
	return out
}

// decoded is samples, with the channels and the sample rate that they have.
func decoded(t testing.TB, path string) (out []float64, channels, rate int) {
	t.Helper()
	wav := mustRun(t, "", "ffmpeg", "-v", "error", "-i", "file:"+path, "-map", "0:a:0", "-c:a", "pcm_f64le", "-bitexact", "-f", "wav", "-")
	data := bytes.Index(wav, []byte("data"))
	if data < 0 {
		t.Fatalf("%s decodes to nothing", path)
	}
	channels, rate = int(binary.LittleEndian.Uint16(wav[22:])), int(binary.LittleEndian.Uint32(wav[24:]))
	pcm := wav[data+8:]
	out = make([]float64, len(pcm)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(pcm[8*i:]))
	}
	return out, channels, rate
}

// rms of a stretch of samples, in dBFS.
func rms(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return 10 * math.Log10(sum/float64(len(x))+1e-20)
}

// A lossless variant that nothing was asked of is its source, bit for bit, in the source's own depth.
func TestLosslessIsBitExact(t *testing.T) {
	t.Parallel()
	const noise = "anoisesrc=c=white:a=0.9:r=44100:seed=3:d=1.5"
	cases := []struct {
		name, path  string
		flac, wav   string // sample formats of the variants
		flacIsExact bool
	}{
		{"8 bit", makeAudio(t, "u8.wav", noise, "-c:a", "pcm_u8"), "s16", "pcm_s16le", true},
		{"16 bit", makeAudio(t, "s16.wav", noise, "-ac", "2"), "s16", "pcm_s16le", true},
		{"24 bit", makeAudio(t, "s24.wav", noise, "-c:a", "pcm_s24le"), "s32", "pcm_s24le", true},
		{"24 bit, 96 kHz", makeAudio(t, "96.flac", strings.Replace(noise, "44100", "96000", 1), "-sample_fmt", "s32", "-bits_per_raw_sample", "24"), "s32", "pcm_s24le", true},
		{"32 bit", makeAudio(t, "s32.wav", noise, "-c:a", "pcm_s32le"), "s32", "pcm_s32le", false},
		{"float", makeAudio(t, "f32.wav", noise, "-c:a", "pcm_f32le"), "s32", "pcm_f32le", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			facts := probeFacts(t, c.path)
			want := samples(t, c.path)
			flac := mustRender(t, c.path, urlapi.Options{Format: urlapi.FLAC}, facts)
			if got := probe(t, flac.final, "stream=sample_fmt"); got != c.flac {
				t.Errorf("flac has samples of %s, want %s", got, c.flac)
			}
			if c.flacIsExact && !equal(want, samples(t, flac.final)) {
				t.Error("the flac differs from its source")
			}
			wav := mustRender(t, c.path, urlapi.Options{Format: urlapi.WAV}, facts)
			if got := probe(t, wav.final, "stream=codec_name"); got != c.wav {
				t.Errorf("wav is %s, want %s", got, c.wav)
			}
			if !equal(want, samples(t, wav.final)) {
				t.Error("the wav differs from its source")
			}
		})
	}
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestBitDepthAsAsked(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "s24.wav", "anoisesrc=c=white:r=44100:d=0.2", "-c:a", "pcm_s24le")
	for depth, want := range map[string]string{"16": "pcm_s16le", "24": "pcm_s24le", "32f": "pcm_f32le"} {
		o := mustRender(t, source, urlapi.Options{Format: urlapi.WAV, BitDepth: depth}, Facts{})
		if got := probe(t, o.final, "stream=codec_name"); got != want {
			t.Errorf("bd:%s is %s, want %s", depth, got, want)
		}
	}
	for depth, want := range map[string]string{"16": "s16,N/A", "24": "s32,24"} {
		o := mustRender(t, source, urlapi.Options{Format: urlapi.FLAC, BitDepth: depth}, Facts{})
		if got := probe(t, o.final, "stream=sample_fmt,bits_per_raw_sample"); !strings.HasPrefix(got, want[:4]) {
			t.Errorf("flac bd:%s is %s, want %s", depth, got, want)
		}
	}
}

// One ffmpeg, one source, one URL: the same bytes.
func TestVariantsAreDeterministic(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "noise.wav", "anoisesrc=c=pink:r=44100:seed=5:d=2", "-ac", "2")
	facts := probeFacts(t, source)
	for _, format := range audioFormats {
		t.Run(string(format), func(t *testing.T) {
			opts := urlapi.Options{Format: format, Enhance: "voice", Trim: &urlapi.Trim{Start: 250}}
			first, second := mustRender(t, source, opts, facts), mustRender(t, source, opts, facts)
			for _, pair := range [][2]string{{first.live, second.live}, {first.final, second.final}} {
				a, errA := os.ReadFile(pair[0])
				b, errB := os.ReadFile(pair[1])
				if errA != nil || errB != nil || !bytes.Equal(a, b) {
					t.Errorf("two renders differ: %v, %v", errA, errB)
				}
			}
		})
	}
}

// A stored file's header fields are true (field case F11).
func TestFinishedFilesAreWhole(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "sine.wav", "sine=f=440:r=44100:d=60", "-ac", "2")
	facts := probeFacts(t, source)
	finished := func(opts urlapi.Options) []byte {
		content, err := os.ReadFile(mustRender(t, source, opts, facts).final)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}

	t.Run("m4a is plain, with the index in front and no priming", func(t *testing.T) {
		o := mustRender(t, source, urlapi.Options{Format: urlapi.M4A}, facts)
		content, err := os.ReadFile(o.final)
		if err != nil {
			t.Fatal(err)
		}
		if got := boxes(content); got != "ftyp moov mdat" && got != "ftyp moov free mdat" {
			t.Errorf("boxes %s, want the index before the media and no fragments", got)
		}
		if got := probe(t, o.final, "format=duration"); got != "60.000000" {
			t.Errorf("lasts %s, want 60.000000", got)
		}
		live, err := os.ReadFile(o.live)
		if err != nil {
			t.Fatal(err)
		}
		if got := boxes(live); !strings.HasPrefix(got, "ftyp moov moof mdat moof mdat") {
			t.Errorf("boxes of the stream %s, want fragments", got)
		}
	})
	for name, opts := range map[string]urlapi.Options{
		"constant": {Format: urlapi.MP3, BitRate: 96}, "variable": {Format: urlapi.MP3, Quality: milli(4000)},
	} {
		t.Run("mp3 of "+name+" bit rate counts its frames", func(t *testing.T) {
			content := finished(opts)
			at := max(bytes.Index(content, []byte("Xing")), bytes.Index(content, []byte("Info")))
			if at < 0 || content[at+7]&3 != 3 {
				t.Fatal("no Xing header with frames and bytes")
			}
			count := int(binary.BigEndian.Uint32(content[at+8:]))
			if want := (60*44100 + 1152 - 1) / 1152; count < want || count > want+2 {
				t.Errorf("%d frames, want about %d", count, want)
			}
			if size := int(binary.BigEndian.Uint32(content[at+12:])); size > len(content) || size < len(content)-4096 {
				t.Errorf("%d bytes in a file of %d", size, len(content))
			}
		})
	}
	t.Run("flac counts and sums its samples", func(t *testing.T) {
		info := finished(urlapi.Options{Format: urlapi.FLAC})[8:42] // STREAMINFO
		if count := binary.BigEndian.Uint64(info[10:]) & (1<<36 - 1); count != 60*44100 {
			t.Errorf("%d samples, want %d", count, 60*44100)
		}
		sum := strings.TrimSpace(string(mustRun(t, "", "ffmpeg", "-v", "error", "-i", "file:"+source, "-c:a", "pcm_s16le", "-f", "md5", "-")))
		if got := fmt.Sprintf("MD5=%x", info[18:34]); got != sum {
			t.Errorf("sum %s, want that of the source's samples, %s", got, sum)
		}
	})
	t.Run("wav knows its sizes", func(t *testing.T) {
		content := finished(urlapi.Options{Format: urlapi.WAV})
		data := bytes.Index(content, []byte("data"))
		riff, size := binary.LittleEndian.Uint32(content[4:]), binary.LittleEndian.Uint32(content[data+4:])
		if int(riff) != len(content)-8 || int(size) != 60*44100*4 {
			t.Errorf("RIFF %d, data %d in a file of %d", riff, size, len(content))
		}
	})
}

// boxes are the names of an MP4's top-level boxes.
func boxes(content []byte) string {
	var names []string
	for len(content) >= 8 {
		size := binary.BigEndian.Uint32(content)
		names = append(names, string(content[4:8]))
		if size < 8 || int(size) > len(content) {
			break
		}
		content = content[size:]
	}
	return strings.Join(names, " ")
}

// Every layout becomes mono or stereo in every format, without a probe, and folding down does not clip (F03).
func TestChannelsFoldDown(t *testing.T) {
	t.Parallel()
	// All channels in phase is the worst case: without normalization 5.1 would come out at 2.4 times full scale.
	full := func(n int) string { return strings.TrimSuffix(strings.Repeat("0.8*sin(2*PI*1000*t)|", n), "|") }
	sources := map[string]string{
		"5.1(side)": makeAudio(t, "side.flac", "aevalsrc="+full(6)+":s=48000:c=5.1(side):d=0.1"),
		"7.1":       makeAudio(t, "71.wav", "aevalsrc="+full(8)+":s=48000:c=7.1:d=0.1"),
		"float 5.1": makeAudio(t, "f51.wav", "aevalsrc="+full(6)+":s=44100:c=5.1:d=0.1", "-c:a", "pcm_f32le"),
		"opus 5.1":  makeAudio(t, "51.opus", "aevalsrc="+full(6)+":s=48000:c=5.1:d=0.1", "-c:a", "libopus"),
		"stereo":    makeAudio(t, "stereo.wav", "aevalsrc="+full(2)+":s=44100:d=0.1"),
		"mono":      makeAudio(t, "mono.wav", "aevalsrc="+full(1)+":s=44100:d=0.1"),
	}
	check := func(name string, opts urlapi.Options, want int) {
		t.Run(fmt.Sprintf("%s to %s ch %d", name, opts.Format, opts.Channels), func(t *testing.T) {
			o := mustRender(t, sources[name], opts, Facts{BitDepth: 32, Float: true})
			heard, got, _ := decoded(t, o.final)
			if got != want {
				t.Errorf("%d channels, want %d", got, want)
			}
			loudest := 0.0
			for _, v := range heard {
				loudest = max(loudest, math.Abs(v))
			}
			if loudest > 1 || loudest < 0.3 {
				t.Errorf("peaks at %.3f of full scale", loudest)
			}
		})
	}
	for name := range sources {
		want := 2
		if name == "mono" {
			want = 1
		}
		for _, format := range audioFormats {
			check(name, urlapi.Options{Format: format}, want)
		}
		check(name, urlapi.Options{Format: urlapi.WAV, Channels: 1}, 1)
		check(name, urlapi.Options{Format: urlapi.Opus, Channels: 2}, 2)
	}
}

func TestSampleRates(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 11025, 96000, 192000} {
		source := makeAudio(t, "rate.wav", fmt.Sprintf("sine=r=%d:d=0.3", rate))
		for _, format := range audioFormats {
			t.Run(fmt.Sprintf("%s of %d", format, rate), func(t *testing.T) {
				o := mustRender(t, source, urlapi.Options{Format: format}, Facts{})
				want := rate
				switch {
				case format == urlapi.Opus:
					want = 48000 // as Ogg Opus always says
				case format != urlapi.FLAC && format != urlapi.WAV:
					want = min(rate, 48000)
				}
				if got := probe(t, o.final, "stream=sample_rate"); got != strconv.Itoa(want) {
					t.Errorf("%s Hz, want %d", got, want)
				}
			})
		}
	}
}

func TestGain(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "sine.wav", "sine=r=44100:d=1")
	before := rms(samples(t, source))
	o := mustRender(t, source, urlapi.Options{Format: urlapi.WAV, Gain: milli(-6500), BitDepth: "32f"}, Facts{})
	if got := rms(samples(t, o.final)) - before; math.Abs(got+6.5) > 0.01 {
		t.Errorf("changed the level by %.2f dB, want -6.5", got)
	}
}

// A fade-out ends where the audio ends, not where the trim or the container says.
func TestFadesEndWithTheAudio(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name          string
		source        string
		trim, fadeOut urlapi.Milli
		ends, fade    float64 // s: the end, and how long before it the fade begins
	}{
		{"inside the source", makeAudio(t, "a.wav", "sine=r=44100:d=5"), 3000, 1000, 3, 1},
		{"source ends before the trim", makeAudio(t, "b.wav", "sine=r=44100:d=5"), 60000, 2000, 5, 2},
		{"clip shorter than the fade", makeAudio(t, "c.wav", "sine=r=44100:d=1"), 60000, 5000, 1, 1},
		{"container lies", makeAudio(t, "d.mp3", "sine=r=44100:d=5", "-q:a", "9", "-write_xing", "0"), 60000, 2000, 5, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			opts := urlapi.Options{Format: urlapi.WAV, BitDepth: "32f", Trim: &urlapi.Trim{Duration: c.trim}, Fade: &urlapi.Fade{Out: c.fadeOut}}
			if need := Needs(opts); !need.Facts || !need.Length {
				t.Fatalf("needs %+v, want facts and length", need)
			}
			facts := probeFacts(t, c.source)
			frames, known := facts.Clip(opts.Trim)
			if !known {
				var err error
				if frames, err = CountFrames(t.Context(), runReal, Source{URL: "file:" + c.source, Protocols: "file"}, opts.Trim); err != nil {
					t.Fatal(err)
				}
			}
			facts.ClipFrames = frames
			got := samples(t, mustRender(t, c.source, opts, facts).final)
			end := float64(len(got)) / 44100
			if math.Abs(end-c.ends) > 0.06 {
				t.Fatalf("lasts %.3f s, want %.3f", end, c.ends)
			}
			around := func(at float64) float64 { n := int(at * 44100); return rms(got[max(0, n-441):min(len(got), n+441)]) }
			full := -21.1 // ffmpeg's sine has an amplitude of 1/8
			if level := around(end - c.fade/2); math.Abs(level-(full-6)) > 0.7 {
				t.Errorf("%.1f dB at half of the fade, want %.1f", level, full-6)
			}
			if level := rms(got[len(got)-441:]); level > full-25 {
				t.Errorf("%.1f dB at the end, want silence", level)
			}
			if level := around(end - c.fade); c.fade < end && math.Abs(level-full) > 0.7 {
				t.Errorf("%.1f dB where the fade begins, want %.1f", level, full)
			}
		})
	}
}

func TestTrimCutsTheRightPlace(t *testing.T) {
	t.Parallel()
	// A rising ramp tells its own time: a sample's value is its time in seconds, over 20.
	ramp := "aevalsrc=t/20:s=44100:d=16"
	for _, source := range []string{makeAudio(t, "ramp.wav", ramp), makeAudio(t, "ramp.flac", ramp)} {
		for _, start := range []urlapi.Milli{0, 1, 1500, 9999, 10_000, 12_345, 15_900} {
			opts := urlapi.Options{Format: urlapi.WAV, BitDepth: "16", Trim: &urlapi.Trim{Start: start, Duration: 50}}
			got := samples(t, mustRender(t, source, opts, Facts{}).final)
			if len(got) != 2205 {
				t.Errorf("from %d ms: %d samples, want 2205", start, len(got))
				continue
			}
			if at := got[0] * 20; math.Abs(at-float64(start)/1000) > 0.001 {
				t.Errorf("from %d ms: begins at %.4f s", start, at)
			}
		}
	}
}

// Two seconds before the end of a VBR MP3 without an index are where they are heard, whatever its claim.
func TestLateTrimOfASourceThatLies(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "vbr.mp3", "aevalsrc='if(lt(t,20),0,0.5*sin(2*PI*700*t))':s=44100:d=40", "-q:a", "5", "-write_xing", "0")
	opts := urlapi.Options{Format: urlapi.WAV, BitDepth: "16", Trim: &urlapi.Trim{Start: 19_000, Duration: 2000}}
	got := samples(t, mustRender(t, source, opts, Facts{}).final)
	if len(got) != 88200 {
		t.Fatalf("%d samples, want 88200", len(got))
	}
	if quiet, loud := rms(got[:40_000]), rms(got[48_000:]); quiet > -60 || loud < -12 {
		t.Errorf("first second %.0f dB, second second %.0f dB; want silence, then sound", quiet, loud)
	}
}
