package ffmpeg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
	"github.com/google/go-cmp/cmp"
)

func TestInfo(t *testing.T) {
	cases := []struct{ name, answer, want string }{
		{"16-bit wav", `{"streams":[{"codec_name":"pcm_s16le","codec_type":"audio","sample_fmt":"s16","sample_rate":"44100","channels":2,"bits_per_sample":16,"duration":"3.000000","bit_rate":"1411200","disposition":{"attached_pic":0}}],
			"format":{"format_name":"wav","duration":"3.000000","size":"529244","bit_rate":"1411317"}}`,
			`{"format":"wav","duration":3,"sample_rate":44100,"channels":2,"bit_depth":16,"bitrate":1411317,"size":529244}`},
		{"mp3 with art: no depth, whatever it decodes to", `{"streams":[{"codec_type":"video","codec_name":"png","disposition":{"attached_pic":1}},{"codec_name":"mp3","codec_type":"audio","sample_fmt":"fltp","sample_rate":"44100","channels":1,"bits_per_sample":0}],
			"format":{"format_name":"mp3","duration":"3.030204","size":"30423","bit_rate":"80319","tags":{"Title":"T","encoder":"Lavf"}}}`,
			`{"format":"mp3","duration":3.030204,"sample_rate":44100,"channels":1,"bitrate":80319,"size":30423,"tags":{"encoder":"Lavf","title":"T"}}`},
		{"24-bit alac: m4a", `{"streams":[{"codec_name":"alac","codec_type":"audio","sample_fmt":"s32p","sample_rate":"48000","channels":2,"bits_per_sample":0,"bits_per_raw_sample":"24"}],
			"format":{"format_name":"mov,mp4,m4a,3gp,3g2,mj2","duration":"1.5"}}`,
			`{"format":"m4a","duration":1.5,"sample_rate":48000,"channels":2,"bit_depth":24}`},
		{"unknown is left out", `{"streams":[{"codec_name":"flac","codec_type":"audio","sample_rate":"44100","channels":1,"bits_per_raw_sample":"16","duration":"N/A"}],"format":{"format_name":"flac","duration":"N/A","bit_rate":"N/A"}}`,
			`{"format":"flac","sample_rate":44100,"channels":1,"bit_depth":16}`},
		{"opus, with the tags of its stream", `{"streams":[{"codec_name":"opus","codec_type":"audio","sample_rate":"48000","channels":2,"tags":{"TITLE":"T"}}],"format":{"format_name":"ogg","duration":"2"}}`,
			`{"format":"opus","duration":2,"sample_rate":48000,"channels":2,"tags":{"title":"T"}}`},
		{"vorbis", `{"streams":[{"codec_name":"vorbis","codec_type":"audio","sample_rate":"48000","channels":2}],"format":{"format_name":"ogg"}}`,
			`{"format":"ogg","sample_rate":48000,"channels":2}`},
		{"matroska", `{"streams":[{"codec_name":"opus","codec_type":"audio","sample_rate":"48000","channels":2}],"format":{"format_name":"matroska,webm"}}`,
			`{"format":"matroska","sample_rate":48000,"channels":2}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			facts, err := ParseFacts([]byte(c.answer))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(facts.Info(0))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInfoBoundsTags(t *testing.T) {
	tags := map[string]string{"zzz": "last", "TITLE": "T", "bad": "a\xff\x1b[31mb\u202ec\nd", "Long": strings.Repeat("é", 1000)}
	for i := range 100 {
		tags[fmt.Sprintf("n%02d", i)] = "x"
	}
	got := infoTags(tags)
	if len(got) != infoTagCount || got["title"] != "T" || got["zzz"] != "" {
		t.Errorf("%d tags: %v", len(got), got)
	}
	if got["bad"] != "a[31mbc\nd" || len(got["long"]) != infoTagLimit || !utf8.ValidString(got["long"]) {
		t.Errorf("bad: %q, long: %d bytes", got["bad"], len(got["long"]))
	}
}

func TestFactsThatAreNone(t *testing.T) {
	cases := []struct {
		name, answer string
		want         Class
	}{
		{"video", `{"streams":[{"codec_type":"audio","codec_name":"aac"},{"codec_type":"video","codec_name":"h264","disposition":{"attached_pic":0}}],"format":{}}`, VideoSource},
		{"no audio", `{"streams":[{"codec_type":"video","codec_name":"png","disposition":{"attached_pic":1}}],"format":{}}`, NoSound},
		{"nothing", `{}`, NoSound},
		{"no answer", `x`, Failed},
	}
	for _, c := range cases {
		if _, err := ParseFacts([]byte(c.answer)); err == nil || Classify(err, nil, Pending).Class != c.want && c.want != Failed {
			t.Errorf("%s: %v, want class %s", c.name, err, c.want)
		}
	}
}

// A claimed length is believed only of plain samples that the file has room for.
func TestTrustInClaimedLengths(t *testing.T) {
	answer := func(codec string, bits int, seconds float64, size int) string {
		return fmt.Sprintf(`{"streams":[{"codec_name":%q,"codec_type":"audio","sample_rate":"44100","channels":1,"bits_per_sample":%d,"duration":"%f"}],"format":{"format_name":"x","size":"%d"}}`, codec, bits, seconds, size)
	}
	for _, c := range []struct {
		answer string
		exact  bool
	}{
		{answer("pcm_s16le", 16, 2, 176444), true},
		{answer("pcm_s16be", 16, 1963, 1_060_000), false}, // an AIFF that holds 12 s
		{answer("mp3", 0, 2, 176444), false},
		{answer("flac", 0, 2, 176444), false},
		{answer("adpcm_ima_wav", 4, 2, 176444), false},
	} {
		facts, err := ParseFacts([]byte(c.answer))
		if err != nil || facts.Exact != c.exact {
			t.Errorf("%s: exact %v (%v), want %v", c.answer, facts.Exact, err, c.exact)
		}
	}
}

func TestClip(t *testing.T) {
	facts := Facts{SampleRate: 44100, Frames: 88200, Exact: true}
	for _, c := range []struct {
		trim *urlapi.Trim
		want int64
	}{
		{nil, 88200},
		{&urlapi.Trim{Start: 500}, 66150},
		{&urlapi.Trim{Start: 500, Duration: 1000}, 44100},
		{&urlapi.Trim{Start: 1500, Duration: 1000}, 22050},
		{&urlapi.Trim{Start: 2000}, 0},
		{&urlapi.Trim{Start: 9000, Duration: 5}, 0},
	} {
		if got, known := facts.Clip(c.trim); got != c.want || !known {
			t.Errorf("%+v: %d frames (known %v), want %d", c.trim, got, known, c.want)
		}
	}
	facts.Exact = false
	if _, known := facts.Clip(nil); known {
		t.Error("a claim that is not exact is passed off as known")
	}
}

func TestProbeThatFails(t *testing.T) {
	run := func(stderr string, err error, answer string) Run {
		return func(_ context.Context, _ Program, _ []string, stdout io.Writer) ([]byte, error) {
			io.WriteString(stdout, answer)
			return []byte(stderr), err
		}
	}
	for _, c := range []struct {
		run  Run
		want Class
	}{
		{run("[error] file:in.wav: Invalid data found when processing input\n", errExit, "{}"), Undecodable},
		{run("", context.DeadlineExceeded, ""), Timeout},
		{run("", errors.New("signal: killed"), ""), Failed},
		{run("", nil, strings.Repeat(" ", probeOutputLimit+1)), Undecodable},
	} {
		if _, err := Probe(t.Context(), c.run, Source{URL: "file:in.wav", Protocols: "file"}); Classify(err, nil, Pending).Class != c.want {
			t.Errorf("%v, want class %s", err, c.want)
		}
	}
}

// What the plan doesn't ask for must not change it: a key means the same bytes whether the facts are known.
func TestFactsThatAreNotNeededDoNotMatter(t *testing.T) {
	known := Facts{SampleRate: 8000, Channels: 6, BitDepth: 24, Float: true, ClipFrames: 7}
	for _, format := range audioFormats {
		for _, opts := range []urlapi.Options{
			{}, {BitRate: 128}, {Quality: milli(1)}, {SampleRate: 24000, Loudness: &urlapi.Loudness{}}, {Channels: 1, SampleRate: 48000, BitRate: 128},
			{BitDepth: "16"}, {Trim: &urlapi.Trim{Start: 5}, Fade: &urlapi.Fade{In: 1}},
		} {
			opts.Format = format
			if Needs(opts).Facts {
				continue
			}
			without, err := NewPlan(opts, Facts{})
			if err != nil {
				continue
			}
			with, _ := NewPlan(opts, known)
			if diff := cmp.Diff(without, with); diff != "" {
				t.Errorf("%+v: %s", opts, diff)
			}
		}
	}
}
