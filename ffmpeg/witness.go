package ffmpeg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// askProbe has ffprobe say what kind of source it is, where ffmpeg's own report could not be read. The input's
// name is already linked in dir.
func (t Tools) askProbe(ctx context.Context, in Input, dir string) (Verdict, error) {
	var stdout, stderr bytes.Buffer
	args := append([]string{"-v", "error"}, InputOptions("file")...)
	process := Process{
		Path:   t.FFprobe,
		Args:   append(args, "-show_entries", "stream=codec_type:stream_disposition=attached_pic", "-of", "json", "file:in"+in.Ext),
		Dir:    dir,
		Files:  []*os.File{in.File},
		Stdout: &stdout,
		Stderr: &stderr,
	}
	if err := process.Run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return Unreadable, cause
		}
		return Unreadable, &Error{Class: Undecodable, Tail: Tail(stderr.Bytes()), Err: err}
	}
	var found struct {
		Streams []struct {
			CodecType   string `json:"codec_type"`
			Disposition struct {
				AttachedPic int `json:"attached_pic"`
			} `json:"disposition"`
		} `json:"streams"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &found); err != nil {
		return Unreadable, fmt.Errorf("reading what ffprobe said: %w", err)
	}
	verdict := NoAudio
	for _, s := range found.Streams {
		switch {
		case s.CodecType == "video" && s.Disposition.AttachedPic == 0:
			return Video, nil
		case s.CodecType == "audio":
			verdict = Audio
		}
	}
	return verdict, nil
}
