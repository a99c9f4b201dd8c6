package ffmpeg

import "strings"

// demuxers are the containers that we mean to read. ffmpeg chooses a demuxer by content, whatever the name
// says; without this list a playlist (hls), a script (concat) or a session description (sdp) called song.mp3
// would make it open other files and connections. Left out as well: pictures, tracker modules, MIDI, and raw
// formats that no content can be recognized by. The mov and matroska families hold real video too; they are
// read so that the answer can say so.
var demuxers = []string{
	"aac", "ac3", "aiff", "amr", "amrnb", "amrwb", "ape", "asf", "au", "caf", "dsf", "dts", "dtshd", "eac3", "flac",
	"gsm", "loas", "matroska", "mov", "mp3", "mpc", "mpc8", "mpegts", "nistsphere", "ogg", "shn", "tak", "truehd",
	"tta", "voc", "w64", "wav", "wv",
}

// maxStreams bounds what a container may hold: ffmpeg sets a decoder up for each stream it finds. Songs with
// art and lyrics have a handful; ffmpeg's own bound is 1000.
const maxStreams = "64"

// InputOptions stand before -i, for ffmpeg and ffprobe alike: the protocols that may be used (comma-separated)
// and the containers that may be read.
func InputOptions(protocols string) []string {
	return []string{
		"-protocol_whitelist", protocols,
		"-format_whitelist", strings.Join(demuxers, ","),
		"-max_streams", maxStreams,
	}
}
