package ffmpeg

// vorbisMode is one of libvorbis' set-ups: up to a sample rate, the bit rates (per channel, in bit/s) that it
// takes for one channel and for two. Outside it refuses to open.
type vorbisMode struct {
	below        int // Hz, exclusive
	mono, stereo [2]int
}

// vorbisModes are the ends of the rate_mapping tables of libvorbis 1.3.7 (lib/modes/setup_*.h), each of
// them tried: libvorbis opens at both ends and refuses 1 kbit/s beyond.
var vorbisModes = []vorbisMode{
	{9000, [2]int{8000, 42000}, [2]int{6000, 42000}},
	{15000, [2]int{12000, 50000}, [2]int{8000, 50000}},
	{19000, [2]int{16000, 100000}, [2]int{12000, 100000}},
	{26000, [2]int{16000, 90000}, [2]int{15000, 90000}},
	{40000, [2]int{30000, 190000}, [2]int{18000, 190000}},
	{50000, [2]int{32000, 240000}, [2]int{22500, 250000}},
}

// vorbisRange is what libvorbis accepts, in kbit/s; with rate or channels unknown (0), what it accepts of any.
func vorbisRange(rate, channels int) (low, high int) {
	low, high = 1<<30, 0
	for _, m := range vorbisModes {
		if rate != 0 && rate >= m.below {
			continue
		}
		if channels != 2 {
			low, high = min(low, ceilDiv(m.mono[0], 1000)), max(high, m.mono[1]/1000)
		}
		if channels != 1 {
			low, high = min(low, ceilDiv(2*m.stereo[0], 1000)), max(high, 2*m.stereo[1]/1000)
		}
		if rate != 0 {
			break
		}
	}
	return low, high
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
