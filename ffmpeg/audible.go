package ffmpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// HoldsAudio says whether a variant's file, as it stands now, holds any audio beyond its headers. ffmpeg exits 0
// with an empty container (45 bytes of MP3, 8 KB of FLAC) when there was nothing to decode, so neither its exit
// status nor a size proves anything; its closing statistics round small packets down to 0 kB and changed their
// wording between versions. The file itself cannot be misread.
//
// It works on a file that is still being written as well as on a finished one (for m4a: on the fragments and on
// the plain file), looks at a few headers only, and never reads past size. A file that it cannot make sense of
// holds no audio. The error is the reader's own.
func HoldsAudio(format urlapi.Format, file io.ReaderAt, size int64) (bool, error) {
	r := headerReader{file: file, size: size}
	var found bool
	switch format {
	case urlapi.MP3:
		found = r.mp3()
	case urlapi.Opus, urlapi.Ogg:
		found = r.ogg()
	case urlapi.AAC:
		found = size > adtsHeader
	case urlapi.M4A:
		found = r.mp4()
	case urlapi.FLAC:
		found = r.flac()
	case urlapi.WAV:
		found = r.wav()
	case urlapi.Peaks:
		found = size > 0
	}
	return found, r.err
}

// adtsHeader is the size of a frame header without CRC; the file is frames and nothing else.
const adtsHeader = 7

// headerReader reads small pieces of a file. What lies beyond its end reads as missing.
type headerReader struct {
	file io.ReaderAt
	size int64
	err  error
}

// at is n bytes at an offset, or nil when the file has not got that far.
func (r *headerReader) at(offset int64, n int) []byte {
	if r.err != nil || offset < 0 || offset+int64(n) > r.size {
		return nil
	}
	b := make([]byte, n)
	if _, err := r.file.ReadAt(b, offset); err != nil {
		if !errors.Is(err, io.EOF) {
			r.err = err
		}
		return nil
	}
	return b
}

// mp3: an ID3v2 tag may come first, then a frame that holds no audio but the Xing header, then audio.
func (r *headerReader) mp3() bool {
	offset := int64(0)
	if tag := r.at(0, 10); tag != nil && bytes.HasPrefix(tag, []byte("ID3")) {
		offset = 10 + (int64(tag[6])<<21 | int64(tag[7])<<14 | int64(tag[8])<<7 | int64(tag[9]))
	}
	first := r.at(offset, 4)
	if first == nil || first[0] != 0xFF || first[1]&0xE0 != 0xE0 {
		return false
	}
	size := int64(mp3FrameSize(first))
	frame := r.at(offset, int(size))
	if size == 0 || frame == nil {
		return false
	}
	// The word stands behind the side information, whose length depends on MPEG version and channels.
	for _, at := range []int{13, 21, 36} {
		if len(frame) < at+4 {
			continue
		}
		if word := string(frame[at : at+4]); word == "Xing" || word == "Info" {
			return r.at(offset+size, 4) != nil
		}
	}
	return true
}

// mp3FrameSize reads the size of a Layer III frame from its header (ISO/IEC 11172-3, 2.4.2.3; 13818-3 for the
// low sample rates), 0 for a header that is none.
func mp3FrameSize(header []byte) int {
	version, bitRate, rate, padding := header[1]>>3&3, header[2]>>4, header[2]>>2&3, int(header[2]>>1&1)
	if rate == 3 || version == 1 {
		return 0
	}
	hertz := [...]int{44100, 48000, 32000}[rate]
	kbits := [...]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	factor := 144
	if version != 3 { // MPEG-2, and 2.5 at half of its rates again
		kbits = [...]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
		factor = 72
		hertz /= 2
		if version == 0 {
			hertz /= 2
		}
	}
	if kbits[bitRate] == 0 {
		return 0
	}
	return factor*kbits[bitRate]*1000/hertz + padding
}

// ogg: the pages of the headers have the granule position 0, and one with audio counts samples.
func (r *headerReader) ogg() bool {
	offset := int64(0)
	for {
		page := r.at(offset, 27)
		if page == nil || string(page[:4]) != "OggS" {
			return false
		}
		// -1: no packet ends on the page.
		if granule := int64(binary.LittleEndian.Uint64(page[6:])); granule > 0 {
			return true
		}
		segments := r.at(offset+27, int(page[26]))
		if segments == nil {
			return false
		}
		offset += 27 + int64(len(segments))
		for _, s := range segments {
			offset += int64(s)
		}
	}
}

// mp4: media data, in a box "mdat" of its own that is not empty.
func (r *headerReader) mp4() bool {
	offset := int64(0)
	for {
		box := r.at(offset, 8)
		if box == nil {
			return false
		}
		size, header := int64(binary.BigEndian.Uint32(box)), int64(8)
		if size == 1 {
			large := r.at(offset+8, 8)
			if large == nil {
				return false
			}
			size, header = int64(binary.BigEndian.Uint64(large)), 16
		}
		if string(box[4:]) == "mdat" {
			return size > header && r.size > offset+header
		}
		if size < header || size > r.size-offset {
			return false
		}
		offset += size
	}
}

// flac: frames come behind the metadata block that says it is the last.
func (r *headerReader) flac() bool {
	if string(r.at(0, 4)) != "fLaC" {
		return false
	}
	offset := int64(4)
	for {
		block := r.at(offset, 4)
		if block == nil {
			return false
		}
		offset += 4 + (int64(block[1])<<16 | int64(block[2])<<8 | int64(block[3]))
		if block[0]&0x80 != 0 {
			return r.size > offset
		}
	}
}

// wav: something behind the header of the "data" chunk, which is the last chunk but for what ffmpeg appends.
func (r *headerReader) wav() bool {
	offset := int64(12)
	for {
		chunk := r.at(offset, 8)
		if chunk == nil {
			return false
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		if string(chunk[:4]) == "data" {
			return size != 0 && r.size > offset+8
		}
		offset += 8 + size + size&1
	}
}
