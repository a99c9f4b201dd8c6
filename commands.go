package audioproxy

import (
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "audio-proxy",
		Short: "Signs URLs of audio variants, explains their options, renders or checks without a server",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(signCommand(), optionsCommand(), renderCommand(), checkCommand())
		},
	})
}

func signCommand() *cobra.Command {
	var pair KeyPair
	cmd := &cobra.Command{
		Use:   "sign --key <hex> --salt <hex> <path>",
		Short: "Prints a path with its signature",
		Long: `
Prints the path that a site with this key serves: the signature of the path,
and the path. The path is everything behind the signature, escaped as it will
be requested.

Key and salt may be placeholders, which keeps them out of the list of
processes: --key {env.AUDIO_KEY}, --salt {file./run/secrets/salt}.`,
		Example: "  caddy audio-proxy sign --key {env.AUDIO_KEY} --salt {env.AUDIO_SALT} /f:opus/br:96/plain/local://a.wav",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signed, err := sign(pair, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), signed)
			return nil
		},
	}
	cmd.Flags().StringVar(&pair.Key, "key", "", "The site's key, in hex")
	cmd.Flags().StringVar(&pair.Salt, "salt", "", "The site's salt, in hex")
	return cmd
}

// sign signs a path that a site could serve. A signature under a path that is refused anyway is of no use to
// anybody, and harder to understand where it is used than here.
func sign(pair KeyPair, path string) (string, error) {
	if pair.Key == "" || pair.Salt == "" {
		return "", errors.New("give the site's key and salt: --key <hex> --salt <hex>")
	}
	key, err := pair.resolve()
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if err := checkEscaped(path); err != nil {
		return "", err
	}
	asked, err := urlapi.ParseRequest(path)
	if err != nil {
		return "", fmt.Errorf("nothing would be served at %s: %w", path, err)
	}
	if _, err := urlapi.ParseSource(asked.Source); err != nil {
		return "", fmt.Errorf("nothing would be served at %s: %w", path, err)
	}
	// A preset's options are known to its site alone.
	if !asked.Info && !hasPreset(asked.OptionSegments) {
		if _, err := parseOptions(asked.OptionSegments); err != nil {
			return "", err
		}
	}
	return "/" + key.Sign(path) + path, nil
}

// checkEscaped refuses what no client requests as it stands: it would be escaped on its way, and then be another
// path than the one that was signed.
func checkEscaped(path string) error {
	for _, r := range path {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}#?", r) {
			return fmt.Errorf("%q in the path must be percent-encoded as it will be requested (or give the source as enc/ and base64url)", r)
		}
	}
	return nil
}

func hasPreset(segments string) bool {
	for segment := range strings.SplitSeq(segments, "/") {
		if strings.HasPrefix(segment, "p:") {
			return true
		}
	}
	return false
}

// parseOptions reads options as they are typed, with or without slashes around them.
func parseOptions(segments string) (urlapi.Options, error) {
	return urlapi.ParseOptions(strings.Trim(segments, "/"))
}

func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options <options>",
		Short: "Prints options in their canonical form, and what ffmpeg is told",
		Long: `
Prints the canonical form of options, which all URLs of one variant share, and
the arguments that ffmpeg is started with.`,
		Example: "  caddy audio-proxy options f:opus/t:0:30",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			explained, err := explain(strings.Join(args, ""))
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), explained)
			return nil
		},
	}
}

// example is the source that arguments are shown for where they depend on one: three minutes of a CD.
var example = ffmpeg.Facts{
	Container: "wav", Codec: "pcm_s16le", SampleRate: 44100, Channels: 2, BitDepth: 16, StoredBits: 16,
	Duration: 180, Frames: 180 * 44100, Exact: true,
}

func explain(segments string) (string, error) {
	options, err := parseOptions(segments)
	if err != nil {
		return "", err
	}
	facts := example
	if frames, known := facts.Clip(options.Trim); known {
		facts.ClipFrames = frames
	}
	plan, err := ffmpeg.NewPlan(options, facts)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintln(&text, options.Canonical())
	fmt.Fprint(&text, "ffmpeg")
	live := "file:" + ffmpeg.LiveName
	if options.Format == urlapi.Peaks {
		live = "pipe:1" // samples, which are drawn by ourselves
	}
	for _, arg := range plan.Args("file:in.wav", live, "file:"+ffmpeg.FinalName) {
		fmt.Fprint(&text, " ", quote(arg))
	}
	fmt.Fprintln(&text)
	if need := ffmpeg.Needs(options); need.Facts || need.Length {
		fmt.Fprintln(&text, "# These depend on the source, which is examined first. They are those of three minutes of 16-bit stereo at 44.1 kHz.")
	}
	return text.String(), nil
}

// quote writes an argument as a POSIX shell reads it.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+%@", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
