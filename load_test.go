package audioproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// all asks for URLs at once, each over a connection of its own, and returns the answers in the URLs' order.
func (s *site) all(urls []string, header ...string) []answer {
	answers := make([]answer, len(urls))
	var wg sync.WaitGroup
	for i, url := range urls {
		wg.Go(func() { answers[i] = s.get(url, header...) })
	}
	wg.Wait()
	return answers
}

func count(answers []answer, property func(answer) bool) int {
	n := 0
	for _, a := range answers {
		if property(a) {
			n++
		}
	}
	return n
}

func TestFiftyListenersShareOneRender(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	s.generate("long.wav", 600)
	urls := make([]string, 50)
	for i := range urls {
		urls[i] = s.url("f:opus/br:48", "long.wav")
	}

	answers := s.all(urls)

	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
	miss := count(answers, func(a answer) bool { return a.cache() == "MISS" })
	coalesced := count(answers, func(a answer) bool { return a.cache() == "COALESCED" })
	if miss != 1 || coalesced != 49 {
		t.Errorf("%d MISS and %d COALESCED, want 1 and 49", miss, coalesced)
	}
	for i, a := range answers {
		if a.err != nil || !bytes.Equal(a.body, answers[0].body) {
			t.Errorf("listener %d got %d bytes (%v), the first one %d", i, len(a.body), a.err, len(answers[0].body))
		}
	}
	if _, seconds := examine(t, answers[0].body); seconds < 599.9 || seconds > 600.1 {
		t.Errorf("the variant lasts %.3f s, want 600", seconds)
	}
}

// gated is an encoder that writes a little and goes on when the returned function is called: then it is the
// real thing.
func gated(t *testing.T) (e *encoders, open func()) {
	t.Helper()
	e = script(t, "")
	gate := e.path + ".open"
	text, err := os.ReadFile(e.path)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "while [ ! -e "+gate+" ]; do sleep 0.02; done; exec ffmpeg \"$@\"\n"...)
	if err := os.WriteFile(e.path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBudgetServesSlotsAndQueueAndRefusesTheRest(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 2\nffmpeg "+ffmpeg.path, ""))
	urls := make([]string, 6)
	for i := range urls {
		urls[i] = s.url("f:mp3/t:0:"+strconv.Itoa(i+1), "speech.wav")
	}
	most := watchChildren(t)

	var answers []answer
	var wg sync.WaitGroup
	wg.Go(func() { answers = s.all(urls) })
	waitFor(t, "the queue is full", func() bool { return theEngine(t).budget.Stats().Queued == 2 })
	open()
	wg.Wait()

	served := count(answers, func(a answer) bool { return a.status == http.StatusOK && a.err == nil })
	refused := 0
	for _, a := range answers {
		if a.status == http.StatusTooManyRequests {
			refused++
			after, err := strconv.Atoi(a.header.Get("Retry-After"))
			if a.code() != "queue_full" || err != nil || after < 1 || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("refusal: %v %s", a.header, a.body)
			}
		}
	}
	if served != 3 || refused != 3 {
		t.Errorf("%d served and %d refused, want 3 and 3", served, refused)
	}
	if n := len(ffmpeg.pids()); n != 3 {
		t.Errorf("%d encoders ran, want 3", n)
	}
	if n := most(); n != 1 {
		t.Errorf("%d subprocesses ran at a time, want 1", n)
	}
}

// watchChildren looks at how many subprocesses there are until the returned function is called, which tells
// the most that were seen.
func watchChildren(t *testing.T) (most func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			seen = max(seen, len(children(t)))
			time.Sleep(time.Millisecond)
		}
	})
	return func() int {
		cancel()
		wg.Wait()
		return seen
	}
}

// started asks for a URL in the background and returns the channel its answer comes through.
func (s *site) started(url string, header ...string) <-chan answer {
	result := make(chan answer, 1)
	go func() { result <- s.get(url, header...) }()
	return result
}

func TestLaterInteractiveOvertakesAndDisplacesLow(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 2\nffmpeg "+ffmpeg.path, "class low {\nheader Purpose prefetch\n}"))
	queued := func(n int) func() bool {
		return func() bool { return theEngine(t).budget.Stats().Queued == n }
	}
	low := []string{"Purpose", "prefetch"}
	holder := s.started(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "the first render holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	older := s.started(s.url("f:mp3/t:0:2", "speech.wav"), low...)
	waitFor(t, "the older low render waits", queued(1))
	newer := s.started(s.url("f:mp3/t:0:3", "speech.wav"), low...)
	waitFor(t, "the newer low render waits", queued(2))

	interactive := s.started(s.url("f:mp3/t:0:4", "speech.wav"))

	displaced := <-newer
	if displaced.status != http.StatusTooManyRequests || displaced.header.Get("Retry-After") == "" || displaced.code() != "queue_full" {
		t.Errorf("the newest low render got %d %v, want a 429 with Retry-After", displaced.status, displaced.header)
	}
	// Rendered in which order? The number of stored variants tells: the slot is one.
	open()
	<-holder
	first := <-interactive
	if first.status != http.StatusOK {
		t.Errorf("the interactive render got %d", first.status)
	}
	if last := <-older; last.status != http.StatusOK {
		t.Errorf("the older low render got %d", last.status)
	}
	logs := theEngine(t).budget.Stats()
	if logs.Held != 0 && logs.Queued != 0 {
		t.Errorf("left behind: %+v", logs)
	}
	if order := trimsInOrder(t, ffmpeg); order != "1 4 2" {
		t.Errorf("rendered in the order %q, want the interactive 4 before the low 2", order)
	}
}

func TestKilledEncoderBreaksTheStreamOff(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	s.generate("long.wav", 600)
	url := s.url("f:mp3", "long.wav")
	resp, err := s.open(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}

	kill(t, ffmpeg.pids()[0])

	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v, want a broken-off transfer", err)
	}
	s.awaitIdle()
	if stored := s.stored(); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
	again := s.get(url)
	if again.cache() != "MISS" || again.err != nil || len(ffmpeg.pids()) != 2 {
		t.Errorf("the next request: %s, %v, %d encoders in all", again.cache(), again.err, len(ffmpeg.pids()))
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestTwoSitesShareOneBudgetAndNoVariants(t *testing.T) {
	ffmpeg, open := gated(t)
	other := t.TempDir()
	s := newSite(t, strings.ReplaceAll(simple("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, "")+`
http://localhost:{port2} {
	audio_proxy {
		source local {other}
		insecure
	}
}
`, "{other}", other))
	if err := os.Link(s.root+"/music.wav", other+"/speech.wav"); err != nil { // another master under the same name
		t.Fatal(err)
	}
	here := s.url("f:wav/t:0:1", "speech.wav")
	there := strings.Replace(here, ":"+strconv.Itoa(s.port)+"/", ":"+strconv.Itoa(s.port+1)+"/", 1)
	first := s.started(here)
	waitFor(t, "the first site holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })

	if a := s.get(there); a.status != http.StatusTooManyRequests {
		t.Errorf("the second site got %d, want 429: there is one slot in all", a.status)
	}

	open()
	a := <-first
	b := s.get(there)
	if b.cache() != "MISS" || bytes.Equal(a.body, b.body) {
		t.Errorf("the second site's own %q came as %s; its bytes equal the first site's: %v", "speech.wav", b.cache(), bytes.Equal(a.body, b.body))
	}
}

func TestReloadBreaksNeitherRenderNorQueue(t *testing.T) {
	ffmpeg, open := gated(t)
	config := func(slots string) string { return simple("slots "+slots+"\nqueue 2\nffmpeg "+ffmpeg.path, "") }
	s := newSite(t, config("1"))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	rendering := s.started(url)
	waitFor(t, "a render holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	waiting := s.started(s.url("f:mp3/t:0:2", "speech.wav"))
	waitFor(t, "another one waits", func() bool { return theEngine(t).budget.Stats().Queued == 1 })
	before := theEngine(t)

	s.load(config("1") + "# changed\n" + "http://localhost:{port2} {\n\trespond hello\n}\n")

	if theEngine(t) != before {
		t.Error("the reload made another engine")
	}
	if stats := before.budget.Stats(); stats.Held != 1 || stats.Queued != 1 {
		t.Errorf("after the reload: %+v", stats)
	}
	joined := s.started(url)
	waitFor(t, "a listener of the new config joins", func() bool {
		for _, f := range before.flights.Flights() {
			if f.Listeners == 2 {
				return true
			}
		}
		return false
	})
	open()
	for name, c := range map[string]<-chan answer{"rendering": rendering, "waiting": waiting, "joined": joined} {
		if a := <-c; a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: %d %v", name, a.status, a.err)
		}
	}
	if n := len(ffmpeg.pids()); n != 2 {
		t.Errorf("%d encoders ran, want 2", n)
	}
}

func TestLimitsFollowTheConfigThatRuns(t *testing.T) {
	config := func(slots, more string) string { return simple("slots "+slots, "") + more }
	s := newSite(t, config("1", ""))
	slots := func() int { return theEngine(t).budget.Stats().Slots }

	s.load(config("3", ""))
	if n := slots(); n != 3 {
		t.Errorf("%d slots after a reload to 3", n)
	}
	// Another site wants an address that is not ours: the load fails after everything was provisioned.
	if err := s.tryLoad(config("5", "http://127.0.0.1:{port2} {\n\tbind 192.0.2.1\n\trespond hello\n}\n")); err == nil {
		t.Fatal("a config that cannot listen was loaded")
	}
	if n := slots(); n != 3 {
		t.Errorf("%d slots after a load that failed, want the 3 of the config that runs", n)
	}
}

// Listeners that hang up at each moment of a render, and nothing that stays of them.
func TestClientsThatHangUpLeaveNothingBehind(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script string
		when   func(*engine) bool
	}{
		{"before the first byte", `sleep 30`, func(e *engine) bool { return e.budget.Stats().Held > 0 }},
		{"mid-render", toOutput + `while printf '%04096d' 0; do sleep 0.05; done`, func(e *engine) bool {
			for _, f := range e.flights.Flights() {
				if f.Bytes > 0 {
					return true
				}
			}
			return false
		}},
		{"while queued", `sleep 30`, func(e *engine) bool { return e.budget.Stats().Queued > 0 }},
		{"with an encoder that ignores SIGTERM", `trap '' TERM; ` + toOutput + `while printf '%04096d' 0; do sleep 0.05; done`,
			func(e *engine) bool { return e.budget.Stats().Held > 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ffmpeg := script(t, tc.script)
			s := newSite(t, simple("slots 1\nqueue 2\nffmpeg "+ffmpeg.path, ""))
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			var clients sync.WaitGroup
			for i := range 2 { // with one slot, the second one is queued
				clients.Go(func() {
					resp, err := s.open(ctx, http.MethodGet, s.url("f:mp3/t:0:"+strconv.Itoa(i+1), "speech.wav"))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			waitFor(t, tc.name, func() bool { return tc.when(theEngine(t)) })

			hangUp()

			clients.Wait()
			s.awaitIdle()
			if stored := s.stored(); len(stored) != 0 {
				t.Errorf("stored: %v", stored)
			}
		})
	}
}

func TestOneListenerLeavingTakesNothingFromTheOthers(t *testing.T) {
	ffmpeg := script(t, toOutput+`i=0; while [ $i -lt 40 ]; do printf '%04096d' $i; sleep 0.02; i=$((i+1)); done`)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	url := s.url("f:mp3", "speech.wav")
	first, err := s.open(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatal(err)
	}
	second := s.started(url)
	waitFor(t, "the second listener has joined", func() bool {
		flights := theEngine(t).flights.Flights()
		return len(flights) == 1 && flights[0].Listeners == 2
	})

	first.Body.Close() // the one who started it all

	late := s.started(url)
	for name, c := range map[string]<-chan answer{"second": second, "late": late} {
		if a := <-c; a.err != nil || len(a.body) != 40*4096 {
			t.Errorf("%s: %d bytes, %v", name, len(a.body), a.err)
		}
	}
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders ran, want 1", n)
	}
}

// trimsInOrder reads from the encoders' arguments which trims were rendered, in the order of their start.
func trimsInOrder(t *testing.T, e *encoders) string {
	t.Helper()
	content, err := os.ReadFile(e.log + ".args")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(string(content)) {
		_, rest, _ := strings.Cut(line, "atrim=")
		for i := range 9 {
			if strings.Contains(rest, "end="+strconv.Itoa(i)) || strings.Contains(rest, "duration="+strconv.Itoa(i)) {
				order = append(order, strconv.Itoa(i))
			}
		}
	}
	return strings.Join(order, " ")
}
