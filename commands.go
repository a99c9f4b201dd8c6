package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "audio-proxy",
		Short: "Signs URLs of audio variants, explains their options, renders one without a server",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(signCommand(), optionsCommand(), renderCommand())
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

// rendering is what one render without a server needs to be told.
type rendering struct {
	root, options, source string
	tools                 ffmpeg.Tools
}

func renderCommand() *cobra.Command {
	var what rendering
	var output string
	cmd := &cobra.Command{
		Use:   "render --root <folder> [-o <file>] <options> <source>",
		Short: "Renders one variant without a server",
		Long: `
Renders one variant as the server would, and writes it to a file, or to the
standard output. The source is a path below the root, as in a URL but not
encoded: local://album/song.wav, or album/song.wav.`,
		Example: "  caddy audio-proxy render --root /srv/masters -o preview.opus f:opus/t:0:30/fade:0:2 song.wav",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			what.options, what.source = args[0], args[1]
			cmd.SilenceUsage = true
			return what.to(cmd.Context(), output, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&what.root, "root", "", "The folder that the source lies in")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Where the variant goes (default: standard output)")
	cmd.Flags().StringVar(&what.tools.FFmpeg, "ffmpeg", "ffmpeg", "The ffmpeg to run")
	cmd.Flags().StringVar(&what.tools.FFprobe, "ffprobe", "ffprobe", "The ffprobe to run")
	return cmd
}

// to renders into a file, which is there whole or not at all, or to a writer when no file is named.
func (what rendering) to(ctx context.Context, output string, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	variant, err := what.render(ctx)
	if err != nil {
		return err
	}
	defer variant.Close()
	if output == "" {
		_, err := io.Copy(stdout, variant.Content)
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(output), ".audio-proxy-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // not there any more when all went well
	if _, err := io.Copy(file, variant.Content); err != nil {
		file.Close()
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), output)
}

// longestRender is how long a render may take that nobody else waits for.
const longestRender = 24 * time.Hour

// render takes the server's way, with a budget of one slot and no store.
func (what rendering) render(ctx context.Context) (*store.Variant, error) {
	options, src, err := what.parse()
	if err != nil {
		return nil, err
	}
	for _, tool := range []*string{&what.tools.FFmpeg, &what.tools.FFprobe} {
		if *tool, err = exec.LookPath(*tool); err != nil {
			return nil, fmt.Errorf("%w (install ffmpeg, or name it with --ffmpeg and --ffprobe)", err)
		}
	}
	root, err := source.OpenLocal(what.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := root.Open(ctx, src.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src, err)
	}
	flights := coalesce.NewGroup(admission.New(admission.Limits{Slots: 1}))
	j := &job{
		tools: what.tools, options: options, source: src, input: in, release: func() {},
		prober: prober{memory: newMemory(), tools: what.tools, timeout: longestRender, source: src, input: in, scratch: store.TempStage},
	}
	id := store.ID{Scope: strings.Repeat("0", 16), Key: urlapi.CacheKey(options.Canonical(), src.String())}
	listener, _ := flights.JoinOrStart(id, admission.Interactive, j, coalesce.Terms{Timeout: longestRender})
	end := func() { listener.Close(); flights.Close() }
	if err := listener.Complete(ctx); err != nil {
		end()
		return nil, explainFailure(err)
	}
	final, size := listener.Final()
	return store.NewVariant(store.Info{ID: id, Size: size}, io.NewSectionReader(final, 0, size), end), nil
}

func (what rendering) parse() (urlapi.Options, urlapi.Source, error) {
	options, err := parseOptions(what.options)
	if err != nil {
		return options, urlapi.Source{}, err
	}
	if what.root == "" {
		return options, urlapi.Source{}, errors.New("which folder is the source in? Give --root <folder>")
	}
	name := what.source
	if !strings.Contains(name, "://") {
		name = urlapi.SchemeLocal + "://" + name
	}
	src, err := urlapi.ParseCanonical(name)
	if err == nil && src.Scheme != urlapi.SchemeLocal {
		err = fmt.Errorf("only local sources can be rendered without a server, not %s://", src.Scheme)
	}
	return options, src, err
}

// explainFailure puts what a client would be told before what the log would have.
func explainFailure(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return fmt.Errorf("%s\n%w", refusalOf(err).message(), err)
}
