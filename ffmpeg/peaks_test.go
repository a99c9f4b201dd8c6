package ffmpeg

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
	"github.com/google/go-cmp/cmp"
)

// runReal is a Run that starts the real programs.
func runReal(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
	cmd := exec.CommandContext(ctx, string(program), args...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	err := cmd.Run()
	return stderr.Bytes(), err
}

// counted is runReal, counting how often ffmpeg ran.
func counted(n *int) Run {
	return func(ctx context.Context, program Program, args []string, stdout io.Writer) ([]byte, error) {
		if program == FFmpeg {
			*n++
		}
		return runReal(ctx, program, args, stdout)
	}
}

// naivePeaks is an independent reading of samples: all in memory, pixel by pixel.
func naivePeaks(pcm []byte, channels, points int) (perPixel int, data []int16) {
	samples := make([]int16, len(pcm)/2)
	binary.Read(bytes.NewReader(pcm), binary.LittleEndian, samples)
	frames := len(samples) / channels
	for perPixel = 1; perPixel*points < frames; perPixel++ {
	}
	for p := range points {
		for c := range channels {
			var of []int16
			for f := p * perPixel; f < min((p+1)*perPixel, frames); f++ {
				of = append(of, samples[f*channels+c])
			}
			if of == nil {
				of = []int16{0}
			}
			data = append(data, slices.Min(of), slices.Max(of))
		}
	}
	return perPixel, data
}

func TestPeaksEqualAnIndependentReading(t *testing.T) {
	t.Parallel()
	const noise = "anoisesrc=c=pink:r=44100:seed=7:d="
	cases := []struct {
		name, source string
		opts         urlapi.Options
		decode       []string // how the independent reading decodes
	}{
		{"mono", makeAudio(t, "mono.wav", noise+"1.3"), urlapi.Options{Points: 800}, []string{"-ac", "1"}},
		{"stereo as one", makeAudio(t, "stereo.wav", noise+"1", "-ac", "2"), urlapi.Options{Points: 100}, []string{"-ac", "1"}},
		{"stereo", makeAudio(t, "two.wav", "aevalsrc=0.5*sin(700*t)|0.9*sin(500*t):s=48000:d=1"), urlapi.Options{Points: 100, Channels: 2}, nil},
		{"six channels", makeAudio(t, "six.flac", "aevalsrc=0.1*sin(700*t)|0.9*sin(500*t)|0.2|0.1*sin(300*t)|0.4*sin(t)|0:s=48000:c=5.1:d=0.7"), urlapi.Options{Points: 33, Channels: 2}, []string{"-ac", "2"}},
		{"prime length", makeAudio(t, "prime.wav", noise+"1", "-af", "atrim=end_sample=44087"), urlapi.Options{Points: 7}, nil},
		{"one point", makeAudio(t, "one.wav", noise+"0.5"), urlapi.Options{Points: 1}, nil},
		{"a point per frame", makeAudio(t, "prime.wav", noise+"1", "-af", "atrim=end_sample=4409"), urlapi.Options{Points: 4409}, nil},
		{"more points than frames", makeAudio(t, "few.wav", noise+"1", "-af", "atrim=end_sample=501"), urlapi.Options{Points: 800}, nil},
		{"trim", makeAudio(t, "trim.wav", noise+"2"), urlapi.Options{Points: 50, Trim: &urlapi.Trim{Start: 500, Duration: 1000}}, []string{"-ss", "0.5", "-t", "1"}},
		{"compressed", makeAudio(t, "c.mp3", noise+"2", "-b:a", "64k"), urlapi.Options{Points: 50}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Format = urlapi.Peaks
			source := Source{URL: "file:" + c.source, Protocols: "file"}
			facts, err := Probe(t.Context(), runReal, source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Peaks(t.Context(), runReal, source, c.opts, facts)
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"-v", "error", "-i", source.URL}, c.decode...)
			pcm := mustRun(t, "", "ffmpeg", append(args, "-f", "s16le", "-")...)
			wantPer, want := naivePeaks(pcm, got.Channels, c.opts.Points)
			if got.SamplesPerPixel != wantPer {
				t.Errorf("%d samples per pixel, want %d", got.SamplesPerPixel, wantPer)
			}
			if diff := cmp.Diff(want, got.Data); diff != "" {
				t.Errorf("the picture differs (-want +got):\n%s", diff)
			}
			if got.length() != c.opts.Points || got.SampleRate != facts.SampleRate {
				t.Errorf("%d pixels at %d Hz, want %d at %d", got.length(), got.SampleRate, c.opts.Points, facts.SampleRate)
			}
		})
	}
}

// A container that claims another length than it holds costs a second decode, and no wrong picture.
func TestPeaksOfASourceThatLies(t *testing.T) {
	t.Parallel()
	path := makeAudio(t, "vbr.mp3", "aevalsrc='if(lt(t,4),0,0.8*sin(2000*t))':s=44100:d=8", "-q:a", "4", "-write_xing", "0")
	source := Source{URL: "file:" + path, Protocols: "file"}
	facts, err := Probe(t.Context(), runReal, source)
	if err != nil {
		t.Fatal(err)
	}
	if facts.Exact {
		t.Fatal("the claim of a VBR MP3 without an index is trusted")
	}
	facts.Frames = 3 * facts.Frames / 2
	runs := 0
	opts := urlapi.Options{Format: urlapi.Peaks, Points: 100}
	got, err := Peaks(t.Context(), counted(&runs), source, opts, facts)
	if err != nil {
		t.Fatal(err)
	}
	if runs != 2 {
		t.Errorf("decoded %d times, want 2", runs)
	}
	for i := range 100 {
		loud := got.Data[2*i+1] > 10_000
		if i < 48 && loud || i > 51 && i < 99 && !loud {
			t.Errorf("pixel %d of 100 is %v, want silence in the first half and sound in the second", i, got.Data[2*i:2*i+2])
		}
	}
	runs = 0
	if facts, err = Probe(t.Context(), runReal, source); err != nil {
		t.Fatal(err)
	}
	facts.ClipFrames, err = CountFrames(t.Context(), runReal, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Peaks(t.Context(), counted(&runs), source, opts, facts)
	if err != nil {
		t.Fatal(err)
	}
	if runs != 1 || !slices.Equal(again.Data, got.Data) {
		t.Errorf("with the length counted: decoded %d times, want once to the same picture", runs)
	}
}

func TestPeaksOfNothing(t *testing.T) {
	path := makeAudio(t, "short.wav", "sine=d=0.5")
	source := Source{URL: "file:" + path, Protocols: "file"}
	facts, err := Probe(t.Context(), runReal, source)
	if err != nil {
		t.Fatal(err)
	}
	opts := urlapi.Options{Format: urlapi.Peaks, Points: 10, Trim: &urlapi.Trim{Start: 2000}}
	_, err = Peaks(t.Context(), runReal, source, opts, facts)
	if class := Classify(err, nil, Pending).Class; class != NoSound {
		t.Errorf("a trim that leaves nothing: %v, want class %s", err, NoSound)
	}
}

func TestWaveformFormatsAgree(t *testing.T) {
	wave := Waveform{Channels: 2, SampleRate: 44100, SamplesPerPixel: 9, Data: []int16{-32768, 32767, 0, 0, -1, 1, -2, 2}}
	var text, dat bytes.Buffer
	if err := wave.Write(&text, "json"); err != nil {
		t.Fatal(err)
	}
	if err := wave.Write(&dat, "dat"); err != nil {
		t.Fatal(err)
	}
	want := `{"version":2,"channels":2,"sample_rate":44100,"samples_per_pixel":9,"bits":16,"length":2,"data":[-32768,32767,0,0,-1,1,-2,2]}`
	if text.String() != want || !json.Valid(text.Bytes()) {
		t.Errorf("json: %s\nwant: %s", text.String(), want)
	}
	header := struct{ Version, Flags, Rate, PerPixel, Length, Channels int32 }{}
	data := make([]int16, len(wave.Data))
	r := bytes.NewReader(dat.Bytes())
	binary.Read(r, binary.LittleEndian, &header)
	binary.Read(r, binary.LittleEndian, data)
	if r.Len() != 0 || header.Version != 2 || header.Flags != 0 || header.Rate != 44100 || header.PerPixel != 9 ||
		header.Length != 2 || header.Channels != 2 || !slices.Equal(data, wave.Data) {
		t.Errorf("dat: %+v %v", header, data)
	}
}

func TestReducerMemoryDoesNotGrowWithTheSource(t *testing.T) {
	r := NewReducer(2, 800, 1_000)
	hour := make([]byte, 1<<16)
	allocs := testing.AllocsPerRun(100, func() { r.Write(hour) })
	if allocs != 0 {
		t.Errorf("%v allocations per write, want none", allocs)
	}
}

func FuzzReducer(f *testing.F) {
	f.Add([]byte{0, 128, 255, 127, 1}, uint8(1), uint16(3), uint16(2), uint64(1))
	f.Add(make([]byte, 100), uint8(2), uint16(800), uint16(0), uint64(2))
	f.Fuzz(func(t *testing.T, pcm []byte, ch uint8, pts, guess uint16, seed uint64) {
		channels, points := 1+int(ch)%2, 1+int(pts)%1000
		frames := len(pcm) / 2 / channels
		r := NewReducer(channels, points, perPixel(int64(frames), points))
		random := rand.New(rand.NewPCG(seed, 0))
		for rest := pcm; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			r.Write(rest[:n])
			rest = rest[n:]
		}
		if r.Frames() != int64(frames) {
			t.Fatalf("%d frames, want %d", r.Frames(), frames)
		}
		per, want := naivePeaks(pcm[:frames*2*channels], channels, points)
		if got := r.Pixels(); per != r.perPixel || !slices.Equal(got, want) {
			t.Fatalf("per pixel %d, want %d; picture %v, want %v", r.perPixel, per, got, want)
		}
		// A wrong guess must not do harm.
		wrong := NewReducer(channels, points, max(1, int(guess)))
		wrong.Write(pcm)
		if len(wrong.Pixels()) != 2*channels*points || wrong.Frames() != int64(frames) {
			t.Fatal("a wrong guess lost count")
		}
	})
}

func BenchmarkReducer(b *testing.B) {
	pcm := make([]byte, 1<<20)
	for i := range pcm {
		pcm[i] = byte(i * 31)
	}
	for _, channels := range []int{1, 2} {
		b.Run(strconv.Itoa(channels), func(b *testing.B) {
			r := NewReducer(channels, 100_000, 10_000)
			b.SetBytes(int64(len(pcm)))
			for b.Loop() {
				r.Write(pcm)
			}
		})
	}
}
