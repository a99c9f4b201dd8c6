package ffmpeg

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A box of an MP4: its type, and where its content lies in the file.
type box struct {
	name       string
	start, end int64
}

// box reads the header of the box at an offset; ok is false where none lies wholly within limit.
func (r *headerReader) box(offset, limit int64) (b box, ok bool) {
	header := r.at(offset, 8)
	if header == nil {
		return box{}, false
	}
	size, start := int64(binary.BigEndian.Uint32(header)), offset+8
	if size == 1 {
		large := r.at(offset+8, 8)
		if large == nil {
			return box{}, false
		}
		size, start = int64(binary.BigEndian.Uint64(large)), offset+16
	}
	b = box{string(header[4:]), start, offset + size}
	return b, size >= start-offset && size <= limit-offset
}

// lacksOfMP4: the boxes fill the file to its end, there is an index with samples or there are fragments, and there is
// as much media as the index says.
func (r *headerReader) lacksOfMP4() string {
	var indexed, fragments, media int64
	var named, index bool
	for offset := int64(0); offset < r.size; {
		b, ok := r.box(offset, r.size)
		if !ok {
			return fmt.Sprintf("the box at %d has no end", offset)
		}
		switch b.name {
		case "ftyp":
			named = true
		case "moov":
			index = true
			n, ok := r.sampleSizes(b.start, b.end)
			if !ok {
				return "its index cannot be read"
			}
			indexed += n
		case "moof":
			fragments++
			n, ok := r.fragmentSizes(b.start, b.end)
			if !ok {
				return "the index of a fragment cannot be read"
			}
			indexed += n
		case "mdat":
			media += b.end - b.start
		}
		offset = b.end
	}
	switch {
	case !named || !index:
		return "no index"
	case indexed == 0:
		return "no samples"
	case indexed != media:
		return fmt.Sprintf("its samples have %d bytes, its media %d", indexed, media)
	}
	return ""
}

// containers are boxes on the way to the sizes of samples.
var containers = map[string]bool{"trak": true, "mdia": true, "minf": true, "stbl": true, "traf": true}

// sampleSizes sums what the sample size boxes between two offsets say (ISO/IEC 14496-12, 8.7.3).
func (r *headerReader) sampleSizes(start, end int64) (sum int64, ok bool) {
	return r.sizes(start, end, 0, "stsz", func(b []byte) (int64, bool) {
		if len(b) < 12 {
			return 0, false
		}
		each, count := int64(binary.BigEndian.Uint32(b[4:])), int64(binary.BigEndian.Uint32(b[8:]))
		if each != 0 {
			return each * count, true
		}
		return sumOf(b[12:], count, 4, 0)
	})
}

// fragmentSizes is sampleSizes for the track runs of a fragment (8.8.8).
func (r *headerReader) fragmentSizes(start, end int64) (sum int64, ok bool) {
	var each int64 // the default size of a sample, from the track fragment's header, which comes first
	if _, ok := r.sizes(start, end, 0, "tfhd", func(b []byte) (int64, bool) {
		each = defaultSize(b)
		return 0, true
	}); !ok {
		return 0, false
	}
	return r.sizes(start, end, 0, "trun", func(b []byte) (int64, bool) {
		if len(b) < 8 {
			return 0, false
		}
		flags, count := binary.BigEndian.Uint32(b)&0xFFFFFF, int64(binary.BigEndian.Uint32(b[4:]))
		at := 8 + 4*bits.OnesCount32(flags&0x005) // data offset, flags of the first sample
		if flags&0x200 == 0 {
			return each * count, true
		}
		if at > len(b) {
			return 0, false
		}
		return sumOf(b[at:], count, 4*bits.OnesCount32(flags&0xF00), 4*bits.OnesCount32(flags&0x100))
	})
}

// defaultSize is the sample size in a tfhd (8.8.7), which stands behind the track and what the flags say of it.
func defaultSize(b []byte) int64 {
	if len(b) < 8 {
		return 0
	}
	flags := binary.BigEndian.Uint32(b) & 0xFFFFFF
	at := 8 + 8*bits.OnesCount32(flags&0x01) + 4*bits.OnesCount32(flags&0x0A)
	if flags&0x10 == 0 || len(b) < at+4 {
		return 0
	}
	return int64(binary.BigEndian.Uint32(b[at:]))
}

// sumOf adds up count 32-bit numbers, each at an offset in an entry of a table.
func sumOf(table []byte, count int64, entry, offset int) (sum int64, ok bool) {
	if count > int64(len(table)/entry) {
		return 0, false
	}
	for ; count > 0; count-- {
		sum += int64(binary.BigEndian.Uint32(table[offset:]))
		table = table[entry:]
	}
	return sum, true
}

// indexLimit bounds a box that is read whole: 4 bytes a sample, and a day of audio has 4 million.
const indexLimit = 64 << 20

// sizes walks the boxes between two offsets, so deep in others, and adds up what read says of those with a name.
func (r *headerReader) sizes(start, end int64, depth int, name string, read func(content []byte) (int64, bool)) (sum int64, ok bool) {
	for offset := start; offset < end; {
		b, ok := r.box(offset, end)
		if !ok {
			return 0, false
		}
		var n int64
		switch {
		case containers[b.name] && depth == len(containers):
			ok = false // they are not nested so deep
		case containers[b.name]:
			n, ok = r.sizes(b.start, b.end, depth+1, name, read)
		case b.name == name && b.end-b.start <= indexLimit:
			n, ok = read(r.at(b.start, int(b.end-b.start)))
		case b.name == name:
			ok = false
		}
		if !ok {
			return 0, false
		}
		sum += n
		offset = b.end
	}
	return sum, true
}
