package ffmpeg

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// prove says whether a render that ended well is complete. Exit status 0 proves nothing: ffmpeg ends so with half a
// song when its input broke off, with one of two files when the tee muxer lost the other, and with an empty container
// when there was nothing to decode. Complete is a render whose ffmpeg exited with 0 without having been asked to stop
// (Process.Run sees to both), did not complain of its input or an output, reported a source that may be rendered, and
// left whole files. ask has ffprobe look at the source; nil where it has.
func prove(ctx context.Context, plan Plan, w *watch, out Output, ask func(context.Context) error) error {
	if class := brokenOff(w.words()); class != "" {
		return &Error{Class: class, Tail: Tail(w.tail.bytes())}
	}
	verdict := w.report.Verdict()
	if verdict != Unreadable {
		if err := acceptable(verdict); err != nil {
			return err
		}
		return proveFiles(plan, w, out)
	}
	if ask != nil {
		if err := ask(ctx); err != nil {
			return err
		}
	}
	if w.report.seen {
		return proveFiles(plan, w, out)
	}
	// All we can say of a file whose maker we don't understand is that there is one.
	size, err := fileSize(filepath.Join(out.Dir(), LiveName))
	if err != nil || size == 0 {
		return w.classify(err)
	}
	return nil
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func proveFiles(plan Plan, w *watch, out Output) error {
	names := []string{LiveName}
	if plan.Shape.Tee {
		names = append(names, FinalName)
	}
	for _, name := range names {
		if err := proveFile(plan.Format, w, filepath.Join(out.Dir(), name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func proveFile(format urlapi.Format, w *watch, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return w.classify(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w.classify(err)
	}
	if held, err := HoldsAudio(format, f, info.Size()); err != nil || !held {
		return w.classify(err)
	}
	if err := wholeFile(format, f, info.Size()); err != nil {
		return &Error{Class: Failed, Err: err, Tail: Tail(w.tail.bytes())}
	}
	return nil
}

// wholeFile says what a finished file lacks, as far as its format tells: sizes and counts that ffmpeg fills in when it
// closes the file, and in MP4 the index and every sample. MP3 and ADTS are frames, and nothing says how many.
func wholeFile(format urlapi.Format, file io.ReaderAt, size int64) error {
	r := headerReader{file: file, size: size}
	var lacks string
	switch format {
	case urlapi.M4A:
		lacks = r.lacksOfMP4()
	case urlapi.WAV:
		lacks = r.lacksOfWAV()
	case urlapi.FLAC:
		lacks = r.lacksOfFLAC()
	case urlapi.Opus, urlapi.Ogg:
		lacks = r.lacksOfOgg()
	}
	switch {
	case r.err != nil:
		return r.err
	case lacks != "":
		return fmt.Errorf("the %s is not whole: %s", format, lacks)
	}
	return nil
}

// lacksOfWAV: the size of the RIFF chunk is that of the file; beyond 4 GiB it cannot be.
func (r *headerReader) lacksOfWAV() string {
	header := r.at(0, 12)
	switch {
	case header == nil:
		return "no header"
	case r.size < 1<<32 && int64(binary.LittleEndian.Uint32(header[4:]))+8 != r.size:
		return "its header has another size"
	}
	return ""
}

// lacksOfFLAC: the number of samples is filled in at the end.
func (r *headerReader) lacksOfFLAC() string {
	info := r.at(8, 34)
	if info == nil || binary.BigEndian.Uint64(info[10:])&(1<<36-1) == 0 {
		return "no number of samples"
	}
	return ""
}

// lacksOfOgg: the last page says that it is the last, and ends where the file does.
func (r *headerReader) lacksOfOgg() string {
	const pageMax = 27 + 255 + 255*255
	from := max(0, r.size-pageMax)
	end := r.at(from, int(r.size-from))
	for at := len(end); ; {
		if at = bytes.LastIndex(end[:at], []byte("OggS")); at < 0 {
			return "no last page"
		}
		page := end[at:]
		if len(page) < 27 || len(page) < 27+int(page[26]) {
			continue
		}
		length := 27 + int(page[26])
		for _, segment := range page[27:length] {
			length += int(segment)
		}
		if length == len(page) {
			const lastPage = 4 // RFC 3533, section 6
			if page[5]&lastPage == 0 {
				return "its last page is not marked so"
			}
			return ""
		}
	}
}
