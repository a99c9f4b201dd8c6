package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// rendering is what one render without a server needs to be told.
type rendering struct {
	offline
	folder, options, source string
}

func renderCommand() *cobra.Command {
	what := rendering{offline: offline{timeout: longestRender, probeTimeout: longestRender}}
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
	cmd.Flags().StringVar(&what.folder, "root", "", "The folder that the source lies in")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Where the variant goes (default: standard output)")
	what.toolFlags(cmd.Flags())
	return cmd
}

// interruptible is a context that ends when the process is asked to.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// to renders into a file, which is there whole or not at all, or to a writer when no file is named.
func (what rendering) to(ctx context.Context, output string, stdout io.Writer) error {
	ctx, stop := interruptible(ctx)
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
	output, err = resolved(output)
	if err != nil {
		return err
	}
	if info, err := os.Stat(output); err == nil && !info.Mode().IsRegular() { // a pipe or a device stays what it is
		return writeThrough(output, variant.Content)
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

// resolved is where a name leads: a link is written through, not replaced.
func resolved(name string) (string, error) {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return name, nil // it is made
	}
	return filepath.EvalSymlinks(name)
}

func writeThrough(name string, content io.Reader) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// longestRender is how long a render may take that nobody else waits for.
const longestRender = 24 * time.Hour

// render takes the server's way, with a budget of one slot and no store.
func (what rendering) render(ctx context.Context) (*store.Variant, error) {
	options, err := parseOptions(what.options)
	if err != nil {
		return nil, err
	}
	if what.folder == "" {
		return nil, errors.New("which folder is the source in? Give --root <folder>")
	}
	src, err := localSource(what.source)
	if err != nil {
		return nil, err
	}
	if err := what.open(what.folder, 1); err != nil {
		return nil, err
	}
	listener, err := what.start(ctx, options, src, admission.Interactive)
	if err != nil {
		what.close()
		return nil, fmt.Errorf("%s: %w", src, err)
	}
	end := func() { listener.Close(); what.close() }
	if err := listener.Complete(ctx); err != nil {
		end()
		return nil, explainFailure(err)
	}
	final, size := listener.Final()
	return store.NewVariant(store.Info{ID: offlineID(options, src), Size: size}, io.NewSectionReader(final, 0, size), end), nil
}

// explainFailure puts what a client would be told before what the log would have.
func explainFailure(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return fmt.Errorf("%s\n%w", refusalOf(err).message(), err)
}
