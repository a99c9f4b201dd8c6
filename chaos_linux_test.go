package audioproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/testdata/bomb"
)

// chaos is a server under everything that goes wrong at once, and clients that misbehave.
type chaos struct {
	*server
	rows   []corpusRow
	faults string // the file that the encoder's wrapper reads what is to go wrong from
	corpus string // the folder that is served
	shim   string // a library that makes reads of the source fail
	child  atomic.Int64

	mu      sync.Mutex
	answers map[string]int // by status, or how they broke off
	checked int            // of those that ended well and were decoded
}

// How long the chaos lasts: CHAOS=10m for more than the short while that it has among all other tests.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CHAOS")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CHAOS: %v", err)
	}
	return d
}

// Whatever goes wrong at once, the process lives, an answer that ended well is the whole of its variant, and nothing
// is left in the end.
func TestChaos(t *testing.T) {
	c := newChaos(t)
	goroutines, descriptors := c.goroutines(), c.descriptors()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CHAOS_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("CHAOS_SEED=%d", seed)

	ctx, stop := context.WithTimeout(t.Context(), chaosTime(t))
	defer stop()
	var going sync.WaitGroup
	for i, act := range []func(context.Context, *rand.Rand){
		c.listen, c.listen, c.listen, c.listen, c.listen, c.spoil, c.kills, c.reloads, c.squeeze, c.watch,
	} {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		going.Go(func() {
			for ctx.Err() == nil {
				act(ctx, random)
			}
		})
	}
	going.Wait()
	c.setFault("")
	c.limitDescriptors(1 << 16)

	t.Logf("answers: %v; %d were decoded; the largest child had %d MB", c.answers, c.checked, c.child.Load()>>20)
	if c.checked == 0 {
		t.Error("no answer was decoded")
	}
	// A file that no encoder has lied about: one that says nothing and exits with 0 is believed for a minute.
	c.server.root = c.corpus
	c.master("afterwards.wav", "testdata/audio/speech.wav")
	if a := c.get(c.url("f:mp3/t:0:1", "afterwards.wav")); a.status != http.StatusOK || a.err != nil {
		t.Errorf("afterwards: %d %s %v", a.status, a.body, a.err)
	}
	waitFor(t, "no child is left", func() bool { return len(c.children()) == 0 })
	waitFor(t, "nothing is staged", func() bool { return len(c.staged()) == 0 })
	waitFor(t, "goroutines are back", func() bool { return c.goroutines() <= goroutines+10 })
	waitFor(t, "descriptors are back", func() bool { return c.descriptors() <= descriptors+10 })
	if memory := c.peak(c.cmd.Process.Pid); memory > 300<<20 {
		t.Errorf("the server had %d MB", memory>>20)
	}
	if memory := c.child.Load(); memory > 600<<20 {
		t.Errorf("a child had %d MB", memory>>20)
	}
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	dir := t.TempDir()
	root := unpackCorpus(t)
	c := &chaos{rows: append(readCorpus(t), furtherRows(t, root)...), corpus: root, faults: filepath.Join(dir, "fault"), shim: buildShim(t, dir), answers: map[string]int{}}
	c.setFault("")
	c.server = newServer(t, strings.Replace(c.config(dir, 2), "{root}", root, 1))
	c.onSmallDisk(6 << 10)
	return c
}

// anyVerdict is the verdict of files that are not in the manifest: an answer that ends well is not looked into.
const anyVerdict = "any"

// furtherRows puts the second round's files and bombs beside the corpus.
func furtherRows(t *testing.T, root string) (rows []corpusRow) {
	t.Helper()
	mp3, err := os.ReadFile("testdata/audio/speech.mp3")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"index.m4a":    bomb.HugeIndex(3, 80_000_000),
		"indexes.m4a":  bomb.HugeIndex(64, 80_000_000),
		"art.mp3":      bomb.Art(mp3, 8000),
		"feeds.mp3":    bomb.Title(mp3, '\n', 5_000_000),
		"title.mp3":    bomb.Title(mp3, 'a', 5_000_000),
		"chapters.mp3": bomb.Chapters(mp3, 100_000),
		"comments.mp3": bomb.Comments(mp3, 100_000),
	}
	second, err := filepath.Glob("testdata/second/*")
	if err != nil || len(second) == 0 {
		t.Fatalf("the second round is missing: %v", err)
	}
	for _, path := range second {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "second"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(root, "second", name), files[name], 0o600); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, corpusRow{path: "second/" + name, verdict: anyVerdict})
	}
	return rows
}

// config is a Caddyfile with a wrapper around the encoder in it.
func (c *chaos) config(dir string, slots int) string {
	for _, program := range []string{"ffmpeg", "ffprobe"} {
		wrapper := "#!/bin/sh\ncase \" $* \" in *\" -i \"*) ;; *) exec " + program + " \"$@\";; esac\n. " + c.faults + "\nexec " + program + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(wrapper), 0o700); err != nil {
			panic(err)
		}
	}
	return strings.Replace(simple(fmt.Sprintf("slots %d\nrender_timeout 20s\nffmpeg %s/ffmpeg\nffprobe %s/ffprobe", slots, dir, dir), ""),
		"admin off", "admin localhost:{port2}", 1)
}

// buildShim compiles a library that has reads, or the opening, of the source fail.
func buildShim(t *testing.T, dir string) string {
	t.Helper()
	shim := filepath.Join(dir, "fail.so")
	run(t, "cc", "-shared", "-fPIC", "-O1", "-o", shim, "testdata/fail.c", "-ldl")
	return shim
}

// setFault says what goes wrong with the encoders that start from now on, as shell text.
func (c *chaos) setFault(text string) {
	if err := os.WriteFile(c.faults+".new", []byte(text+"\n"), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(c.faults+".new", c.faults); err != nil {
		panic(err)
	}
}

// spoil has encoders go wrong for a while, and then go right for a while.
func (c *chaos) spoil(ctx context.Context, random *rand.Rand) {
	library := "export LD_PRELOAD=" + c.shim + "\n"
	faults := []string{
		library + fmt.Sprintf("export FAIL_AFTER=%d FAIL_ERRNO=%d", random.IntN(60_000), syscall.EIO),
		library + fmt.Sprintf("export FAIL_OPEN=1 FAIL_ERRNO=%d", syscall.ESTALE),
		library + fmt.Sprintf("export FAIL_OPEN=1 FAIL_ERRNO=%d", syscall.ENFILE),
		"echo '[error] pthread_create failed: Resource temporarily unavailable' >&2; exit 1",
		"kill -9 $$",
		"exit 1",
		"exit 0",
		"sleep 2",
	}
	c.setFault(faults[random.IntN(len(faults))])
	pause(ctx, time.Duration(300+random.IntN(700))*time.Millisecond)
	c.setFault("")
	pause(ctx, time.Duration(300+random.IntN(1500))*time.Millisecond)
}

// kills ends a random child of the server's.
func (c *chaos) kills(ctx context.Context, random *rand.Rand) {
	if pids := c.children(); len(pids) > 0 && random.IntN(3) == 0 {
		_ = syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL)
	}
	pause(ctx, 200*time.Millisecond)
}

// reloads loads the same sites with another number of slots.
func (c *chaos) reloads(ctx context.Context, random *rand.Rand) {
	config, err := os.ReadFile(c.server.config)
	if err != nil {
		panic(err)
	}
	config = bytes.Replace(config, []byte("slots 2"), fmt.Appendf(nil, "slots %d", 1+random.IntN(3)), 1)
	resp, err := http.Post(fmt.Sprintf("http://localhost:%d/load", c.port+1), "text/caddyfile", bytes.NewReader(config))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	pause(ctx, 2*time.Second)
}

// squeeze takes the server's descriptors away for a moment, so that it can start nothing.
func (c *chaos) squeeze(ctx context.Context, random *rand.Rand) {
	pause(ctx, time.Duration(1+random.IntN(4))*time.Second)
	c.limitDescriptors(uint64(c.descriptors() + random.IntN(8)))
	pause(ctx, 300*time.Millisecond)
	c.limitDescriptors(1 << 16)
}

func (c *chaos) limitDescriptors(n uint64) {
	var limit unix.Rlimit
	err := unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit)
	if err == nil {
		limit.Cur = min(n, limit.Max)
		err = unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil)
	}
	if err != nil {
		c.t.Errorf("limiting descriptors: %v", err)
	}
}

// watch notes how large children become.
func (c *chaos) watch(ctx context.Context, _ *rand.Rand) {
	for _, pid := range c.children() {
		if now := c.peak(pid); now > c.child.Load() {
			c.child.Store(now)
		}
	}
	pause(ctx, 50*time.Millisecond)
}

// listen asks for something, and listens to some of it.
func (c *chaos) listen(ctx context.Context, random *rand.Rand) {
	row := c.rows[random.IntN(len(c.rows))]
	format := random.IntN(len(allFormats))
	options := fmt.Sprintf("f:%s/cb:%d", allFormats[format].name, random.IntN(50))
	method, whole := http.MethodGet, true
	var header []string
	switch random.IntN(12) {
	case 0:
		options, whole = "info", false
	case 1:
		method, whole = http.MethodHead, false
	case 2:
		header, whole = []string{"Range", "bytes=100-2000"}, false
	case 3:
		options, whole = options+"/t:0:1/fade:0.1:0.2", false
	case 4:
		options, whole = options+"/norm:ebu/ch:1", false
	case 5:
		options, whole = "f:mp3/enhance:voice/gain:-3", false
	}
	ctx, hangUp := context.WithTimeout(ctx, 30*time.Second)
	defer hangUp()
	resp, err := c.open(ctx, method, c.url(options, row.path), header...)
	if err != nil {
		c.note("no answer")
		return
	}
	defer resp.Body.Close()
	if random.IntN(6) == 0 {
		_, _ = io.CopyN(io.Discard, resp.Body, random.Int64N(20_000))
		c.note("hung up")
		return
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		c.note("broken off")
	case resp.StatusCode != http.StatusOK:
		c.note(strconv.Itoa(resp.StatusCode))
	default:
		c.note("200")
		if whole && allFormats[format].name != "peaks" {
			c.checkLength(row, format, body)
		}
	}
}

// checkLength checks that an answer that ended well is the whole of its variant. A stream's bytes are those of the
// stored file but for header fields, and in m4a for the edit list, without which the encoder's priming is heard.
func (c *chaos) checkLength(row corpusRow, format int, body []byte) {
	if row.verdict == anyVerdict {
		return
	}
	want := row.expected(c.t)
	if want.status != http.StatusOK {
		c.t.Errorf("%s in %s is 200, and must be %d", row.path, allFormats[format].name, want.status)
		return
	}
	if row.decoded == 0 || len(want.maybe) > 0 {
		return
	}
	bodies := make([][]byte, len(allFormats))
	bodies[format] = body
	lasts := float64(len(decodeAll(c.t, bodies)[format])) / decodedRate
	slack := 3*allFormats[format].frame/float64(min(row.rate, 48000)) + 0.002
	if lasts < row.decoded-slack || lasts > row.decoded+slack {
		c.t.Errorf("%s in %s lasts %.3f s, and must last %.3f", row.path, allFormats[format].name, lasts, row.decoded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked++
}

func (c *chaos) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[what]++
}

// goroutines is how many the server has, by its own profile.
func (c *chaos) goroutines() int {
	resp, err := http.Get(fmt.Sprintf("http://localhost:%d/debug/pprof/goroutine?debug=1", c.port+1))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(string(profile), "goroutine profile: total %d", &n); err != nil {
		c.t.Fatalf("%v: %.100s", err, profile)
	}
	return n
}

// descriptors is how many the server has open.
func (c *chaos) descriptors() int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatalf("the server is gone: %v", err)
	}
	return len(open)
}

// children lists the server's living subprocesses.
func (c *chaos) children() (pids []int) {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(c.cmd.Process.Pid)).Output()
	if err != nil {
		return nil // there is none
	}
	for field := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return slices.Clip(pids)
}

// peak is the most resident memory that a process has had, in bytes; 0 when it is gone.
func (c *chaos) peak(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		return 0
	}
	kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		return 0
	}
	return kB << 10
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
