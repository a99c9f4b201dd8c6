package ffmpeg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// judge finds out whose fault a doubtful failure is, by evidence: the first second of the source is decoded, by
// itself. If that fails too, the source is Undecodable; if it doesn't, we Failed, or the source was Unavailable where
// ffmpeg had not even been able to open it. A failure that is not doubtful is returned as it is.
//
// That a source has nothing to decode is believed only if a copy of it, as we can read it, has neither: most demuxers
// take an error of reading their first bytes for a file that is no audio, and don't say that there was one.
//
// It runs programs, in the place of the one that failed.
func judge(ctx context.Context, run Run, source Source, failure *Error) *Error {
	found := weigh(ctx, run, source, failure)
	switch {
	case found.Class == NoSound && found.Err == nil: // it was read to its end, and the trim may have left nothing
		return found
	case failure.Class == Undecodable && !failure.doubtful: // it asks for more than a source may have
		return found
	}
	return confirm(ctx, source, found)
}

// confirm believes that a source has nothing to decode only if a copy of it has neither.
func confirm(ctx context.Context, source Source, found *Error) *Error {
	if source.copyDecodes == nil || found.Class != Undecodable && found.Class != NoSound {
		return found
	}
	decodes, err := source.copyDecodes(ctx)
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return Classify(cause, nil, Pending)
	case err != nil:
		return sourceError(err)
	case decodes:
		return &Error{Class: Unavailable, Tail: found.Tail, Err: found.Err}
	}
	return found
}

// weigh is judge without the copy.
func weigh(ctx context.Context, run Run, source Source, failure *Error) *Error {
	if !failure.doubtful {
		return failure
	}
	as := func(class Class) *Error { return &Error{Class: class, Tail: failure.Tail, Err: failure.Err} }
	if source.file != nil {
		if err := readable(source.file); err != nil {
			return sourceError(err)
		}
		if containsAny(failure.Tail, []string{"moov atom not found"}) && hasIndex(source.file) ||
			containsAny(failure.Tail, []string{"Missing packet table"}) && hasPacketTable(source.file) {
			return as(Unavailable) // ffmpeg came to the file's end before it came to what we see there
		}
		if source.relay != nil && isStream(source.file) {
			run, source = source.relay, Source{URL: relayURL, Protocols: relayProtocols}
		}
	}
	var frames counter
	stderr, err := run(ctx, FFmpeg, evidenceArgs(source), &frames)
	if cause := context.Cause(ctx); cause != nil {
		return Classify(cause, nil, Pending)
	}
	found := brokenOff(stderr)
	if err != nil {
		found, _ = classOf(err, stderr, Unreadable)
	}
	reported := bytes.Contains(stderr, []byte("[info] Input #0,"))
	switch {
	case found != "" && found != Failed && found != Undecodable && found != NoSound:
		return as(found) // trouble of the machine's that the evidence met, whatever the failure was
	case err == nil && frames > 0 && failure.Class == Undecodable:
		return as(Unavailable)
	case err == nil && frames > 0:
		return as(Failed)
	case err == nil || found != Failed || reported && !killed(err):
		return as(Undecodable)
	}
	return as(Failed) // whatever is run as ffmpeg says nothing of the source
}

// evidenceArgs decodes one second, to a byte per frame and channel.
func evidenceArgs(source Source) []string {
	args := []string{"-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info"}
	args = append(args, inputOptions(FFmpeg, source.Protocols)...)
	return append(args, "-i", source.URL, "-map", "0:a:0", "-t", "1", "-c:a", "pcm_u8", "-f", "u8", "pipe:1")
}

// sourceError is a source that the system would not let us read.
func sourceError(err error) *Error {
	return &Error{Class: Unavailable, Err: fmt.Errorf("reading the source: %w", err)}
}

// Where programs look to tell what a source is, and how long, in bytes from its ends: ffmpeg's probesize, and the
// last pages of Ogg and MPEG-TS.
const (
	probedHead = 5 << 20
	probedTail = 3 << 20
)

// readable reads those parts of the file. Most demuxers take an I/O error for the end of the file, and don't
// say that there was one.
func readable(file *io.SectionReader) error {
	head := min(file.Size(), probedHead)
	tail := max(head, file.Size()-probedTail)
	for _, part := range [][2]int64{{0, head}, {tail, file.Size() - tail}} {
		if _, err := io.Copy(io.Discard, io.NewSectionReader(file, part[0], part[1])); err != nil {
			return err
		}
	}
	return nil
}

// guessers are the containers of which ffprobe makes up length and bit rate from what it reads here and there,
// without a word where that cannot be read.
var guessers = []string{"aac", "mpegts", "ogg"}

// probedWhole says whether all that the facts are made of could be read.
func (s Source) probedWhole(f Facts) error {
	if s.file == nil || !slices.Contains(guessers, f.Container) && !f.dubious() {
		return nil
	}
	if err := readable(s.file); err != nil {
		return sourceError(err)
	}
	return nil
}

// hasIndex says whether an MP4 has its index, complete. ffmpeg that doesn't find it could not read up to there.
func hasIndex(file io.ReaderAt) bool {
	var header [16]byte
	for offset := int64(0); ; {
		if _, err := file.ReadAt(header[:8], offset); err != nil {
			return false
		}
		size := int64(binary.BigEndian.Uint32(header[:]))
		if size == 1 {
			if _, err := file.ReadAt(header[8:], offset+8); err != nil {
				return false
			}
			size = int64(binary.BigEndian.Uint64(header[8:]))
		}
		if size < 8 || offset > 1<<50 {
			return false
		}
		if string(header[4:8]) == "moov" {
			var last [1]byte
			n, _ := file.ReadAt(last[:], offset+size-1)
			return n == 1
		}
		offset += size
	}
}

// hasPacketTable says the same of a CAF, whose chunks have a name and a size of eight bytes (Apple's Core Audio Format
// Specification 1.0).
func hasPacketTable(file *io.SectionReader) bool {
	const fileHeader, chunkHeader = 8, 12
	var header [chunkHeader]byte
	for offset := int64(fileHeader); ; {
		if _, err := file.ReadAt(header[:], offset); err != nil {
			return false
		}
		size := int64(binary.BigEndian.Uint64(header[4:]))
		offset += chunkHeader
		if size < 0 || size > file.Size()-offset {
			return false // the last one may say that it ends where the file does
		}
		if string(header[:4]) == "pakt" {
			return true
		}
		offset += size
	}
}

// isStream says whether the source is of a kind that can be read forwards, from a pipe: Ogg, and what has no
// index that everything depends on.
func isStream(file io.ReaderAt) bool {
	var magic [16]byte
	if n, err := file.ReadAt(magic[:], 0); n < len(magic) && !errors.Is(err, io.EOF) {
		return false
	}
	return bytes.HasPrefix(magic[:], []byte("OggS")) || bytes.HasPrefix(magic[:], asfGUID)
}

var asfGUID = []byte{0x30, 0x26, 0xB2, 0x75, 0x8E, 0x66, 0xCF, 0x11, 0xA6, 0xD9, 0x00, 0xAA, 0x00, 0x62, 0xCE, 0x6C}

// A GSM 06.10 frame has 33 bytes and begins with this in its high nibble (RFC 3551, 4.5.8).
const (
	gsmFrame = 33
	gsmMark  = 0xD
)

// isGSM says whether a file is bare GSM: whole frames, with their mark. The first ones are looked at; in a file that
// isn't GSM one of sixteen is right by chance.
func isGSM(file *io.SectionReader) bool {
	if file.Size() == 0 || file.Size()%gsmFrame != 0 {
		return false
	}
	frames := make([]byte, min(file.Size(), 100*gsmFrame))
	if _, err := file.ReadAt(frames, 0); err != nil && !errors.Is(err, io.EOF) {
		return true // it is for the program to say that it can't be read
	}
	for i := 0; i < len(frames); i += gsmFrame {
		if frames[i]>>4 != gsmMark {
			return false
		}
	}
	return true
}
