package ffmpeg

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// canned answers each question with a text.
func canned(answers map[string]string) Run {
	return func(_ context.Context, _ Program, args []string, stdout io.Writer) ([]byte, error) {
		answer, ok := answers[args[len(args)-1]]
		if !ok {
			return []byte("Unrecognized option\n"), errors.New("exit status 1")
		}
		_, err := io.WriteString(stdout, answer)
		return nil, err
	}
}

func TestInspectTheInstalledOne(t *testing.T) {
	c, err := Inspect(t.Context(), runReal)
	if err != nil {
		t.Fatal(err)
	}
	if missing := c.Missing(); len(missing) != 0 || c.Version == "" {
		t.Errorf("version %q lacks %q", c.Version, missing)
	}
}

func TestInspectALeanOne(t *testing.T) {
	const filters = "Filters:\n  T.. = Timeline support\n ..C aresample         A->A       Resample.\n .S. aformat           A->A       x\n ... pan               A->A       x\n" +
		" ... atrim A->A x\n ... asetpts A->A x\n TSC afade A->A x\n T.C volume A->A x\n ... loudnorm A->A x\n TSC highpass A->A x\n TSC afftdn A->A x\n T.. acompressor A->A x\n T.C alimiter A->A x\n"
	const encoders = "Encoders:\n V..... = Video\n ------\n A....D libopus              libopus Opus (codec opus)\n A....D flac                 FLAC\n" +
		" A....D aac                  AAC\n AF...D pcm_s16le            PCM\n A..... libvorbis            libvorbis\n"
	const demuxers = "File formats:\n D. = Demuxing supported\n --\n D  aac             raw ADTS AAC\n D  ffmetadata      FFmpeg metadata in text\n D  mov,mp4,m4a     QuickTime\n"
	cases := []struct {
		version string
		missing []string
	}{
		{"ffmpeg version 8.0.1 Copyright (c) 2000-2025", nil},
		{"ffmpeg version n7.1-26-g1234567 Copyright", nil},
		{"ffmpeg version N-118000-gabcdef Copyright", nil},
		{"ffmpeg version 4.4.2-0ubuntu0.22.04.1 Copyright", nil},
		{"ffmpeg version 4.2.7 Copyright", []string{"version 4.2.7 is older than 4.4"}},
	}
	for _, c := range cases {
		got, err := Inspect(t.Context(), canned(map[string]string{"-version": c.version, "-encoders": encoders, "-filters": filters, "-demuxers": demuxers}))
		if err != nil {
			t.Fatal(err)
		}
		want := append(slices.Clone(c.missing), "no encoder libmp3lame, which f:mp3 needs", "no filter deesser, which the option enhance needs")
		if missing := got.Missing(); !slices.Equal(missing, want) {
			t.Errorf("%s lacks %q, want %q", c.version, missing, want)
		}
		if got.Lacks(urlapi.MP3) != "libmp3lame" || got.Lacks(urlapi.Opus) != "" {
			t.Errorf("%s: mp3 lacks %q, opus %q", c.version, got.Lacks(urlapi.MP3), got.Lacks(urlapi.Opus))
		}
	}
}

func TestInspectSomethingElse(t *testing.T) {
	for name, run := range map[string]Run{
		"fails":         canned(nil),
		"another thing": canned(map[string]string{"-version": "GNU bash\n", "-encoders": "", "-filters": "", "-demuxers": ""}),
		"cannot be run": func(context.Context, Program, []string, io.Writer) ([]byte, error) {
			return nil, errors.New("no such file")
		},
		"floods forever": canned(map[string]string{"-version": string(make([]byte, 3<<20)), "-encoders": "", "-filters": "", "-demuxers": ""}),
	} {
		if _, err := Inspect(t.Context(), run); err == nil {
			t.Errorf("%s: passes for ffmpeg", name)
		}
	}
}
