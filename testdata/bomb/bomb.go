// Package bomb makes files that are small, or look harmless, and cost whoever reads them much: memory, time, or the room
// of a log. Tests of several packages want them, and they are too large to be kept.
package bomb

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
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

// HugeIndex is an MP4 of some kB that claims so many samples in each of its tracks.
func HugeIndex(tracks int, samples uint32) []byte {
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

// Tagged puts an ID3v2.4 tag of these frames in front of an MP3.
func Tagged(mp3 []byte, frames ...[]byte) []byte {
	body := bytes.Join(frames, nil)
	return bytes.Join([][]byte{[]byte("ID3\x04\x00\x00"), synchsafe(len(body)), body, mp3}, nil)
}

// Frame is a frame of such a tag.
func Frame(name string, content []byte) []byte {
	return bytes.Join([][]byte{[]byte(name), synchsafe(len(content)), {0, 0}, content}, nil)
}

func synchsafe(n int) []byte {
	return []byte{byte(n >> 21 & 127), byte(n >> 14 & 127), byte(n >> 7 & 127), byte(n & 127)}
}

// HugePicture is a PNG of one colour.
func HugePicture(side int) []byte {
	chunk := func(name string, content []byte) []byte {
		sum := crc32.ChecksumIEEE(append([]byte(name), content...))
		return bytes.Join([][]byte{numbers(uint32(len(content))), []byte(name), content, numbers(sum)}, nil)
	}
	var pixels bytes.Buffer
	w, err := zlib.NewWriterLevel(&pixels, zlib.BestSpeed)
	if err != nil {
		panic(err) // only for a level that there is not
	}
	row := make([]byte, 1+4*side)
	for range side {
		_, _ = w.Write(row) // into memory
	}
	_ = w.Close()
	header := append(numbers(uint32(side), uint32(side)), 8, 6, 0, 0, 0)
	return bytes.Join([][]byte{[]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", header), chunk("IDAT", pixels.Bytes()), chunk("IEND", nil)}, nil)
}

// Chapters is an MP3 with so many chapters.
func Chapters(mp3 []byte, n int) []byte {
	frames := make([][]byte, n)
	for i := range frames {
		name := fmt.Appendf(nil, "c%d\x00", i)
		frames[i] = Frame("CHAP", append(name, numbers(uint32(i), uint32(i+1), 1<<32-1, 1<<32-1)...))
	}
	return Tagged(mp3, frames...)
}

// Comments is an MP3 with so many comments.
func Comments(mp3 []byte, n int) []byte {
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = Frame("TXXX", fmt.Appendf(nil, "\x03k%d\x00v", i))
	}
	return Tagged(mp3, frames...)
}

// Title is an MP3 whose title is one byte, so many times.
func Title(mp3 []byte, b byte, n int) []byte {
	return Tagged(mp3, Frame("TIT2", append([]byte{3}, bytes.Repeat([]byte{b}, n)...)))
}

// Art is an MP3 with a picture of that many pixels a side.
func Art(mp3 []byte, side int) []byte {
	return Tagged(mp3, Frame("APIC", append([]byte("\x00image/png\x00\x03\x00"), HugePicture(side)...)))
}
