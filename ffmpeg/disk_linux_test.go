package ffmpeg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// The tee muxer goes on when one of its files fails, and ffmpeg exits with 0: wherever the disk was full, that is
// what is said (field case R3).
func TestR3AFullDiskIsSaidWhateverFileItHit(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "sine.wav", "sine=r=44100:d=60", "-ac", "2")
	need := fileTotal(t, mustRender(t, source, urlapi.Options{Format: urlapi.M4A}, Facts{}))
	for kilobytes := need/1024 - 60; kilobytes <= need/1024+40; kilobytes += 10 {
		t.Run(fmt.Sprint(kilobytes), func(t *testing.T) {
			dir := t.TempDir()
			// The test binary runs itself where the folder is a small disk of its own.
			args := []string{"--mount"}
			if os.Getuid() != 0 {
				args = append(args, "--map-root-user")
			}
			args = append(args, "sh", "-euc", `mount -t tmpfs -o size="$1"k tmpfs "$0"; shift; exec "$@"`, dir, strconv.FormatInt(kilobytes, 10),
				os.Args[0], "-test.run", "^TestRenderToAFolder$", "-test.count=1")
			cmd := exec.CommandContext(t.Context(), "unshare", args...)
			cmd.Env = append(os.Environ(), "FFMPEG_TEST_FOLDER="+dir, "FFMPEG_TEST_SOURCE="+source)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func fileTotal(t *testing.T, o outcome) int64 {
	t.Helper()
	total := int64(0)
	for _, path := range []string{o.live, o.final} {
		size, err := fileSize(path)
		if err != nil {
			t.Fatal(err)
		}
		total += size
	}
	return total
}

// TestRenderToAFolder is the other half of TestR3AFullDiskIsSaidWhateverFileItHit.
func TestRenderToAFolder(t *testing.T) {
	dir := os.Getenv("FFMPEG_TEST_FOLDER")
	if dir == "" {
		return // it is not asked for
	}
	live, err := os.Create(filepath.Join(dir, LiveName))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	plan, err := NewPlan(urlapi.Options{Format: urlapi.M4A}, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	out := &folder{dir: dir, live: live, released: make(chan struct{})}
	err = realTools(t).Render(t.Context(), plan, openInput(t, os.Getenv("FFMPEG_TEST_SOURCE")), out, Limits{})
	if err == nil {
		for _, name := range []string{LiveName, FinalName} {
			if got := frames(t, filepath.Join(dir, name)); got < 60*44100 {
				t.Errorf("complete, with %d frames in %s", got, name)
			}
		}
		return
	}
	wantClass(t, "on a full disk", err, NoSpace)
}

// No file grows past the limit, and that is what the error says (field case S6).
func TestS6NeverAByteMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	source := makeAudio(t, "noise.wav", "anoisesrc=r=44100:d=30:seed=1", "-ac", "2")
	const limit = 100_000
	for _, format := range []urlapi.Format{urlapi.WAV, urlapi.MP3, urlapi.M4A, urlapi.FLAC} {
		out, err := renderFile(t, realTools(t), source, urlapi.Options{Format: format}, Limits{MaxBytes: limit})
		wantClass(t, string(format), err, TooLarge)
		for _, name := range []string{LiveName, FinalName} {
			if size, err := fileSize(filepath.Join(out.dir, name)); err == nil && size > limit {
				t.Errorf("%s: %s has %d bytes", format, name, size)
			}
		}
	}
}
