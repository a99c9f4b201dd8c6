package ffmpeg

// Facts are what is known about a source. Zero values mean unknown.
type Facts struct {
	SampleRate int // Hz
	Channels   int
	BitDepth   int  // of the samples as stored; 0 for lossy codecs
	Float      bool // the samples are stored as floating point

	// ClipFrames is how many frames the trimmed source really has, counted; 0 when not counted.
	ClipFrames int64
}
