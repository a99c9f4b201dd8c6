package ffmpeg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// preload compiles C to a library that is loaded into the programs first, and gives the programs so.
func preload(t *testing.T, text string, environment string) Tools {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-pthread").CombinedOutput(); err != nil {
		t.Fatalf("a C compiler is needed for this test: %v\n%s", err, out)
	}
	with := "export " + environment + " LD_PRELOAD=" + library
	return Tools{FFmpeg: script(t, with, `exec "$ffmpeg" "$@"`), FFprobe: script(t, with, `exec "$ffprobe" "$@"`)}
}

// failingReads has reads of the source fail from a place on, as those of a bad sector do; the place is in EIO_AFTER.
const failingReads = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static ssize_t (*real)(int, void *, size_t);
ssize_t read(int fd, void *b, size_t n) {
	struct stat s3, s;
	if (!real) real = dlsym(RTLD_NEXT, "read");
	if (fstat(3, &s3) == 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_ino == s3.st_ino && s.st_dev == s3.st_dev) {
		off_t at = lseek(fd, 0, SEEK_CUR), end = atoll(getenv("EIO_AFTER"));
		if (at >= end) { errno = EIO; return -1; }
		if (at + (off_t)n > end) n = end - at;
	}
	return real(fd, b, n);
}`

// Most demuxers take an I/O error for the end of the file. Half a song is not a song: not as a variant, not as a
// length, not as a waveform, and it is no property of the source (field cases N02, R2).
func TestN02AnIOErrorIsNotTheEnd(t *testing.T) {
	t.Parallel()
	noise := "anoisesrc=r=44100:d=20:seed=1:c=pink"
	for _, c := range []struct {
		name string
		args []string
	}{
		{"a.wav", nil}, {"a.flac", nil}, {"a.mp3", nil}, {"a.ogg", []string{"-c:a", "libvorbis"}}, {"a.opus", []string{"-c:a", "libopus"}},
		{"end.m4a", []string{"-c:a", "aac"}}, {"front.m4a", []string{"-c:a", "aac", "-movflags", "+faststart"}}, {"a.webm", []string{"-c:a", "libopus"}},
		{"a.mka", []string{"-c:a", "flac"}}, {"a.aiff", nil}, {"a.aac", nil}, {"a.wv", nil}, {"a.ts", []string{"-c:a", "mp2"}}, {"a.wma", nil}, {"a.flv", []string{"-c:a", "aac"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := makeAudio(t, c.name, noise, c.args...)
			size, err := fileSize(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, percent := range []int64{0, 3, 50, 97} {
				at := size * percent / 100
				tools := preload(t, failingReads, fmt.Sprint("EIO_AFTER=", at))
				what := fmt.Sprint(percent, " % ")
				_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
				wantUnavailable(t, what+"render", err)
				_, err = renderFile(t, tools, path, urlapi.Options{Format: urlapi.WAV, Trim: &urlapi.Trim{Start: 11_000}}, Limits{})
				wantUnavailable(t, what+"late render", err)

				run, source, err := tools.On(openInput(t, path), t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				_, err = CountFrames(t.Context(), run, source, nil)
				wantUnavailable(t, what+"count", err)
				_, err = Peaks(t.Context(), run, source, urlapi.Options{Format: urlapi.Peaks, Points: 10, Channels: 1}, Facts{SampleRate: 44100, Channels: 1})
				wantUnavailable(t, what+"peaks", err)
			}
		})
	}
}

// wantUnavailable allows for a source that is read by us, where the programs' trouble does not reach.
func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	wantClass(t, what, err, Unavailable)
}

// Trouble with opening the source is the machine's, and passes (field case N04).
func TestN04TroubleOfTheMachineIsUnavailable(t *testing.T) {
	t.Parallel()
	path := makeAudio(t, "a.flac", "sine=d=1")
	for name, want := range map[string]Class{
		"EIO": Unavailable, "ESTALE": Unavailable, "EACCES": Unavailable, "ENFILE": Unavailable, "ENXIO": Unavailable, "ETIMEDOUT": Unavailable,
		"ENOTCONN": Unavailable, "EMFILE": Exhausted, "EAGAIN": Exhausted,
	} {
		t.Run(name, func(t *testing.T) {
			tools := preload(t, `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
static int deny(const char *path) { return strncmp(path, "in.", 3) == 0; }
#define OPEN(name) int name(const char *path, int flags, ...) { \
	va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list); \
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
	if (deny(path)) { errno = `+name+`; return -1; } \
	return real(path, flags, mode); }
OPEN(open)
OPEN(open64)`, "X=")
			_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
			wantClass(t, "render", err, want)
			_, err = probeFile(t, tools, path)
			wantClass(t, "probe", err, want)
			run, source, err := tools.On(openInput(t, path), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			_, err = CountFrames(t.Context(), run, source, nil)
			wantClass(t, "count", err, want)
		})
	}
}

// Decoders that want threads and get none say nothing of the source (field case N10).
func TestN10NoThreadsIsExhaustion(t *testing.T) {
	t.Parallel()
	tools := preload(t, `
#include <errno.h>
#include <pthread.h>
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) { return EAGAIN; }`, "X=")
	for _, name := range []string{"a.flac", "a.wv", "a.mp3"} {
		_, err := renderFile(t, tools, makeAudio(t, name, "sine=d=1"), urlapi.Options{Format: urlapi.MP3}, Limits{})
		wantClass(t, name, err, Exhausted)
	}
}

// An error of our own read is seen, too.
func TestSourcesThatWeReadOurselves(t *testing.T) {
	failure := errors.New("bad sector")
	err := fill(writerFunc(func([]byte) {}), readerFunc(func(p []byte) (int, error) { return 0, failure }))
	wantClass(t, "fill", err, Unavailable)
	if !errors.Is(err, failure) {
		t.Errorf("%v lost its cause", err)
	}
	directory, err := os.Open(t.TempDir()) // which opens, and cannot be read
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	if readable(io.NewSectionReader(directory, 0, 10)) == nil {
		t.Error("a file whose reads fail counts as readable")
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The first bytes of a container are where an error is least often told: what could not be read looks like no audio.
func TestN02AnIOErrorInTheHeaderIsNoProperty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   []int64 // bytes; from the end where negative
		args []string
	}{
		{"front.m4a", []int64{20, 200}, []string{"-c:a", "aac", "-movflags", "+faststart"}},
		{"fragments.m4a", []int64{20, 200}, []string{"-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"}},
		{"end.m4b", []int64{20, -300}, []string{"-c:a", "aac", "-f", "ipod"}},
		{"end.3gp", []int64{-300}, []string{"-c:a", "aac"}},
		{"a.nut", []int64{200, 1500}, []string{"-c:a", "mp2"}},
		{"a.flv", []int64{200}, []string{"-c:a", "aac"}},
		{"a.tta", []int64{20}, nil},
		{"a.caf", []int64{20, -60}, []string{"-c:a", "alac"}},
		{"a.flac", []int64{100}, nil},
		{"a.mp3", []int64{20, 2000}, nil},
		{"a.wav", []int64{20}, nil},
		{"a.opus", []int64{30, 100}, []string{"-c:a", "libopus"}},
	} {
		path := makeAudio(t, c.name, "anoisesrc=r=44100:d=5:seed=1:c=pink", c.args...)
		size, err := fileSize(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range c.at {
			if at < 0 {
				at += size
			}
			tools := preload(t, failingReads, fmt.Sprint("EIO_AFTER=", at))
			_, err := renderFile(t, tools, path, urlapi.Options{Format: urlapi.MP3}, Limits{})
			wantUnavailable(t, fmt.Sprintf("%s at %d: render", c.name, at), err)
			_, err = probeFile(t, tools, path)
			if err != nil { // what it says where it got that far is right
				wantUnavailable(t, fmt.Sprintf("%s at %d: probe", c.name, at), err)
			}
		}
	}
}
