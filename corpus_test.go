package audioproxy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// The corpus: files that have broken software like this one, each with the answer that it must get. See
// testdata/corpus.README.md.

// unpackCorpus unpacks the corpus into a folder of the test's own, and returns the folder that is to be served.
// Beside it lies what must never be.
func unpackCorpus(t *testing.T) (root string) {
	t.Helper()
	dir := t.TempDir()
	archive, err := os.Open("testdata/corpus.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := unpack(dir, header, files); err != nil {
			t.Fatal(err)
		}
	}
	root = filepath.Join(dir, "corpus", "root")
	if err := completeCorpus(root); err != nil {
		t.Fatal(err)
	}
	return root
}

func unpack(dir string, header *tar.Header, content io.Reader) error {
	path := filepath.Join(dir, filepath.FromSlash(header.Name))
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o700)
	case tar.TypeLink: // a file with the content of another; a copy, since each gets its own mode
		original, err := os.Open(filepath.Join(dir, filepath.FromSlash(header.Linkname)))
		if err != nil {
			return err
		}
		defer original.Close()
		content = original
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// completeCorpus makes what an archive carries badly.
func completeCorpus(root string) error {
	secret := filepath.Join(filepath.Dir(root), "outside", "secret.wav")
	var errs []error
	for _, dir := range []string{"fs/directory.wav", "names/dir.mp3", "../root-sibling"} {
		errs = append(errs, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	for name, target := range map[string]string{
		"link-inside.wav":          "target.wav",
		"link-inside-absolute.wav": filepath.Join(root, "fs", "target.wav"),
		"link-inside-dotdot.wav":   "../wav/plain-speech-44k1-mono.wav",
		"link-escape-relative.wav": "../../outside/secret.wav",
		"link-escape-absolute.wav": secret,
		"loop-a.wav":               "loop-b.wav",
		"loop-b.wav":               "loop-a.wav",
		"dangling.wav":             "nowhere.wav",
	} {
		errs = append(errs, os.Symlink(target, filepath.Join(root, "fs", name)))
	}
	errs = append(errs,
		os.Link(secret, filepath.Join(root, "../root-sibling", "secret.wav")),
		syscall.Mkfifo(filepath.Join(root, "fs", "fifo.wav"), 0o600),
		os.Chmod(filepath.Join(root, "fs", "no-read-permission.wav"), 0),
		copyStart(filepath.Join(root, "hostile", "elf-named.wav"), os.Args[0], 20_000),
	)
	return errors.Join(errs...)
}

// copyStart makes a file of the first n bytes of another.
func copyStart(to, from string, n int64) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	start, err := io.ReadAll(io.LimitReader(file, n))
	if err != nil {
		return err
	}
	return os.WriteFile(to, start, 0o600)
}

// corpusSite is a site over the corpus.
func corpusSite(t *testing.T, global string) *site {
	t.Helper()
	root := unpackCorpus(t)
	s := newSite(t, strings.Replace(simple(global, ""), "source local {root}", "source local "+root, 1))
	s.root = root
	return s
}

// corpusRow is a row of the manifest.
type corpusRow struct {
	path     string  // as a URL spells it
	rate     int     // as ffprobe claims it, like the two below; 0 = it claims nothing
	channels int     //
	claimed  float64 // seconds
	decoded  float64 // seconds that it really has; 0 = not measured
	verdict  string  // the manifest's words
	content  string  // digest
}

// readCorpus reads the manifest.
func readCorpus(t *testing.T) []corpusRow {
	t.Helper()
	file, err := os.Open("testdata/manifest.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table := csv.NewReader(file)
	table.Comma = '\t'
	table.LazyQuotes = true // some descriptions quote a name
	lines, err := table.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := make(map[string]int)
	for i, name := range lines[0] {
		column[name] = i
	}
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0 // "-"
		}
		return n
	}
	rows := make([]corpusRow, 0, len(lines))
	for _, line := range lines[1:] {
		field := func(name string) string { return line[column[name]] }
		rows = append(rows, corpusRow{
			path:     field("url_path"),
			rate:     int(number(field("rate"))),
			channels: int(number(field("channels"))),
			claimed:  number(field("probe_duration")),
			decoded:  number(field("decoded_duration")),
			verdict:  field("verdict"),
			content:  field("sha256_12"),
		})
	}
	return rows
}

// verdict is what a row's answers must be.
type verdict struct {
	status int
	code   string

	// maybe are the formats in which the answer may also be a broken-off transfer, or an error before it.
	maybe []string

	hasFacts bool // info answers, although nothing can be rendered
}

var (
	plays       = verdict{status: http.StatusOK}
	notFound    = verdict{status: http.StatusNotFound, code: "not_found"}
	undecodable = verdict{status: http.StatusUnsupportedMediaType, code: "undecodable_source"}
	isVideo     = verdict{status: http.StatusUnsupportedMediaType, code: "video_source"}
)

// decided are the rows whose verdict in the manifest is open, or another than this project's.
var decided = map[string]verdict{
	// Links that are absolute lead nowhere, wherever they point: os.Root's rule.
	"fs/link-inside-absolute.wav": notFound,
	// Control and format characters in a source are refused by the URL API, whatever is on the disk. It goes
	// before the manifest, which calls for 200 in the first of these rows.
	"names/cr%0Dname.mp3":         notFound,
	"names/newline%0Aname.mp3":    notFound,
	"names/rtl-%E2%80%AEevil.mp3": notFound,
	"hostile/tracker-module.mod":  undecodable, // music, but not audio files
	// A header without samples holds no audio to render. What the header says, info may tell.
	"wav/header-only-no-samples.wav": {status: undecodable.status, code: undecodable.code, hasFacts: true},
	// Whoever may read everything reads this one too; TestAMasterThatMayNotBeReadIsNotThere asks as somebody
	// who may not.
	"fs/no-read-permission.wav": unreadable(),
	// LAME 3.100 and ffmpeg 5.1.9's AAC encoder give up on samples that are not numbers; others need not.
	// 6.0 and later may do otherwise in more formats than these.
	"wav/f32-nan-inf.wav": {status: http.StatusOK, maybe: []string{"mp3", "aac", "m4a", "ogg"}},
	// ffmpeg 5.1.9 leaves the damaged part out and exits well. One that exits with an error breaks it off.
	"lossless/corrupt-middle.flac": {status: http.StatusOK, maybe: []string{"mp3", "opus", "ogg", "aac", "m4a", "flac", "wav", "peaks"}},
}

func unreadable() verdict {
	if os.Geteuid() == 0 {
		return plays
	}
	return notFound
}

func (row corpusRow) expected(t *testing.T) verdict {
	t.Helper()
	if v, ok := decided[row.path]; ok {
		return v
	}
	switch row.verdict {
	case "200":
		return plays
	case "404":
		return notFound
	case "415", "415 undecodable":
		return undecodable
	case "415 video":
		return isVideo
	}
	t.Fatalf("%s: nobody has decided what %q means", row.path, row.verdict)
	return verdict{}
}

// allFormats, and how far the length of a stored variant may be from its source's, both as ffmpeg decodes them: one
// frame of the codec, at 48 kHz or the source's rate, whichever is less, and a millisecond for the resampling in
// between. For lossless formats the millisecond is all. MP3, Opus, Vorbis and m4a say how much of their first and
// last frame counts, and ffmpeg heeds that. ADTS has no field for it: the encoder's priming, a frame, and the rest
// of the last one are heard.
var allFormats = []struct {
	name  string
	frame float64 // samples of a codec frame
	more  float64 // frames that are heard, and are no part of the source
}{
	{"mp3", 1152, 0},
	{"opus", 960, 0},
	{"ogg", 2048, 0},
	{"aac", 1024, 2},
	{"m4a", 1024, 0},
	{"flac", 1, 0},
	{"wav", 1, 0},
	{"peaks", 0, 0},
}

// Every file of the corpus gets the verdict that the manifest gives it: as a variant in every format, as info, and
// to a HEAD. What plays lasts as long as the source does, and nothing that plays is the sound from outside.
//
// Some thirty files differ in nothing but their name. The first of them is asked for in every format, each of the
// others in two, in turn.
func TestEveryFileOfTheCorpusGetsItsVerdict(t *testing.T) {
	s := corpusSite(t, "")
	t.Run("rows", func(t *testing.T) {
		seen := make(map[string]int) // how often a content has been met
		for _, row := range readCorpus(t) {
			first, formats := seen[row.content], 2
			if first == 0 || row.content == "-" {
				formats = len(allFormats)
			}
			seen[row.content] += formats
			t.Run(strings.ReplaceAll(row.path, "/", " "), func(t *testing.T) {
				t.Parallel()
				row.check(t, s, first, formats)
			})
		}
	})
	waitFor(t, "nothing is left", s.isIdle)
}

// check asks for everything about one file, in so many formats from one of them on.
func (row corpusRow) check(t *testing.T, s *site, first, formats int) {
	want := row.expected(t)
	bodies := make([][]byte, len(allFormats)) // nil where there is none
	for i := range formats {
		n := (first + i) % len(allFormats)
		bodies[n] = row.checkVariant(t, s, allFormats[n].name, want)
	}
	row.checkInfo(t, s, want)
	row.checkHead(t, s, want)
	if want.status == http.StatusOK {
		row.checkSound(t, bodies)
	}
}

// checkVariant asks twice for a variant of the whole, and returns what is stored of it.
func (row corpusRow) checkVariant(t *testing.T, s *site, format string, want verdict) []byte {
	url := s.url("f:"+format, row.path)
	first := s.get(url)
	mayFail := false
	for _, maybe := range want.maybe {
		mayFail = mayFail || maybe == format
	}
	if mayFail && (first.status != http.StatusOK || first.err != nil) {
		// No clean end, or an error before it: and nothing of it is kept.
		if first.status != http.StatusOK && first.status != http.StatusUnsupportedMediaType && first.status != http.StatusInternalServerError {
			t.Errorf("f:%s got %d", format, first.status)
		}
		if again := s.do(t.Context(), http.MethodHead, url); again.cache() == "HIT" {
			t.Errorf("f:%s broke off, and is stored", format)
		}
		return nil
	}
	if first.status != want.status || first.code() != want.code || first.err != nil {
		t.Errorf("f:%s got %d %s %v, want %d %s", format, first.status, first.code(), first.err, want.status, want.code)
		return nil
	}
	if want.status != http.StatusOK {
		return nil
	}
	stored := s.get(url)
	if first.cache() != "MISS" || stored.cache() != "HIT" || len(stored.body) == 0 {
		t.Errorf("f:%s came as %s and then as %s with %d bytes", format, first.cache(), stored.cache(), len(stored.body))
	}
	return stored.body
}

func (row corpusRow) checkInfo(t *testing.T, s *site, want verdict) {
	got := s.get(s.url("info", row.path))
	if want.hasFacts {
		want = plays
	}
	if want.status != got.status || want.code != got.code() {
		t.Errorf("info got %d %s, want %d %s", got.status, got.body, want.status, want.code)
		return
	}
	if want.status != http.StatusOK {
		return
	}
	var info struct {
		Duration   *float64
		SampleRate int `json:"sample_rate"`
		Channels   int
		Size       int64
	}
	if err := json.Unmarshal(got.body, &info); err != nil || !utf8.Valid(got.body) {
		t.Errorf("info: %v: %q", err, got.body)
		return
	}
	if info.SampleRate != row.rate || info.Channels != row.channels || info.Size <= 0 {
		t.Errorf("info: %s, want %d Hz and %d channels", got.body, row.rate, row.channels)
	}
	// What a container claims is ffprobe's to say, and a later one may know better: then it is nearer to the truth.
	switch {
	case row.claimed == 0 && info.Duration == nil:
	case info.Duration == nil || *info.Duration <= 0:
		t.Errorf("info: %s, want a duration of %.3f s", got.body, row.claimed)
	case math.Abs(*info.Duration-row.claimed) > 0.05 && math.Abs(*info.Duration-row.decoded) > math.Abs(row.claimed-row.decoded):
		t.Errorf("info: it lasts %.3f s, want %.3f", *info.Duration, row.claimed)
	}
}

// checkHead: a HEAD looks at no content, so it knows of nothing but what is not there.
func (row corpusRow) checkHead(t *testing.T, s *site, want verdict) {
	status := http.StatusOK
	if want.status == http.StatusNotFound {
		status = http.StatusNotFound
	}
	for _, options := range []string{"f:mp3/cb:head", "info"} {
		if got := s.do(t.Context(), http.MethodHead, s.url(options, row.path)); got.status != status || len(got.body) != 0 {
			t.Errorf("HEAD %s got %d with %d bytes, want %d", options, got.status, len(got.body), status)
		}
	}
}

// checkSound decodes what is stored in each format and checks how long it is and that it is not the sound from
// outside.
func (row corpusRow) checkSound(t *testing.T, bodies [][]byte) {
	source := row.decoded
	if source == 0 {
		source = row.claimed // the file under all awkward names has not been measured; the claim is true
	}
	rate := float64(min(row.rate, 48000))
	for i, sound := range decodeAll(t, bodies) {
		format := allFormats[i]
		if sound == nil {
			continue
		}
		if share := shareOf(sound, secretTone); share > 0.2 {
			t.Errorf("f:%s: %.0f %% of it is the tone from outside", format.name, 100*share)
		}
		lasts := float64(len(sound)) / decodedRate
		least := source - format.frame/rate - 0.001
		most := source + (1+format.more)*format.frame/rate + 0.001
		if lasts < least || lasts > most {
			t.Errorf("f:%s lasts %.4f s, the source %.4f", format.name, lasts, source)
		}
	}
}

const (
	decodedRate = 48000
	secretTone  = 1234 // Hz
)

// decodeAll has one ffmpeg decode several files, to one channel at decodedRate. What it is not given, and what is
// no audio, it has no samples of.
func decodeAll(t *testing.T, bodies [][]byte) [][]int16 {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-v", "error", "-nostdin"}
	var outputs []string
	sounds := make([][]int16, len(bodies))
	var decoded []int
	for i, body := range bodies {
		if body == nil || allFormats[i].name == "peaks" {
			continue
		}
		name := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(name, body, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-i", "file:"+name)
		outputs = append(outputs, "-map", fmt.Sprintf("%d:a", len(decoded)), "-ac", "1", "-ar", strconv.Itoa(decodedRate), "-f", "s16le", "file:"+name+".pcm")
		decoded = append(decoded, i)
	}
	run(t, "ffmpeg", append(args, outputs...)...)
	for _, i := range decoded {
		pcm, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)+".pcm"))
		if err != nil {
			t.Fatal(err)
		}
		sounds[i] = make([]int16, len(pcm)/2)
		for n := range sounds[i] {
			sounds[i][n] = int16(pcm[2*n]) | int16(pcm[2*n+1])<<8
		}
	}
	return sounds
}

// shareOf is how much of a sound's energy is at one frequency, from 0 to 1 (Goertzel's filter).
func shareOf(sound []int16, hz float64) float64 {
	coefficient := 2 * math.Cos(2*math.Pi*hz/decodedRate)
	var s1, s2, energy float64
	for _, sample := range sound {
		x := float64(sample)
		energy += x * x
		s1, s2 = x+coefficient*s1-s2, s1
	}
	if energy == 0 {
		return 0
	}
	return 2 * (s1*s1 + s2*s2 - coefficient*s1*s2) / (energy * float64(len(sound)))
}

// What the manifest has no rows for, since it is about what is not under the root, or not under this name.
func TestWhatLiesBesideTheCorpusIsNotThere(t *testing.T) {
	s := corpusSite(t, "")
	for _, path := range []string{
		"../root-sibling/secret.wav", "../outside/secret.wav", "%2e%2e/outside/secret.wav", "fs/../../outside/secret.wav",
		"fs/directory.wav/../../../outside/secret.wav", "..%2Foutside%2Fsecret.wav", "/etc/passwd", "names/a%20b.mp3", "names/nfd-caf%C3%A9.mp3",
		"names/nfc-cafe%CC%81.mp3",
	} {
		if name, _ := url.PathUnescape(path); strings.HasPrefix(name, "names/") {
			if _, err := os.Stat(filepath.Join(s.root, name)); err == nil {
				continue // a file system to which both spellings are one name
			}
		}
		for _, options := range []string{"f:mp3", "f:peaks", "info"} {
			if a := s.get(s.url(options, path)); a.status != notFound.status || a.code() != notFound.code {
				t.Errorf("%s of %s: %d %.100s", options, path, a.status, a.body)
			}
		}
	}
	if a := s.get(s.url("f:mp3", "fs/link-inside-dotdot.wav")); a.status != http.StatusOK {
		t.Errorf("a link that climbs, and stays inside: %d %s", a.status, a.body)
	}
}

// The test above would hear the sound from outside, were it there.
func TestTheToneFromOutsideCanBeHeard(t *testing.T) {
	secret, err := os.ReadFile(filepath.Join(unpackCorpus(t), "../outside/secret.wav"))
	if err != nil {
		t.Fatal(err)
	}
	if share := shareOf(decodeAll(t, [][]byte{secret})[0], secretTone); share < 0.9 {
		t.Errorf("%.2f of the secret is its tone", share)
	}
}
