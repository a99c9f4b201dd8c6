package ffmpeg

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func mp4Box(name string, content ...[]byte) []byte {
	body := bytes.Join(content, nil)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), name...), body...)
}

func fullBox(name string, flags uint32, content ...[]byte) []byte {
	return mp4Box(name, append([][]byte{numbers(flags)}, content...)...)
}

func numbers(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// hugeIndex is an MP4 of some kB that claims so many samples in each of its tracks.
func hugeIndex(tracks int, samples uint32) []byte {
	track := func(id uint32) []byte {
		entry := mp4Box("sowt", make([]byte, 6), []byte{0, 1}, numbers(0, 0, 1<<16|16, 0, 8000<<16))
		table := mp4Box("stbl", fullBox("stsd", 0, numbers(1), entry), fullBox("stts", 0, numbers(1, samples, 2)),
			fullBox("stsc", 0, numbers(1, 1, samples, 1)), fullBox("stsz", 0, numbers(2, samples)), fullBox("stco", 0, numbers(1, 44)))
		reference := mp4Box("dinf", fullBox("dref", 0, numbers(1), fullBox("url ", 1)))
		media := mp4Box("mdia", fullBox("mdhd", 0, numbers(0, 0, 8000, samples, 0)), fullBox("hdlr", 0, []byte("mhlrsoun"), make([]byte, 13)),
			mp4Box("minf", fullBox("smhd", 0, make([]byte, 4)), reference, table))
		return mp4Box("trak", fullBox("tkhd", 7, numbers(0, 0, id, 0, samples), make([]byte, 60)), media)
	}
	moov := [][]byte{fullBox("mvhd", 0, numbers(0, 0, 8000, samples, 1<<16), make([]byte, 76))}
	for id := range tracks {
		moov = append(moov, track(uint32(id+1)))
	}
	return bytes.Join([][]byte{mp4Box("ftyp", []byte("M4A \x00\x00\x00\x00M4A ")), mp4Box("moov", moov...), mp4Box("mdat", make([]byte, 4096))}, nil)
}

// tagged puts an ID3v2.4 tag of these frames in front of an MP3.
func tagged(mp3 []byte, frames ...[]byte) []byte {
	body := bytes.Join(frames, nil)
	return bytes.Join([][]byte{[]byte("ID3\x04\x00\x00"), synchsafe(len(body)), body, mp3}, nil)
}

func id3Frame(name string, content []byte) []byte {
	return bytes.Join([][]byte{[]byte(name), synchsafe(len(content)), {0, 0}, content}, nil)
}

func synchsafe(n int) []byte {
	return []byte{byte(n >> 21 & 127), byte(n >> 14 & 127), byte(n >> 7 & 127), byte(n & 127)}
}

// hugePicture is a PNG of one colour.
func hugePicture(t *testing.T, side int) []byte {
	t.Helper()
	chunk := func(name string, content []byte) []byte {
		sum := crc32.ChecksumIEEE(append([]byte(name), content...))
		return bytes.Join([][]byte{numbers(uint32(len(content))), []byte(name), content, numbers(sum)}, nil)
	}
	var pixels bytes.Buffer
	w, err := zlib.NewWriterLevel(&pixels, zlib.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]byte, 1+4*side)
	for range side {
		w.Write(row)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	header := append(numbers(uint32(side), uint32(side)), 8, 6, 0, 0, 0)
	return bytes.Join([][]byte{[]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", header), chunk("IDAT", pixels.Bytes()), chunk("IEND", nil)}, nil)
}

// Small files can ask for gigabytes, or say so much of themselves that nobody comes to an end with it. They end
// within seconds, and within the memory that a subprocess may have (field case S2).
func TestS2BombsEndSoonAndWithinTheirMemory(t *testing.T) {
	mp3, err := os.ReadFile(makeAudio(t, "song.mp3", "sine=d=2", "-id3v2_version", "0", "-write_xing", "0"))
	if err != nil {
		t.Fatal(err)
	}
	var chapters [][]byte
	for n := range 500_000 {
		name := fmt.Appendf(nil, "c%d\x00", n)
		chapters = append(chapters, id3Frame("CHAP", append(name, numbers(uint32(n), uint32(n+1), 1<<32-1, 1<<32-1)...)))
	}
	var comments [][]byte
	for n := range 300_000 {
		comments = append(comments, id3Frame("TXXX", fmt.Appendf(nil, "\x03k%d\x00v", n)))
	}
	title := func(b byte, n int) []byte {
		return tagged(mp3, id3Frame("TIT2", append([]byte{3}, bytes.Repeat([]byte{b}, n)...)))
	}
	picture := id3Frame("APIC", append([]byte("\x00image/png\x00\x03\x00"), hugePicture(t, 12_000)...))
	tools := realTools(t)
	for _, c := range []struct {
		name    string
		content []byte
		render  Class
		probe   Class
	}{
		{"three indexes.m4a", hugeIndex(3, 80_000_000), NoSound, ""},
		{"many indexes.m4a", hugeIndex(64, 80_000_000), NoSound, ""},
		{"a huge picture.mp3", tagged(mp3, picture), "", ""},
		{"line feeds.mp3", title('\n', 30_000_000), Undecodable, Undecodable},
		{"a long title.mp3", title('a', 30_000_000), "", Undecodable},
		{"chapters.mp3", tagged(mp3, chapters...), Undecodable, Undecodable},
		{"comments.mp3", tagged(mp3, comments...), Undecodable, Undecodable},
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
