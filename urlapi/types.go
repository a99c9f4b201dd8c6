package urlapi

// Format is a variant's output format, spelled as in the URL.
type Format string

// The formats a URL can ask for.
const (
	MP3   Format = "mp3"
	Opus  Format = "opus" // Opus in Ogg
	Ogg   Format = "ogg"  // Vorbis in Ogg
	AAC   Format = "aac"  // ADTS
	M4A   Format = "m4a"
	FLAC  Format = "flac"
	WAV   Format = "wav"
	Peaks Format = "peaks"
)

// Milli is a decimal number with at most three decimals, in thousandths: exact where a float is not.
type Milli int64

// Options are what one URL asks for, checked and complete in themselves. The zero value of a field, nil for
// the pointers, means that the URL did not say it; Format is always set. Options are values: copying is safe,
// and nothing changes what a pointer leads to once ParseOptions has returned.
type Options struct {
	Format     Format
	BitRate    int    // kbit/s
	Quality    *Milli // the codec's own scale
	SampleRate int    // Hz
	Channels   int    // 1 or 2
	BitDepth   string // "16", "24", "32f"
	Trim       *Trim
	Fade       *Fade
	Gain       *Milli // dB
	Loudness   *Loudness
	Enhance    string // "voice"

	Points      int    // peaks: pairs; set under Peaks
	PeaksFormat string // peaks: "json" or "dat"; set under Peaks

	Download    string // file name, decoded; "" = not asked for
	CacheBuster string // as sent
	Expires     int64  // Unix seconds; 0 = never. Not part of the variant

	raw rawOptions // what Canonical writes back byte for byte
}

// Trim cuts the source: from Start, for Duration (0 = to the end). Both in milliseconds.
type Trim struct{ Start, Duration Milli }

// Fade is the length of the fade-in and of the fade-out, in milliseconds.
type Fade struct{ In, Out Milli }

// Loudness holds the targets of an EBU R128 normalization: integrated loudness in LUFS, true peak in dBTP,
// loudness range in LU.
type Loudness struct{ Integrated, TruePeak, Range Milli }

type rawOptions struct{ download string }
