package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

var errExit = errors.New("exit status 1")

func TestClassify(t *testing.T) {
	cases := []struct {
		name    string
		err     error
		stderr  string
		verdict Verdict
		want    Class
	}{
		{"cancelled", fmt.Errorf("render: %w", context.Canceled), "[error] Invalid data found when processing input\n", Unreadable, Cancelled},
		{"out of time", context.DeadlineExceeded, "", Audio, Timeout},
		{"outgrew its limit", ErrTooLarge, "", Audio, TooLarge},
		{"video", errExit, "", Video, VideoSource},
		{"no audio stream", errExit, "[fatal] Stream specifier ':a:0' in filtergraph description [0:a:0]anull[o] matches no streams.\n", NoAudio, NoSound},
		{"exit 0 and nothing", nil, "", Audio, NoSound},
		{"5.1: not a container we read", errExit, "[hls @ 0x55bdc6654bc0] [error] Format not on whitelist 'wav,mp3'\n[error] file:in.mp3: Invalid argument\n", Unreadable, Undecodable},
		{"5.1: no container at all", errExit, "[error] file:in.wav: Invalid data found when processing input\n", Unreadable, Undecodable},
		{"7.1: no container at all", errExit, "[in#0 @ 0x6000] [error] Error opening input: Invalid data found when processing input\n[error] Error opening input file file:in.wav.\n", Unreadable, Undecodable},
		{"not there", errExit, "[error] file:in.wav: No such file or directory\n", Unreadable, NotFound},
		{"disk full", errExit, "[error] av_interleaved_write_frame(): No space left on device\n", Audio, NoSpace},
		{"8: disk full", errExit, "[aost#0:0/flac @ 0x6] [error] Error submitting a packet to the muxer: No space left on device\n", Audio, NoSpace},
		{"encoder missing", errExit, "[fatal] Unknown encoder 'libmp3lame'\n", Audio, Failed},
		{"an assertion of LAME's", errors.New("signal: aborted"), "ffmpeg: psymodel.c:576: calc_energy: Assertion `el >= 0' failed.\n", Audio, Failed},
		{"a program that isn't ffmpeg", errExit, "what?\n", Unreadable, Failed},
		{"a tag that pretends", errExit, "[info]     title           : [error] No space left on device\n", Audio, Failed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Classify(c.err, []byte(c.stderr), c.verdict); got.Class != c.want {
				t.Errorf("class %s, want %s", got.Class, c.want)
			}
		})
	}
}

func TestClassifyKeepsTheCause(t *testing.T) {
	err := Classify(fmt.Errorf("waiting: %w", context.Canceled), nil, Audio)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v lost its cause", err)
	}
	if again := Classify(err, nil, Audio); again.Class != Cancelled {
		t.Errorf("classified twice: %s, want %s", again.Class, Cancelled)
	}
}

// What goes to the log must not be able to redraw the terminal it is read on, nor fill the disk.
func TestTailIsFitForALog(t *testing.T) {
	got := Tail([]byte("one\x1b[31m\r\ntwo \xff\u202e three\n\n" + strings.Repeat("日", 3000)))
	if len(got) > tailLimit || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\n\u202e") {
		t.Errorf("unfit: %d bytes, %q…", len(got), got[:40])
	}
	if got := Tail([]byte("one\x1b[31m\r\ntwo\n")); got != "one[31m | two" {
		t.Errorf("got %q", got)
	}
}
