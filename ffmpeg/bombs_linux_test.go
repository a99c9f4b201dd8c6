package ffmpeg

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/testdata/bomb"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Small files can ask for gigabytes, or say so much of themselves that nobody comes to an end with it. They end
// within seconds, and within the memory that a subprocess may have (field case S2).
func TestS2BombsEndSoonAndWithinTheirMemory(t *testing.T) {
	mp3, err := os.ReadFile(makeAudio(t, "song.mp3", "sine=d=2", "-id3v2_version", "0", "-write_xing", "0"))
	if err != nil {
		t.Fatal(err)
	}
	tools := realTools(t)
	for _, c := range []struct {
		name    string
		content []byte
		render  Class
		probe   Class
	}{
		{"three indexes.m4a", bomb.HugeIndex(3, 80_000_000), NoSound, ""},
		{"many indexes.m4a", bomb.HugeIndex(64, 80_000_000), NoSound, ""},
		{"a huge picture.mp3", bomb.Art(mp3, 12_000), "", ""},
		{"line feeds.mp3", bomb.Title(mp3, '\n', 30_000_000), Undecodable, Undecodable},
		{"a long title.mp3", bomb.Title(mp3, 'a', 30_000_000), "", Undecodable},
		{"chapters.mp3", bomb.Chapters(mp3, 500_000), Undecodable, Undecodable},
		{"comments.mp3", bomb.Comments(mp3, 300_000), Undecodable, Undecodable},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, c.name, c.content)
			start := time.Now()
			var spent syscall.Rusage
			before := ownTime(t)
			_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
			wantClass(t, "render", err, c.render)
			t.Logf("render %v, of ours %v", time.Since(start), ownTime(t)-before)
			start = time.Now()
			facts, err := probeFile(t, tools, path)
			wantClass(t, "probe", err, c.probe)
			t.Logf("probe %v", time.Since(start))
			if len(facts.Tags) > infoTagCount {
				t.Errorf("%d tags are kept", len(facts.Tags))
			}
			if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &spent); err != nil {
				t.Fatal(err)
			}
			if peak := spent.Maxrss >> 10; runtime.GOOS == "linux" && peak > 600 {
				t.Errorf("a subprocess has taken %d MB", peak)
			} else {
				t.Logf("%d MB", peak)
			}
		})
	}
}

// ownTime is what the test has had of the CPU, without its children.
func ownTime(t *testing.T) time.Duration {
	t.Helper()
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		t.Fatal(err)
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
}
