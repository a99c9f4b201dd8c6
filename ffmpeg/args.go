package ffmpeg

import (
	"fmt"
	"strings"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// A Plan is one render as ffmpeg is told it: a pure function of the options, and of the source's facts where
// Needs says that they matter. It has two parts. The shape (encoder, muxer and their settings) is shared by
// many requests; the job is one request's own. Plans are values; using one changes nothing.
type Plan struct {
	Format urlapi.Format
	Shape  Shape
	Job    Job

	// Protocols are the ffmpeg protocols that the source may be read through, comma-separated. NewPlan sets
	// "file", which is what an opened local source needs.
	Protocols string
}

// Shape is the encoder and the muxer. It depends on little: two requests often have equal shapes.
type Shape struct {
	Encoder []string // from -c:a on
	Muxer   []string // ends with -f and the muxer's name
	Tee     bool     // the muxer writes two files: one to follow, one to keep
}

// Job is what one request asks of its source.
type Job struct {
	Seek  []string // what stands before -i: nothing, or -ss and a position
	Graph string   // one filter graph, from [0:a:0] to [o]
}

// NewPlan plans the render of opts. Facts are used only as far as Needs(opts) asks for them, so that a key means
// the same bytes whether they happen to be known or not. Options are taken to be those that urlapi accepts. The error is
// an *Unsupported for a format that there is no encoder for.
func NewPlan(opts urlapi.Options, facts Facts) (Plan, error) {
	if !Needs(opts).Facts {
		facts = Facts{}
	}
	shape, err := newShape(opts, facts)
	if err != nil {
		return Plan{}, err
	}
	return Plan{Format: opts.Format, Shape: shape, Job: newJob(opts, facts), Protocols: "file"}, nil
}

// Args is the complete argument list without tags. Input is the source's URL for ffmpeg ("file:in.mp3").
// Live is where the bytes that can be followed go, final where the finished file goes: they are two files for
// m4a and one for everything else, which ignores final. Peaks are raw samples, for pipe:1.
//
// Live and final of an m4a pass through the tee muxer's own syntax, which has quoting rules of its own: give
// plain relative names ("file:live") and start ffmpeg in the folder they belong to.
func (p Plan) Args(input, live, final string) []string {
	return p.args(input, "", live, final)
}

// ArgsWithTags is Args for a render that carries the source's title and artist along (see Tags). The tags
// are not known when ffmpeg starts, and no probe is run for them: ffmpeg itself reports them when it opens the
// source, and then waits on a second input, tags ("pipe:4", an inherited descriptor), until somebody has
// written TagFile(report.Tags()) there and closed it. Report.InputDone says when that is due.
func (p Plan) ArgsWithTags(input, tags, live, final string) []string {
	return p.args(input, tags, live, final)
}

func (p Plan) args(input, tags, live, final string) []string {
	args := []string{
		"-hide_banner", "-nostdin", "-nostats", "-y",
		// The level in front of each line is what tells ffmpeg's own lines from a tag's (see Report).
		"-loglevel", "level+info",
		"-filter_complex_threads", "1",
	}
	args = append(args, p.input(input)...)
	metadata := "-1"
	if tags != "" {
		args = append(args, tagInputs(tags)...)
		metadata = "2"
	}
	args = append(args,
		"-filter_complex", p.Job.Graph, "-map", "[o]",
		"-map_metadata", metadata, "-map_chapters", "-1")
	args = append(args, p.Shape.Encoder...)
	args = append(args, p.Shape.Muxer...)
	if p.Shape.Tee {
		return append(args, teeOutputs(live, final))
	}
	return append(args, live)
}

// input opens the source: what may be opened for it, and as what.
func (p Plan) input(input string) []string {
	args := inputOptions(FFmpeg, p.Protocols)
	args = append(args, p.Job.Seek...)
	return append(args, "-i", input)
}

// tagInputs are inputs 1 and 2. Input 1 is empty and only marks in ffmpeg's report where that on the source
// ends; input 2 is the file of tags that ffmpeg then waits for.
func tagInputs(tags string) []string {
	protocol, _, _ := strings.Cut(tags, ":")
	return []string{
		"-protocol_whitelist", "data", "-f", "ffmetadata", "-i", "data:,;FFMETADATA1",
		"-protocol_whitelist", protocol, "-f", "ffmetadata", "-i", tags,
	}
}

// fragmentMicros is the length of an m4a's live fragments. There are no key frames in audio to cut at, so
// without it the muxer would keep everything until the end.
const fragmentMicros = 500_000

// teeOutputs is the tee muxer's list of files: fragments for those who follow, and a plain MP4 with the index
// in front for the store.
func teeOutputs(live, final string) string {
	return fmt.Sprintf("[f=mp4:fflags=+bitexact:movflags=empty_moov+default_base_moof:frag_duration=%d:flush_packets=1]%s"+
		"|[f=mp4:fflags=+bitexact:movflags=+faststart]%s", fragmentMicros, live, final)
}
