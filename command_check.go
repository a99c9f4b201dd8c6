package audioproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// checking is what the check of a folder of masters needs to be told.
type checking struct {
	offline
	options    string
	extensions []string
	slots      int
	maxSize    string
	json       bool

	variant  urlapi.Options
	stdout   io.Writer
	summary  io.Writer
	progress io.Writer
}

func checkCommand() *cobra.Command {
	c := checking{offline: offline{probeTimeout: defaultProbeTimeout}}
	cmd := &cobra.Command{
		Use:   "check [--json] [--options <options>] [--ext wav,flac] <file or folder>",
		Short: "Says which masters cannot be served, and why",
		Long: `
Renders a variant of every file in a folder, as a request would have it
rendered, throws it away, and prints which files cannot be served and why: one
line each, with the status and the code that a request would be answered with.
With --json every file gets a line, those that can be served too.

The files are rendered at the class low, niced, as many at a time as there are
CPUs. The exit status is 0 when all of them can be served, and 1 otherwise.`,
		Example: "  caddy audio-proxy check /srv/masters\n  caddy audio-proxy check --ext wav,flac --options f:opus/t:0:30 /srv/masters",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true
			c.stdout, c.summary, c.progress = cmd.OutOrStdout(), cmd.ErrOrStderr(), io.Discard
			if terminal, err := os.Stderr.Stat(); err == nil && terminal.Mode()&os.ModeCharDevice != 0 {
				c.progress = os.Stderr
			}
			return c.check(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.options, "options", "f:mp3", "The variant to try")
	flags.StringSliceVar(&c.extensions, "ext", nil, "Check only files with these extensions (default: all files)")
	flags.IntVar(&c.slots, "slots", runtime.GOMAXPROCS(0), "How many files are rendered at once")
	flags.StringVar(&c.maxSize, "max-source-size", "2GB", "As the global option max_source_size")
	flags.DurationVar(&c.timeout, "render-timeout", defaultRenderTimeout, "As the global option render_timeout")
	flags.BoolVar(&c.json, "json", false, "Print a line of JSON for every file")
	c.toolFlags(flags)
	return cmd
}

// checked is the verdict on one file, as --json prints it.
type checked struct {
	Path    string `json:"path"`
	Status  int    `json:"status"` // that a request for the variant would be answered with
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	// Broken says that the answer would be broken off after its first byte, since the render fails only then.
	Broken bool `json:"broken_off,omitempty"`
}

func (c *checked) isWell() bool { return c.Status == http.StatusOK && !c.Broken }

func (c *checked) String() string {
	if c.Broken {
		return fmt.Sprintf("%s: %d, broken off: %s", c.Path, c.Status, c.Message)
	}
	return fmt.Sprintf("%s: %d %s: %s", c.Path, c.Status, c.Code, c.Message)
}

// check checks a file, or all files below a folder.
func (c *checking) check(ctx context.Context, path string) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	size, err := humanize.ParseBytes(c.maxSize)
	if err != nil {
		return fmt.Errorf("--max-source-size: %w", err)
	}
	c.limit = int64(size)
	if c.variant, err = parseOptions(c.options); err != nil {
		return fmt.Errorf("--options: %w", err)
	}
	if c.slots < 1 {
		return fmt.Errorf("--slots must be 1 or more, not %d", c.slots)
	}
	root, files, err := c.list(path)
	if err != nil {
		return err
	}
	if err := c.open(root, c.slots); err != nil {
		return err
	}
	defer c.close()
	bad, err := c.run(ctx, files)
	switch {
	case err != nil:
		return err
	case bad > 0:
		return fmt.Errorf("%s of %s files cannot be served", humanize.Comma(int64(bad)), humanize.Comma(int64(len(files))))
	}
	if !c.json {
		fmt.Fprintf(c.summary, "All can be served: %s files.\n", humanize.Comma(int64(len(files))))
	}
	return nil
}

// list finds the folder to serve and the files in it, by their slash-separated paths.
func (c *checking) list(path string) (root string, files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		return filepath.Dir(path), []string{filepath.Base(path)}, nil
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".")
		if len(c.extensions) > 0 && !slices.Contains(c.extensions, extension) {
			return nil
		}
		below, err := filepath.Rel(path, file)
		files = append(files, filepath.ToSlash(below))
		return err
	})
	return path, files, err
}

// run checks the files, as many at a time as there are slots, prints the verdicts in the order of the files, and
// returns how many are bad.
func (c *checking) run(ctx context.Context, files []string) (bad int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan int)
	verdicts := make([]chan checked, len(files))
	for i := range verdicts {
		verdicts[i] = make(chan checked, 1)
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range c.slots {
		workers.Go(guard.Func(func() {
			for i := range next {
				verdicts[i] <- c.verdict(ctx, files[i])
			}
		}))
	}
	workers.Go(guard.Func(func() {
		defer close(next)
		for i := range files {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}))
	bar := bar{to: c.progress, total: len(files), began: time.Now()}
	defer bar.clear()
	for i := range files {
		select {
		case v := <-verdicts[i]:
			if ctx.Err() != nil {
				return bad, errors.New("interrupted")
			}
			if !v.isWell() {
				bad++
			}
			if err := c.print(&bar, v); err != nil {
				return bad, err
			}
			bar.show(i+1, bad)
		case <-ctx.Done():
			return bad, errors.New("interrupted")
		}
	}
	return bad, nil
}

func (c *checking) print(bar *bar, v checked) error {
	if c.json {
		bar.clear()
		return json.NewEncoder(c.stdout).Encode(v)
	}
	if v.isWell() {
		return nil
	}
	bar.clear()
	_, err := fmt.Fprintln(c.stdout, v.String())
	return err
}

// verdict is what a request for one file would get.
func (c *checking) verdict(ctx context.Context, path string) checked {
	verdict := checked{Path: path, Status: http.StatusOK}
	var sent bool
	err := guard.Do(func() (err error) {
		sent, err = c.try(ctx, path)
		return err
	})
	switch {
	case err == nil:
	case sent:
		verdict.Broken, verdict.Message = true, refusalOf(err).message()
	default:
		r := refusalOf(err)
		verdict.Status, verdict.Code, verdict.Message = r.status, r.code, r.message()
		if r.status == http.StatusNotFound && r.err != nil { // clients must not be told; whoever checks must
			verdict.Message += " (" + r.err.Error() + ")"
		}
	}
	return verdict
}

// try renders one file. sent says whether a client would have had its first byte.
func (c *checking) try(ctx context.Context, path string) (sent bool, err error) {
	src, err := urlapi.ParseCanonical(urlapi.SchemeLocal + "://" + path)
	if err != nil {
		return false, err
	}
	listener, err := c.start(ctx, c.variant, src, admission.Low)
	if err != nil {
		return false, err
	}
	defer listener.Close()
	if err := listener.Ready(ctx); err != nil {
		return false, err
	}
	return true, listener.Complete(ctx)
}

// bar shows on a terminal how far something has come.
type bar struct {
	to    io.Writer
	total int
	began time.Time
}

// barWidth is how many characters the bar itself has.
const barWidth = 30

func (b *bar) show(done, bad int) {
	filled := barWidth * done / b.total
	left := time.Duration(float64(time.Since(b.began)) / float64(done) * float64(b.total-done)).Round(time.Second)
	fmt.Fprintf(b.to, "\r\x1b[K[%s%s] %s of %s, %s bad, %s left", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled),
		humanize.Comma(int64(done)), humanize.Comma(int64(b.total)), humanize.Comma(int64(bad)), left)
}

func (b *bar) clear() { fmt.Fprint(b.to, "\r\x1b[K") }
