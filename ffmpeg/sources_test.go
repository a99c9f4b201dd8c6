package ffmpeg

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// An ID3 tag in front of an Ogg without comments: the container has tags, the stream has none (field case R1).
func TestR1TagsOfTheContainerAlone(t *testing.T) {
	t.Parallel()
	facts, err := probeFile(t, realTools(t), "../testdata/second/id3-before-untagged.ogg")
	if err != nil {
		t.Fatal(err)
	}
	if facts.SampleRate == 0 || len(facts.Tags) == 0 {
		t.Errorf("facts %+v", facts)
	}
}

// Whatever ffprobe may say, whole or cut off or altered, is read without a panic, and bounded (field case R1's kind).
func TestR1NothingForeignPanics(t *testing.T) {
	t.Parallel()
	var answers, reports [][]byte
	for _, path := range []string{
		"../testdata/second/id3-before-untagged.ogg", "../testdata/second/apic-70-apic.mp3",
		makeAudio(t, "a.opus", "sine=d=0.1", "-metadata", "title=T", "-metadata", "artist=A"),
		makeAudio(t, "a.m4a", "sine=d=0.1", "-metadata", "title=T"), makeAudio(t, "a.wav", "sine=d=0.1"),
	} {
		stdout, _, err := runTool(t, "", "ffprobe", ProbeArgs("file", "file:"+path)...)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, stdout)
		_, stderr, err := runTool(t, "", "ffmpeg", evidenceArgs(Source{URL: "file:" + path, Protocols: "file"})...)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, []byte(stderr))
	}
	for _, answer := range answers {
		mutate(answer, func(b []byte) {
			if facts, err := ParseFacts(b); err == nil {
				checkBounded(t, facts)
				facts.Clip(&urlapi.Trim{Start: 1})
				facts.Info(0)
			}
		})
	}
	for _, report := range reports {
		mutate(report, func(b []byte) {
			var r transcript
			r.Write(b)
			r.report.End()
			TagFile(r.report.Tags())
			Classify(errExit, r.words(), r.report.Verdict())
		})
	}
}

func FuzzParseFacts(f *testing.F) {
	f.Add([]byte(`{"streams":[{"codec_type":"audio","sample_rate":"1e300","channels":-1,"tags":null}],"format":{"format_name":"ogg","tags":{"a":"b"}}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if facts, err := ParseFacts(answer); err == nil {
			checkBounded(t, facts)
		}
	})
}

func FuzzWholeFile(f *testing.F) {
	f.Add("m4a", []byte("\x00\x00\x00\x08moov\x00\x00\x00\x10moof\x00\x00\x00\x08traf"))
	f.Add("opus", []byte("OggS"))
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		_ = wholeFile(urlapi.Format(format), bytes.NewReader(content), int64(len(content))) // must return
	})
}

// mutate hands out pieces and altered copies of b, the same ones each time.
func mutate(b []byte, try func([]byte)) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < len(b); n += 1 + len(b)/300 {
		try(b[:n])
		try(b[n:])
		altered := slices.Clone(b)
		for range 1 + random.IntN(4) {
			altered[random.IntN(len(b))] = byte(random.Uint32())
		}
		try(altered)
		try(slices.Delete(slices.Clone(b), n, min(len(b), n+random.IntN(40))))
	}
	for _, word := range []string{`"tags":{`, `"format":{`, `"streams":[`, `"disposition":{`} {
		at := bytes.Index(b, []byte(word))
		if at >= 0 {
			nothing := bytes.Replace(b, []byte(word), []byte(`"x":null,`+word[:len(word)-1]+`null,"y":`+word[len(word)-1:]), 1)
			try(nothing)
		}
	}
}

func checkBounded(t *testing.T, facts Facts) {
	t.Helper()
	if len(facts.Tags) > infoTagCount {
		t.Errorf("%d tags", len(facts.Tags))
	}
	for key, value := range facts.Tags {
		if len(key) > infoTagLimit || len(value) > infoTagLimit {
			t.Errorf("a tag of %d and %d bytes", len(key), len(value))
		}
	}
}

// Facts keep no more of the tags than can be answered (field case S3).
func TestS3FactsAreBoundedInBytes(t *testing.T) {
	tags := map[string]string{}
	for n := range 100 {
		tags[fmt.Sprintf("key %d %s", n, strings.Repeat("k", 5000))] = strings.Repeat("v", 100_000)
	}
	answer, err := json.Marshal(map[string]any{
		"streams": []any{map[string]any{"codec_type": "audio", "codec_name": "mp3", "sample_rate": "44100", "channels": 1}},
		"format":  map[string]any{"format_name": "mp3", "tags": tags},
	})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := ParseFacts(answer)
	if err != nil {
		t.Fatal(err)
	}
	checkBounded(t, facts)
	if len(slices.Collect(maps.Keys(facts.Tags))) == 0 {
		t.Error("no tags at all")
	}
}

// Pictures are no reason to refuse a song, however many there are (field case N12).
func TestN12ManyPictures(t *testing.T) {
	t.Parallel()
	tools := realTools(t)
	for _, path := range []string{"../testdata/second/pics-64.flac", "../testdata/second/apic-70-apic.mp3"} {
		_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
		wantClass(t, filepath.Base(path)+" rendered", err, "")
		_, err = probeFile(t, tools, path)
		wantClass(t, filepath.Base(path)+" probed", err, "")
	}
}

// Containers that people have audio in (field case F1), and what is in them.
func TestF1Containers(t *testing.T) {
	t.Parallel()
	tools := realTools(t)
	for name, args := range map[string][]string{
		"a.flv": {"-c:a", "aac"}, "mp3.flv": {"-c:a", "mp3"}, "a.nut": {"-c:a", "flac"}, "a.rm": {"-c:a", "ac3"}, "a.sox": nil, "a.mlp": {"-c:a", "mlp", "-strict", "-2"},
		"a.mxf": {"-ar", "48000", "-f", "mxf_opatom"}, "a.caf": nil, "a.w64": nil, "a.wma": nil, "a.voc": nil, "a.au": nil, "a.mka": nil, "a.tta": nil, "a.amr": {"-ar", "8000", "-c:a", "libopencore_amrnb"},
		"a.gsm": {"-ar", "8000", "-c:a", "libgsm"}, "a.spx": {"-c:a", "libspeex", "-ar", "16000"}, "a.oga": {"-c:a", "flac"}, "a.ac3": nil, "a.eac3": nil,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			args := append([]string{"-v", "error", "-f", "lavfi", "-i", "sine=d=1", "-bitexact"}, args...)
			if _, stderr, err := runTool(t, "", "ffmpeg", append(args, "file:"+path)...); err != nil {
				if strings.Contains(stderr, "Unknown encoder") {
					return // not every build can make these, which is no matter to us
				}
				t.Fatalf("making it: %v\n%s", err, stderr)
			}
			out, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.WAV}, Limits{})
			wantClass(t, "render", err, "")
			if err == nil {
				if heard := samples(t, filepath.Join(out.dir, LiveName)); len(heard) == 0 || rms(heard) < -40 {
					t.Errorf("%d samples are rendered", len(heard))
				}
			}
			facts, err := probeFile(t, tools, path)
			wantClass(t, "probe", err, "")
			if err == nil && (facts.SampleRate == 0 || facts.Channels == 0) {
				t.Errorf("facts %+v", facts)
			}
		})
	}
}

// A text of the source's in a stream's line (a track's language) hides no video (field case S5).
func TestS5ALanguageHidesNoVideo(t *testing.T) {
	t.Parallel()
	film := filepath.Join(t.TempDir(), "film.mkv")
	mustRun(t, "", "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=32x32:r=5:d=1", "-f", "lavfi", "-i", "sine=d=1", "-c:v", "mpeg4", "-c:a", "aac",
		"-metadata:s:v", "language=QQQ", "-metadata:s:a", "language=eng", "file:"+film)
	content, err := os.ReadFile(film)
	if err != nil {
		t.Fatal(err)
	}
	tools := realTools(t)
	for what, language := range map[string]string{
		"line feed":         "en\n",
		"line feeds":        "\n\n\n",
		"forged audio":      "x): Audio: opus, 48000 Hz, mono, fltp\n",
		"forged and a tag":  "x): Audio: opus, 48000 Hz, mono, fltp\n[info]     title           : x",
		"forged and level":  "x): Audio: opus, 48000 Hz\n[info] x",
		"carriage return":   "en\r\n[warning] ",
		"long":              strings.Repeat("e", 5000),
		"long and a line":   strings.Repeat("e", 5000) + "\n",
		"forged end":        "en\n[info] Stream mapping:\n",
		"forged and an end": "x): Audio: opus, 48000 Hz\n[info] Stream mapping:\n",
	} {
		t.Run(what, func(t *testing.T) {
			path := writeFile(t, "film.mka", withLanguage(t, content, language))
			for _, format := range []urlapi.Format{urlapi.MP3, urlapi.WAV} {
				out, err := renderFile(t, tools, path, urlapi.Options{Format: format}, Limits{})
				wantClass(t, string(format), err, VideoSource)
				if out.isReleased() {
					t.Errorf("%s: released", format)
				}
			}
			_, err := probeFile(t, tools, path)
			wantClass(t, "probe", err, VideoSource)
		})
	}
}

// withLanguage replaces the language QQQ of a track of a Matroska file.
func withLanguage(t *testing.T, content []byte, language string) []byte {
	t.Helper()
	changed := remuxed(content, language)
	if !bytes.Contains(changed, []byte(language)) {
		t.Fatal("no language")
	}
	return changed
}

// remuxed writes EBML elements anew, with the language and sizes to match. The indexes of positions, now wrong, are left out.
func remuxed(elements []byte, language string) []byte {
	var out []byte
	for len(elements) > 0 {
		idSize := bits.LeadingZeros8(elements[0]) + 1
		id := string(elements[:idSize])
		elements = elements[idSize:]
		sizeSize := bits.LeadingZeros8(elements[0]) + 1
		size := uint64(elements[0]) & (1<<(8-sizeSize) - 1)
		for _, b := range elements[1:sizeSize] {
			size = size<<8 | uint64(b)
		}
		elements = elements[sizeSize:]
		content := elements[:min(size, uint64(len(elements)))]
		elements = elements[len(content):]
		switch id {
		case "\x11\x4d\x9b\x74", "\x1c\x53\xbb\x6b": // SeekHead, Cues
			continue
		case "\x18\x53\x80\x67", "\x16\x54\xae\x6b", "\xae": // Segment, Tracks, TrackEntry
			content = remuxed(content, language)
		case "\x22\xb5\x9c": // Language
			if string(content) == "QQQ" {
				content = []byte(language)
			}
		}
		out = append(out, id...)
		out = binary.BigEndian.AppendUint64(out, 1<<56|uint64(len(content)))
		out = append(out, content...)
	}
	return out
}

// ffprobe may decode small pictures only, and gives up over a video: which is to be told from trouble.
func TestAVideoOfAnySizeIsAVideo(t *testing.T) {
	for _, codec := range []string{"libx264", "libx265", "mpeg4"} {
		for _, size := range []string{"64x64", "640x480", "1920x1080"} {
			path := filepath.Join(t.TempDir(), "phone.mp4")
			out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size="+size+":rate=2:duration=1",
				"-f", "lavfi", "-i", "sine=d=1", "-metadata", "comment="+strings.Repeat("a long comment ", 1000), "-c:v", codec, "-c:a", "aac", path).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, err = probeFile(t, realTools(t), path)
			wantClass(t, codec+" "+size, err, VideoSource)
		}
	}
}
