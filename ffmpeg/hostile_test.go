package ffmpeg

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// The name and the content of a file disagree as often by malice as by accident: what ffmpeg would follow to
// other files or to the network is refused as undecodable, by ffmpeg and ffprobe alike (field case H01).
func TestWhatIsNoAudioIsUndecodable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sibling := makeAudio(t, "sibling.ts", "sine=d=1", "-c:a", "mp2")
	if err := os.Link(sibling, filepath.Join(dir, "sibling.ts")); err != nil {
		t.Fatal(err)
	}
	picture := makeAudio(t, "picture.png", "color=s=16x16:d=1", "-frames:v", "1")
	png, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"playlist.mp3":       "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsibling.ts\n#EXT-X-ENDLIST\n",
		"playlist.m3u8":      "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsibling.ts\n#EXT-X-ENDLIST\n",
		"admin.mp3":          "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:2019/config/\n#EXT-X-ENDLIST\n",
		"script.wav":         "ffconcat version 1.0\nfile sibling.ts\n",
		"session.mp3":        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n",
		"manifest.m4a":       `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>`,
		"page.mp3":           "<!DOCTYPE html><html><body>404 not found</body></html>" + strings.Repeat(" ", 2000),
		"empty.wav":          "",
		"picture.wav":        string(png),
		"noise.mp3":          strings.Repeat("\x01\x23\x45\x67\x89\xab\xcd", 3000),
		"ffmetadata.mp3":     ";FFMETADATA1\ntitle=x\n",
		"header-only.flac":   "fLaC",
		"program.wav":        "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 500),
		"truncated.m4a":      "\x00\x00\x00\x1cftypM4A \x00\x00\x02\x00M4A isomiso2\x00\x00\x10\x00mdat",
		"tracker-module.mod": "song" + strings.Repeat("\x00", 1076) + "M.K." + strings.Repeat("\x00", 2000),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			o := render(t, path, urlapi.Options{Format: urlapi.MP3}, Facts{})
			o.report.End()
			if o.err == nil {
				t.Fatalf("ffmpeg rendered it\n%s", o.stderr)
			}
			if got := Classify(o.err, []byte(o.stderr), o.report.Verdict()).Class; got != Undecodable {
				t.Errorf("class %s, want %s\n%s", got, Undecodable, o.stderr)
			}
			_, err := Probe(t.Context(), runReal, Source{URL: "file:" + path, Protocols: "file"})
			if got := Classify(err, nil, Pending).Class; got != Undecodable {
				t.Errorf("probe: %v, want class %s", err, Undecodable)
			}
		})
	}
}

// Real video is told from cover art, by the report and by the probe.
func TestVideoIsNotArt(t *testing.T) {
	t.Parallel()
	tone := makeAudio(t, "tone.wav", "sine=r=44100:d=1")
	picture := makeAudio(t, "art.png", "color=s=16x16:d=1", "-frames:v", "1")
	join := func(name string, args ...string) string {
		path := filepath.Join(t.TempDir(), name)
		args = append([]string{"-v", "error", "-i", "file:" + tone}, args...)
		mustRun(t, "", "ffmpeg", append(args, "-map", "0:a", "-map", "1:v", "file:"+path)...)
		return path
	}
	art := []string{"-i", "file:" + picture, "-disposition:v", "attached_pic"}
	film := []string{"-f", "lavfi", "-i", "testsrc=s=32x32:r=5:d=1", "-c:v", "mpeg4"}
	for _, c := range []struct {
		path string
		want Verdict
	}{
		{join("art.mp3", art...), Audio},
		{join("art.flac", art...), Audio},
		{join("art.m4a", append(art, "-c:v", "png")...), Audio},
		{join("film.mp4", film...), Video},
		{join("film.mkv", film...), Video},
		{join("film.m4a", append(film, "-f", "mp4")...), Video},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			formats := audioFormats
			if c.want == Video {
				formats = formats[:1] // the verdict comes before any format
			}
			for _, format := range formats {
				o := mustRender(t, c.path, urlapi.Options{Format: format}, Facts{})
				if got := o.report.Verdict(); got != c.want {
					t.Errorf("%s: verdict %v, want %v\n%s", format, got, c.want, o.stderr)
				}
				if got := strings.TrimSpace(string(mustRun(t, "", "ffprobe", "-v", "error", "-show_entries", "stream=codec_type", "-of", "csv=p=0", "file:"+o.final))); got != "audio" {
					t.Errorf("%s: streams of the variant: %s", format, got)
				}
			}
			_, err := Probe(t.Context(), runReal, Source{URL: "file:" + c.path, Protocols: "file"})
			if isVideo := err != nil && Classify(err, nil, Pending).Class == VideoSource; isVideo != (c.want == Video) {
				t.Errorf("probe: %v", err)
			}
		})
	}
}

// renderTagged renders with tags, as the server does: ffmpeg reports the source, is told the tags that go
// along, and goes on.
func renderTagged(t *testing.T, source string, format urlapi.Format) string {
	t.Helper()
	plan, err := NewPlan(urlapi.Options{Format: format}, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "ffmpeg", plan.ArgsWithTags("file:"+source, "pipe:3", "file:live", "file:final")...)
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{read}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var report Report
	var log bytes.Buffer
	buf := make([]byte, 4096)
	for told := false; ; {
		n, err := stderr.Read(buf)
		report.Write(buf[:n])
		log.Write(buf[:n])
		if report.InputDone() && !told {
			told = true
			write.Write(TagFile(report.Tags()))
			write.Close()
		}
		if err == io.EOF {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if plan.Shape.Tee {
		return filepath.Join(dir, "final")
	}
	return filepath.Join(dir, "live")
}

// Title, artist, album, track and date go along; nothing else does, and nothing at any length (field case F12).
func TestTagsGoAlong(t *testing.T) {
	t.Parallel()
	tag := func(key, value string) []string { return []string{"-metadata", key + "=" + value} }
	var tags []string
	for _, kv := range [][2]string{
		{"title", "A=b; c#d \\ \"e\" é\u202e\x1b"}, {"artist", strings.Repeat("ü", 4000)}, {"album", "Album"}, {"track", "3/9"}, {"date", "1999"},
		{"comment", strings.Repeat("x", 70_000)}, {"encoded_by", "somebody"},
	} {
		tags = append(tags, tag(kv[0], kv[1])...)
	}
	for _, name := range []string{"in.mp3", "in.ogg", "in.flac", "in.m4a"} {
		source := makeAudio(t, name, "sine=r=44100:d=1", append([]string{}, tags...)...)
		for _, format := range []urlapi.Format{urlapi.MP3, urlapi.Opus, urlapi.Ogg, urlapi.M4A, urlapi.FLAC, urlapi.WAV} {
			t.Run(fmt.Sprintf("%s to %s", name, format), func(t *testing.T) {
				path := renderTagged(t, source, format)
				facts := probeFacts(t, path)
				got := map[string]string{}
				for k, v := range facts.Tags {
					got[strings.ToLower(k)] = v
				}
				// ffmpeg's report shows a control character as a question mark.
				if got["title"] != `A=b; c#d \ "e" é?` {
					t.Errorf("title %q", got["title"])
				}
				if n := len(got["artist"]); n == 0 || n > tagLimit || !utf8.ValidString(got["artist"]) {
					t.Errorf("artist of %d bytes", n)
				}
				if got["album"] != "Album" || !strings.HasPrefix(got["track"], "3") || got["date"] != "1999" {
					t.Errorf("tags %q", got)
				}
				if got["comment"] != "" || got["encoded_by"] != "" {
					t.Errorf("more tags than the five went along: %q", got)
				}
			})
		}
	}
}
