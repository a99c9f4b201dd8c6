package ffmpeg

import (
	"encoding/binary"
	"math"
)

// A Reducer turns interleaved 16-bit little-endian samples into pairs of minimum and maximum, one per pixel and
// channel, as they stream through it. It holds one waveform, however long the audio: memory does not grow with
// the source.
type Reducer struct {
	channels, perPixel int
	points             int

	data   []int16 // per pixel, per channel: min, max
	pixel  []int16 // the same, of the pixel being filled
	filled int     // frames in it
	rest   []byte  // the beginning of a frame whose end has not come
	frames int64
}

// NewReducer makes a reducer to points pixels of perPixel frames each.
func NewReducer(channels, points, perPixel int) *Reducer {
	r := &Reducer{channels: channels, perPixel: perPixel, points: points}
	r.data = make([]int16, 0, 2*channels*points)
	r.pixel = make([]int16, 2*channels)
	r.rest = make([]byte, 0, 2*channels)
	r.clear()
	return r
}

// clear empties the pixel being filled.
func (r *Reducer) clear() {
	for c := range r.channels {
		r.pixel[2*c], r.pixel[2*c+1] = math.MaxInt16, math.MinInt16
	}
	r.filled = 0
}

// Write takes the next samples. Frames may be torn between calls. It never fails.
func (r *Reducer) Write(p []byte) (int, error) {
	n, size := len(p), 2*r.channels
	if len(r.rest) > 0 {
		take := min(size-len(r.rest), len(p))
		r.rest = append(r.rest, p[:take]...)
		p = p[take:]
		if len(r.rest) < size {
			return n, nil
		}
		r.frame(r.rest)
		r.rest = r.rest[:0]
	}
	for len(p) >= size {
		r.frame(p[:size])
		p = p[size:]
	}
	r.rest = append(r.rest, p...)
	return n, nil
}

// frame takes one sample of each channel. What exceeds the last pixel is only counted.
func (r *Reducer) frame(b []byte) {
	r.frames++
	if len(r.data) == cap(r.data) {
		return
	}
	for c := range r.channels {
		s := int16(binary.LittleEndian.Uint16(b[2*c:]))
		r.pixel[2*c] = min(r.pixel[2*c], s)
		r.pixel[2*c+1] = max(r.pixel[2*c+1], s)
	}
	if r.filled++; r.filled == r.perPixel {
		r.finishPixel()
	}
}

func (r *Reducer) finishPixel() {
	r.data = append(r.data, r.pixel...)
	r.clear()
}

// Frames is how many whole frames have come.
func (r *Reducer) Frames() int64 { return r.frames }

// Pixels is the waveform: points × channels pairs, min before max. Pixels that no frame fell into are 0, 0.
// Nothing may be written afterwards.
func (r *Reducer) Pixels() []int16 {
	if r.filled > 0 {
		r.finishPixel()
	}
	r.data = r.data[:cap(r.data)] // the rest was made as zeros
	return r.data
}

// perPixel is the number of frames that a pixel covers, the contract's ceil(frames / points); 1 at least.
func perPixel(frames int64, points int) int {
	return int(max(1, (frames+int64(points)-1)/int64(points)))
}
