package audioproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// The budget as clients meet it.

// trim is the URL of one of many distinct variants of the same master.
func (s *site) trim(n int) string { return s.url("f:mp3/t:0:"+strconv.Itoa(n+1), "speech.wav") }

// reach waits until the budget has so many slots held and so many waiters.
func (s *site) reach(held, queued int) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprintf("%d slots are held and %d renders wait", held, queued), func() bool {
		stats := theEngine(s.t).budget.Stats()
		return stats.Held == held && stats.Queued == queued
	})
}

// leaving is a request that can hang up.
func (s *site) leaving(url string, header ...string) (hangUp func(), gone *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(s.t.Context())
	gone = new(sync.WaitGroup)
	gone.Go(func() {
		resp, err := s.open(ctx, http.MethodGet, url, header...)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	return cancel, gone
}

func TestDepartedClientsAreNeverGranted(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 250\nffmpeg "+ffmpeg.path, ""))
	holder := s.started(s.trim(0))
	s.reach(1, 0)
	const clients = 200
	var answers [clients]<-chan answer
	var departures []func()
	for i := range clients {
		if i%2 == 0 {
			hangUp, _ := s.leaving(s.trim(i + 1))
			departures = append(departures, hangUp)
		} else {
			answers[i] = s.started(s.url("f:wav/bd:16/sr:8000/t:0:0.1/cb:"+strconv.Itoa(i), "speech.wav"))
		}
		s.reach(1, i+1)
	}

	for i, hangUp := range departures {
		hangUp()
		s.reach(1, clients-1-i)
	}
	open()

	if a := <-holder; a.status != http.StatusOK {
		t.Errorf("the holder got %d", a.status)
	}
	for i, c := range answers {
		if c == nil {
			continue
		}
		if a := <-c; a.status != http.StatusOK || a.err != nil {
			t.Errorf("client %d got %d, %v", i, a.status, a.err)
		}
	}
	s.reach(0, 0)
	if n := len(ffmpeg.pids()); n != 1+clients/2 {
		t.Errorf("%d encoders ran, want %d: one for the holder and one for each that stayed", n, 1+clients/2)
	}
}

func TestAnInteractiveListenerPromotesAWaitingRender(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 10\nffmpeg "+ffmpeg.path, "class low {\nheader Purpose warm\n}"))
	holder := s.started(s.trim(0))
	s.reach(1, 0)
	var low [3]<-chan answer
	for i := range low {
		low[i] = s.started(s.trim(i+1), "Purpose", "warm")
		s.reach(1, i+1)
	}

	interactive := s.started(s.trim(3)) // the variant that the newest low one waits for
	waitFor(t, "its ticket has moved", func() bool {
		return theEngine(t).budget.Stats().Depths[admission.Interactive] == 1
	})

	open()
	for _, c := range append([]<-chan answer{holder, interactive}, low[:]...) {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("got %d", a.status)
		}
	}
	if order := trimsInOrder(t, ffmpeg); order != "1 4 2 3" {
		t.Errorf("rendered in the order %q, want 4 before the older low ones", order)
	}
}

func TestAPromotedRenderFallsBackWhenItsListenerLeaves(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 10\nffmpeg "+ffmpeg.path, "class low {\nheader Purpose warm\n}"))
	holder := s.started(s.trim(0))
	s.reach(1, 0)
	low := s.started(s.trim(1), "Purpose", "warm")
	s.reach(1, 1)
	depth := func(class admission.Class) func() bool {
		return func() bool { return theEngine(t).budget.Stats().Depths[class] == 1 }
	}
	hangUp, gone := s.leaving(s.trim(1))
	waitFor(t, "the render is promoted", depth(admission.Interactive))

	hangUp()
	gone.Wait()

	waitFor(t, "the render has fallen back", depth(admission.Low))
	open()
	<-holder
	if a := <-low; a.status != http.StatusOK {
		t.Errorf("the low one got %d", a.status)
	}
}

func TestClassLimitKeepsSlotsForBetterClasses(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 2\nclass_limit low 1\nffmpeg "+ffmpeg.path, "class low {\nheader Purpose warm\n}"))
	first := s.started(s.trim(0), "Purpose", "warm")
	s.reach(1, 0)
	second := s.started(s.trim(1), "Purpose", "warm")
	s.reach(1, 1) // although a slot is free

	interactive := s.started(s.trim(2))

	s.reach(2, 1) // it started at once
	open()
	for _, c := range []<-chan answer{first, second, interactive} {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("got %d", a.status)
		}
	}
}

func TestReloadsChangeTheLimitsOfARunningBudget(t *testing.T) {
	ffmpeg, open := gated(t)
	config := func(slots int) string {
		return simple(fmt.Sprintf("slots %d\nqueue 10\nffmpeg %s", slots, ffmpeg.path), "")
	}
	s := newSite(t, config(1))
	var answers []<-chan answer
	for i := range 5 {
		answers = append(answers, s.started(s.trim(i)))
		s.reach(1, i)
	}

	s.load(config(3))
	s.reach(3, 2) // two waiters started at once

	s.load(config(1))
	s.reach(3, 2) // nothing was taken away

	if err := s.tryLoad(config(5) + "http://127.0.0.1:{port2} {\n\tbind 192.0.2.1\n\trespond hello\n}\n"); err == nil {
		t.Fatal("a config that cannot listen was loaded")
	}
	s.reach(3, 2)
	if n := theEngine(t).budget.Stats().Slots; n != 1 {
		t.Errorf("%d slots after a load that failed", n)
	}
	open()
	for _, c := range answers {
		if a := <-c; a.status != http.StatusOK || a.err != nil {
			t.Errorf("got %d, %v", a.status, a.err)
		}
	}
}

func TestWaitingTooLongIs429AndNot504(t *testing.T) {
	ffmpeg := script(t, "trap '' TERM; exec sleep 30")
	s := newSite(t, simple("slots 1\nqueue 1\nrender_timeout 1s\nffmpeg "+ffmpeg.path, ""))
	rendering := s.started(s.trim(0))
	s.reach(1, 0)
	waiting := s.started(s.trim(1))
	s.reach(1, 1)
	started := time.Now()
	third := s.get(s.trim(2))
	at := time.Since(started)

	for name, a := range map[string]answer{"the third": third, "the one that waits": <-waiting} {
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != http.StatusTooManyRequests || a.code() != "queue_full" || err != nil || after < 1 {
			t.Errorf("%s got %d %v %s", name, a.status, a.header, a.body)
		}
	}
	if at > 900*time.Millisecond {
		t.Errorf("the third was refused after %v, not at once", at)
	}
	if a := <-rendering; a.status != http.StatusGatewayTimeout || a.code() != "render_timeout" {
		t.Errorf("the render that ran got %d %s", a.status, a.body)
	}
	s.awaitIdle()
}

func TestReadyFlipsOncePerExcursion(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, simple("slots 1\nqueue 10\nready_threshold 4\nffmpeg "+ffmpeg.path, ""))
	url := "http://localhost:" + strconv.Itoa(s.port) + "/ready"
	check := func(queued int, ready bool) {
		t.Helper()
		a := s.get(url)
		var body struct {
			Status            string
			Queued, Threshold int
		}
		if err := json.Unmarshal(a.body, &body); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		status, word := http.StatusOK, "ready"
		if !ready {
			status, word = http.StatusServiceUnavailable, "not_ready"
		}
		if a.status != status || body.Status != word || body.Queued != queued || body.Threshold != 4 ||
			a.header.Get("Cache-Control") != "no-store" || a.header.Get("Retry-After") != "" {
			t.Errorf("%d waiting: %d %s %v", queued, a.status, a.body, a.header)
		}
	}
	check(0, true)
	holder := s.started(s.trim(0))
	s.reach(1, 0)
	var hangUps []func()
	for i := range 4 {
		hangUp, _ := s.leaving(s.trim(i + 1))
		hangUps = append(hangUps, hangUp)
		s.reach(1, i+1)
		check(i+1, i+1 < 4)
	}
	for i, hangUp := range hangUps {
		hangUp()
		s.reach(1, 3-i)
		check(3-i, 3-i <= 2) // down to half of it
	}
	open()
	<-holder
}

func TestAbandonedRendersFinishWhileNobodyWaits(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("slots 10\nabandoned finish\nffmpeg "+ffmpeg.path, ""))
	s.generate("long.wav", 60)
	for i := range 10 {
		resp, err := s.open(t.Context(), http.MethodGet, s.url("f:flac/bd:16/q:12/cb:"+strconv.Itoa(i), "long.wav"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() // the first bytes are there, and it leaves
	}
	waitFor(t, "all ten are stored", func() bool { return len(s.stored()) == 10 })
	s.awaitIdle()
	if n := len(ffmpeg.pids()); n != 10 {
		t.Errorf("%d encoders ran for ten variants", n)
	}
}

func TestANewcomerTakesTheSlotOfAnAbandonedRender(t *testing.T) {
	ffmpeg := script(t, toOutput+`i=0; while [ $i -lt 40 ]; do printf '%04096d' $i; sleep 0.05; i=$((i+1)); done`)
	s := newSite(t, simple("slots 1\nqueue 0\nabandoned finish\nffmpeg "+ffmpeg.path, ""))
	resp, err := s.open(t.Context(), http.MethodGet, s.trim(0))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	waitFor(t, "the render is abandoned and goes on", func() bool { return theEngine(t).budget.Stats().Yielding == 1 })

	second, err := s.open(t.Context(), http.MethodGet, s.trim(1))
	if err != nil {
		t.Fatal(err)
	}

	if second.StatusCode != http.StatusOK {
		t.Errorf("the newcomer got %d", second.StatusCode)
	}
	if pids := ffmpeg.pids(); len(pids) != 2 || len(children(t)) != 1 {
		t.Errorf("%d encoders were started and %d run, want 2 and 1", len(pids), len(children(t)))
	}
	second.Body.Close()
	s.awaitIdle() // it is finished for the store: nobody waits
}

// Exit: a process of its own, since exiting is what it does.
func TestExitRefusesWaitersAtOnceAndLetsRendersFinish(t *testing.T) {
	ffmpeg := script(t, toOutput+`i=0; while [ $i -lt 30 ]; do printf '%04096d' $i; sleep 0.1; i=$((i+1)); done`)
	s := newServer(t, strings.Replace(simple("slots 1\nqueue 5\nffmpeg "+ffmpeg.path, ""), "grace_period 5s", "grace_period 20s", 1))
	rendering, err := s.open(t.Context(), http.MethodGet, s.trim(0))
	if err != nil {
		t.Fatal(err)
	}
	defer rendering.Body.Close()
	var waiting [3]<-chan answer
	for i := range waiting {
		waiting[i] = s.started(s.trim(i + 1))
	}
	s.waitQueued(3)

	s.terminate()

	deadline := time.After(time.Second)
	for i, c := range waiting {
		select {
		case a := <-c:
			if a.status != http.StatusServiceUnavailable || a.code() != "shutting_down" || a.header.Get("Retry-After") == "" {
				t.Errorf("waiter %d got %d %v %s", i, a.status, a.header, a.body)
			}
		case <-deadline:
			t.Fatalf("waiter %d has no answer after a second", i)
		}
	}
	if body, err := io.ReadAll(rendering.Body); err != nil || len(body) != 30*4096 {
		t.Errorf("the running render gave %d bytes, %v", len(body), err)
	}
	_ = s.cmd.Wait()
	if staged := s.staged(); len(staged) != 0 {
		t.Errorf("left behind: %v", staged)
	}
}

// waitQueued waits until the server's own word is that so many renders wait.
func (s *server) waitQueued(n int) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprintf("%d renders wait", n), func() bool {
		a := s.get("http://localhost:" + strconv.Itoa(s.port) + "/ready")
		return strings.Contains(string(a.body), fmt.Sprintf(`"queued":%d`, n))
	})
}

// A render that outlasts the grace period is ended with the process, and leaves nothing on the disk.
func TestExitEndsWhatOutlastsTheGracePeriod(t *testing.T) {
	ffmpeg := script(t, toOutput+`trap '' TERM; while printf '%04096d' 0; do sleep 0.1; done`)
	s := newServer(t, strings.Replace(simple("ffmpeg "+ffmpeg.path, ""), "grace_period 5s", "grace_period 300ms", 1))
	resp, err := s.open(t.Context(), http.MethodGet, s.trim(0))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	s.terminate()

	_ = s.cmd.Wait()
	pid := ffmpeg.pids()[0]
	waitFor(t, "the encoder is gone", func() bool { return !alive(pid) })
	if staged := s.staged(); len(staged) != 0 {
		t.Errorf("left behind: %v", staged)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the client took half a variant for a whole one")
	}
}

// Nothing outlives a server that was killed: the kernel ends its encoders.
func TestEncodersDoNotOutliveAKilledServer(t *testing.T) {
	ffmpeg := script(t, `exec sleep 60`)
	s := newServer(t, simple("ffmpeg "+ffmpeg.path, ""))
	hangUp, gone := s.leaving(s.trim(0))
	defer gone.Wait()
	defer hangUp()
	waitFor(t, "an encoder runs", func() bool { return len(ffmpeg.pids()) == 1 })

	s.kill()

	waitFor(t, "the encoder is gone", func() bool { return !alive(ffmpeg.pids()[0]) })
	s.start() // which sweeps what the killed one left
	if staged := s.staged(); len(staged) != 0 {
		t.Errorf("left behind: %v", staged)
	}
}

// alive reports whether a process runs; one that is dead and not yet reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestTheStoresBoundFollowsTheConfigThatRuns(t *testing.T) {
	config := func(size, more string) string {
		return strings.Replace(simple("", ""), "store file_system {store}", "store file_system {store} {\nmax_size "+size+"\n}", 1) + more
	}
	s := newSite(t, config("10MB", ""))
	s.get(s.url("f:wav/t:0:5", "music.wav"))
	s.get(s.url("f:wav/t:0:4", "music.wav"))

	if err := s.tryLoad(config("1kB", "http://127.0.0.1:{port2} {\n\tbind 192.0.2.1\n\trespond hello\n}\n")); err == nil {
		t.Fatal("a config that cannot listen was loaded")
	}
	if n := len(s.stored()); n != 2 {
		t.Errorf("%d variants are left after a load that failed, want both", n)
	}
	s.load(config("1MB", ""))
	if n := len(s.stored()); n != 1 {
		t.Errorf("%d variants are left after the bound was lowered to one's size, want 1", n)
	}
}
