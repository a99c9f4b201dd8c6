package ffmpeg

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The reports below are as the versions named write them under -loglevel level+info.
func TestReportVerdict(t *testing.T) {
	cases := []struct {
		name, stderr string
		want         Verdict
	}{
		{"4.4: mp3 with art", `
[info] Input #0, mp3, from 'file:in.mp3':
[info]   Metadata:
[info]     encoder         : Lavf58.76.100
[info]   Duration: 00:00:03.03, start: 0.025056, bitrate: 80 kb/s
[info]   Stream #0:0: Audio: mp3, 44100 Hz, mono, fltp, 64 kb/s
[info]   Stream #0:1: Video: mjpeg (Baseline), yuvj444p(pc, bt470bg/unknown/unknown), 160x120 [SAR 1:1 DAR 4:3], 90k tbr, 90k tbn, 90k tbc (attached pic)
[info] Stream mapping:
`, Audio},
		{"4.4: real video", `
[info] Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:in.m4a':
[info]   Duration: 00:00:02.00, start: 0.000000, bitrate: 110 kb/s
[info]   Stream #0:0(und): Video: h264 (High 4:4:4 Predictive) (avc1 / 0x31637661), yuv444p, 64x48 [SAR 1:1 DAR 4:3], 12 kb/s, 5 fps, 5 tbr, 10240 tbn, 10 tbc (default)
[info]   Stream #0:1(und): Audio: aac (LC) (mp4a / 0x6134706D), 44100 Hz, mono, fltp, 69 kb/s (default)
[info] Stream mapping:
`, Video},
		{"7.1: identifiers and several dispositions", `
[info] Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:in.m4a':
[info]   Duration: 00:00:02.00, start: 0.000000, bitrate: 110 kb/s
[info]   Stream #0:0[0x1](und): Audio: alac (alac / 0x63616C61), 44100 Hz, mono, s16p, 225 kb/s (default)
[info]       Metadata:
[info]         handler_name    : SoundHandler
[info]   Stream #0:1[0x0]: Video: png, rgb24(pc), 600x600, 90k tbr, 90k tbn (attached pic) (still image)
[info] Stream mapping:
`, Audio},
		{"8: streams in a group", `
[info] Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:in.mp4':
[info]   Duration: 00:00:02.00, start: 0.000000, bitrate: 110 kb/s
[info]   Stream group #0:0[0x1]: IAMF Audio Element: (default)
[info]     Stream #0:0[0x1](und): Audio: opus, 48000 Hz, stereo, fltp (default)
[info]     Stream #0:1[0x2](und): Video: hevc (Main), yuv420p, 640x480 (default)
[info] Stream mapping:
`, Video},
		{"mpegts: a program", `
[info] Input #0, mpegts, from 'file:in.ts':
[info]   Duration: 00:00:01.99, start: 1.400000, bitrate: 436 kb/s
[info]   Program 1 
[info]     Metadata:
[info]       service_name    : Service01
[info]   Stream #0:0[0x100]: Audio: mp2 ([3][0][0][0] / 0x0003), 48000 Hz, mono, s16p, 384 kb/s
[info] Stream mapping:
`, Audio},
		{"with tags to come", `
[info] Input #0, wav, from 'file:in.wav':
[info]   Duration: 00:00:03.00, bitrate: 705 kb/s
[info]   Stream #0:0: Audio: pcm_s16le ([1][0][0][0] / 0x0001), 44100 Hz, mono, s16, 705 kb/s
[info] Input #1, ffmetadata, from 'data:,;FFMETADATA1':
`, Audio},
		{"pictures only", `
[info] Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:in.m4a':
[info]   Stream #0:0: Video: png, rgb24(pc), 600x600, 90k tbr, 90k tbn (attached pic)
[info] Stream mapping:
`, NoAudio},
		{"not over", `
[info] Input #0, wav, from 'file:in.wav':
[info]   Stream #0:0: Audio: pcm_s16le ([1][0][0][0] / 0x0001), 44100 Hz, mono, s16, 705 kb/s
`, Pending},
		{"no report", "[info] Stream mapping:\n", Unreadable},
		{"a title that forges", `
[info] Input #0, mp3, from 'file:in.mp3':
[info]   Metadata:
[info]     title           : [info]   Stream #0:1: Video: h264
[info]                     :   Stream #0:1: Video: h264
[info]                     : [info] Stream mapping:
[info]   Duration: 00:00:03.03, start: 0.025056, bitrate: 80 kb/s
[info]   Stream #0:0: Audio: mp3, 44100 Hz, mono, fltp, 64 kb/s
[info] Stream mapping:
`, Audio},
		{"a key with a line break that ends the report early", `
[info] Input #0, matroska,webm, from 'file:in.mka':
[info]   Metadata:
[info]     
Stream mapping:
: x
[info]   Stream #0:0: Video: h264 (High), yuv420p, 64x48, 5 fps
[info]   Stream #0:1: Audio: opus, 48000 Hz, mono, fltp
[info] Stream mapping:
`, Video},
		{"a language that pretends to be art", `
[info] Input #0, matroska,webm, from 'file:in.mka':
[info]   Stream #0:0((attached pic)): Video: h264 (High), yuv420p, 64x48, 5 fps
[info]   Stream #0:1: Audio: opus, 48000 Hz, mono, fltp
[info] Stream mapping:
`, Video},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var whole, bytewise Report
			fmt.Fprint(&whole, c.stderr)
			for i := range len(c.stderr) {
				bytewise.Write([]byte{c.stderr[i]})
			}
			if got := whole.Verdict(); got != c.want {
				t.Errorf("verdict %v, want %v", got, c.want)
			}
			if got := bytewise.Verdict(); got != c.want {
				t.Errorf("byte by byte: verdict %v, want %v", got, c.want)
			}
		})
	}
}

func TestReportThatEndsEarly(t *testing.T) {
	var nothing, pictures Report
	fmt.Fprint(&nothing, "[error] file:in.mp3: Invalid data found when processing input")
	nothing.End()
	if got := nothing.Verdict(); got != Unreadable {
		t.Errorf("verdict %v, want unreadable", got)
	}
	fmt.Fprint(&pictures, "[info] Input #0, mp3, from 'file:in.mp3':\n[fatal] Stream specifier ':a:0' matches no streams.\n")
	pictures.End()
	if got := pictures.Verdict(); got != NoAudio {
		t.Errorf("verdict %v, want no audio", got)
	}
}

func TestReportKeepsABoundedAmount(t *testing.T) {
	var r Report
	flood := bytes.Repeat([]byte("x"), 1<<16)
	for range 64 {
		r.Write(flood)
	}
	if cap(r.line) > 2*lineLimit {
		t.Errorf("holds %d bytes of one line", cap(r.line))
	}
	fmt.Fprint(&r, "\n[info] Input #0, wav, from 'file:in.wav':\n[info]   Stream #0:0: Audio: pcm_s16le\n[info] Stream mapping:\n")
	if got := r.Verdict(); got != Audio {
		t.Errorf("verdict %v after a flood, want audio", got)
	}
}

func TestReportTags(t *testing.T) {
	var r Report
	fmt.Fprint(&r, `[info] Input #0, ogg, from 'file:in.ogg':
[info]   Metadata:
[info]     TITLE           : Of the file
[info]                     : second line
[info]     comment         : `+strings.Repeat("x", 200)+`
[info]   Duration: 00:00:03.00, start: 0.000000, bitrate: 65 kb/s
[info]   Stream #0:0: Video: png, rgb24(pc), 600x600 (attached pic)
[info]     Metadata:
[info]       artist          : The cover
[info]   Stream #0:1: Audio: vorbis, 44100 Hz, mono, fltp, 80 kb/s
[info]     Metadata:
[info]       TITLE           : Of the stream
[info]       artist          : A: B`+"\u202e\x1b"+`
[info]   Stream #0:2: Audio: vorbis, 44100 Hz, mono, fltp, 80 kb/s
[info]     Metadata:
[info]       album           : Of another stream
[info] Input #1, ffmetadata, from 'data:,;FFMETADATA1':
[info]   Metadata:
[info]     date            : not the source's
`)
	want := ";FFMETADATA1\ntitle=Of the file\nartist=A: B\n"
	if got := string(TagFile(r.Tags())); got != want {
		t.Errorf("tag file %q, want %q", got, want)
	}
}

// ffmpeg 7 moved the tags of streams two columns to the right.
func TestReportTagsOfStreamsIn7(t *testing.T) {
	var r Report
	fmt.Fprint(&r, `[info] Input #0, ogg, from 'file:in.ogg':
[info]   Duration: 00:00:03.00, start: 0.000000, bitrate: 65 kb/s
[info]   Stream #0:0: Audio: vorbis, 44100 Hz, mono, fltp, 80 kb/s
[info]       Metadata:
[info]         TITLE           : Of the stream
[info]                         : second line
[info] Stream mapping:
`)
	if got, want := string(TagFile(r.Tags())), ";FFMETADATA1\ntitle=Of the stream\n"; got != want {
		t.Errorf("tag file %q, want %q", got, want)
	}
}

func TestTagFileEscapesAndBounds(t *testing.T) {
	got := string(TagFile(Tags{"title": "a=b;c#d\\e\nf", "comment": "no", "album": strings.Repeat("é", 300)}))
	want := ";FFMETADATA1\ntitle=a\\=b\\;c\\#d\\\\ef\nalbum=" + strings.Repeat("é", tagLimit/2) + "\n"
	if got != want {
		t.Errorf("tag file %q, want %q", got, want)
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte("[info] Input #0, wav, from 'file:in.wav':\n[info]   Stream #0:0: Audio: pcm_s16le\n[info] Stream mapping:\n"))
	f.Fuzz(func(t *testing.T, stderr []byte) {
		var r Report
		r.Write(stderr)
		r.End()
		if r.Verdict() == Pending {
			t.Error("still pending at the end")
		}
		if lines := bytes.Count(TagFile(r.Tags()), []byte("\n")); lines > len(carried)+1 {
			t.Errorf("a tag broke out of its line: %q", TagFile(r.Tags()))
		}
	})
}
