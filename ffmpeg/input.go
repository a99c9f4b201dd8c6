package ffmpeg

import "strings"

// demuxers are the containers that we mean to read. ffmpeg chooses a demuxer by content, whatever the name
// says; without this list a playlist (hls), a script (concat) or a session description (sdp) called song.mp3
// would make it open other files and connections. Left out as well: pictures, tracker modules, MIDI, the sounds of
// games, and raw formats that no content can be recognized by (but for gsm, see isGSM).
//
// Some of these hold real video too; they are read so that the answer can say so, and because they are used for
// audio alone: mov, matroska, asf, mpegts, flv (recordings of streams), mxf (broadcasters' masters), nut (archives of
// ffmpeg's users), rm (RealAudio collections). Not wtv, avi and MPEG program streams, which are hardly ever without
// video.
var demuxers = []string{
	"aac", "ac3", "aiff", "amr", "amrnb", "amrwb", "ape", "asf", "au", "caf", "dsf", "dss", "dts", "dtshd", "eac3", "flac", "flv",
	"gsm", "iff", "ircam", "loas", "matroska", "mlp", "mov", "mp3", "mpc", "mpc8", "mpegts", "mxf", "nistsphere", "nut", "ogg", "oma",
	"qcp", "rm", "shn", "sox", "tak", "truehd", "tta", "voc", "w64", "wav", "wv", "xwma",
}

// decoders are ffmpeg's names of the audio decoders that those containers need. No other is opened: none for
// pictures, of which a small file can hold a gigabyte, and none that is rarely used and less often looked at.
var decoders = []string{
	"8svx_exp", "8svx_fib", "aac", "aac_latm", "ac3", "adpcm_ct", "adpcm_ima_oki", "adpcm_ima_qt", "adpcm_ima_wav", "adpcm_ms",
	"adpcm_sbpro_2", "adpcm_sbpro_3", "adpcm_sbpro_4", "adpcm_swf", "adpcm_yamaha", "alac", "als", "amrnb", "amrwb", "ape",
	"atrac1", "atrac3", "atrac3al", "atrac3plus", "atrac3plusal", "cook", "dca", "dolby_e", "dsd_lsbf", "dsd_lsbf_planar",
	"dsd_msbf", "dsd_msbf_planar", "dss_sp", "dst", "eac3", "evrc", "flac", "g722", "g723_1", "g726", "g726le", "g729", "gsm",
	"gsm_ms", "ilbc", "imc", "libfdk_aac", "libgsm", "libgsm_ms", "libilbc", "libopencore_amrnb", "libopencore_amrwb", "libopus",
	"libspeex", "libvorbis", "mace3", "mace6", "metasound", "mlp", "mp1", "mp1float", "mp2", "mp2float", "mp3", "mp3adu",
	"mp3adufloat", "mp3float", "mp3on4", "mp3on4float", "mpc7", "mpc8", "nellymoser", "opus", "pcm_alaw", "pcm_bluray",
	"pcm_dvd", "pcm_f16le", "pcm_f24le", "pcm_f32be", "pcm_f32le", "pcm_f64be", "pcm_f64le", "pcm_mulaw", "pcm_s16be",
	"pcm_s16be_planar", "pcm_s16le", "pcm_s16le_planar", "pcm_s24be", "pcm_s24daud", "pcm_s24le", "pcm_s24le_planar",
	"pcm_s32be", "pcm_s32le", "pcm_s32le_planar", "pcm_s64be", "pcm_s64le", "pcm_s8", "pcm_s8_planar", "pcm_u16be",
	"pcm_u16le", "pcm_u24be", "pcm_u24le", "pcm_u32be", "pcm_u32le", "pcm_u8", "pcm_vidc", "qcelp", "qdm2", "qdmc", "ralf",
	"real_144", "real_288", "s302m", "shorten", "sipr", "speex", "tak", "truehd", "truespeech", "tta", "twinvq", "vorbis",
	"wavpack", "wmalossless", "wmapro", "wmav1", "wmav2", "wmavoice",
}

// maxStreams bounds what a container may hold. It is ffmpeg's own bound: every picture and every lyric is a stream,
// and albums with a hundred scans of their booklet exist. Without decoders for them a stream costs next to nothing.
const maxStreams = "1000"

// maxPixels bounds the pictures that ffprobe looks at: it opens a decoder for each stream and, unlike ffmpeg, ends
// with an error when it may not.
const maxPixels = "65536"

// inputOptions stand before -i: the protocols that may be used (comma-separated), the containers that may be read,
// and what may be decoded.
func inputOptions(program Program, protocols string) []string {
	options := []string{
		"-protocol_whitelist", protocols,
		"-format_whitelist", strings.Join(demuxers, ","),
		"-max_streams", maxStreams,
	}
	if program == FFprobe {
		return append(options, "-max_pixels", maxPixels)
	}
	return append(options, "-codec_whitelist", strings.Join(decoders, ","))
}
