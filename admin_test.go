package audioproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// observed is a simple site with Caddy's admin endpoint on {port2}.
func observed(global, directive string) string {
	return strings.Replace(simple(global, directive), "admin off", "admin localhost:{port2}", 1)
}

// admin asks Caddy's admin endpoint.
func (s *site) admin(method, path, body string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method,
		fmt.Sprintf("http://localhost:%d%s", s.port+1, path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.send(req)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return answer{err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, content, err}
}

// read decodes the JSON of an answer.
func read[T any](t *testing.T, a answer) (value T) {
	t.Helper()
	if err := json.Unmarshal(a.body, &value); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return value
}

// warm posts entries and returns the reports by entry.
func (s *site) warm(body string) map[int]warmReport {
	s.t.Helper()
	a := s.admin(http.MethodPost, "/audio_proxy/warm", body)
	if a.status != http.StatusOK || a.err != nil {
		s.t.Fatalf("warm: %d %s %v", a.status, a.body, a.err)
	}
	reports := make(map[int]warmReport)
	for line := range strings.Lines(string(a.body)) {
		var r warmReport
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		if _, twice := reports[r.Entry]; twice {
			s.t.Errorf("entry %d was reported twice", r.Entry)
		}
		reports[r.Entry] = r
	}
	return reports
}

func TestStatusTellsOfBudgetProbesStoreAndFFmpeg(t *testing.T) {
	s := newSite(t, observed("slots 2\nqueue 5\nprobes 7", ""))
	s.get(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "nothing renders", s.isIdle)

	got := read[serverStatus](t, s.admin(http.MethodGet, "/audio_proxy/status", ""))

	if b := got.Budget; b.Slots != 2 || b.Held != 0 || b.Queue != 5 || b.Queued != 0 || len(b.Depth) != 4 || b.Closed {
		t.Errorf("budget: %+v", b)
	}
	if got.Probes.Capacity != 7 || got.Probes.Running != 0 {
		t.Errorf("probes: %+v", got.Probes)
	}
	if got.Store == nil || got.Store.Files != 1 || got.Store.Bytes < 1000 || got.Store.MaxBytes != 1<<30 {
		t.Errorf("store: %+v", got.Store)
	}
	version := strings.Fields(run(t, "ffmpeg", "-version"))[2]
	if got.FFmpeg.Version != version || !strings.HasSuffix(got.FFmpeg.Path, "ffmpeg") {
		t.Errorf("ffmpeg: %+v, want version %s", got.FFmpeg, version)
	}
}

func TestRendersAreListedAndCancelled(t *testing.T) {
	ffmpeg, open := gated(t)
	defer open()
	s := newSite(t, observed("slots 1\nqueue 5\nffmpeg "+ffmpeg.path, "class low /insecure/f:mp3/t:0:2/*"))
	rendering := s.started(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "a render holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	waiting := s.started(s.url("f:mp3/t:0:2", "speech.wav"))
	waitFor(t, "another one waits", func() bool { return theEngine(t).budget.Stats().Queued == 1 })

	renders := read[[]renderStatus](t, s.admin(http.MethodGet, "/audio_proxy/renders", ""))

	states := make(map[string]renderStatus)
	for _, r := range renders {
		states[r.State] = r
	}
	first, second := states["rendering"], states["waiting"]
	if len(renders) != 2 || first.Options != "f:mp3/t:0:1" || first.Source != "local://speech.wav" ||
		first.Class.String() != "interactive" || second.Class.String() != "low" || first.Listeners != 1 || first.Age <= 0 {
		t.Errorf("listed: %+v", renders)
	}

	for _, r := range renders {
		if a := s.admin(http.MethodDelete, "/audio_proxy/renders/"+r.Key, ""); a.status != http.StatusOK || !strings.Contains(string(a.body), `"cancelled":1`) {
			t.Errorf("cancelling: %d %s", a.status, a.body)
		}
	}
	for _, c := range []<-chan answer{rendering, waiting} {
		if a := <-c; a.status != http.StatusInternalServerError && a.status != http.StatusServiceUnavailable {
			t.Errorf("a listener of a cancelled render got %d %s", a.status, a.body)
		}
	}
	if a := s.admin(http.MethodDelete, "/audio_proxy/renders/"+first.Key, ""); a.status != http.StatusNotFound {
		t.Errorf("cancelling again: %d %s", a.status, a.body)
	}
	if renders := read[[]renderStatus](t, s.admin(http.MethodGet, "/audio_proxy/renders", "")); len(renders) != 0 {
		t.Errorf("still listed: %+v", renders)
	}
	waitFor(t, "nothing is left", s.isIdle)
}

func TestVariantsAreFoundAndForgotten(t *testing.T) {
	s := newSite(t, observed("", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	size := len(s.get(url).body)
	a := s.get(url)
	key := strings.Trim(a.header.Get("ETag"), `"`)
	if a.cache() != "HIT" {
		t.Fatalf("the second answer is a %s", a.cache())
	}

	stored := read[[]variantStatus](t, s.admin(http.MethodGet, "/audio_proxy/variants/"+key, ""))

	if len(stored) != 1 || stored[0].Size != int64(size) || stored[0].Key != key || time.Since(stored[0].LastUsed) > time.Minute || stored[0].Age < 0 {
		t.Errorf("stored: %+v, want one of %d bytes", stored, size)
	}
	s.awaitIdle() // nobody can join the render that stored it
	if a := s.admin(http.MethodDelete, "/audio_proxy/variants/"+key, ""); a.status != http.StatusOK || !strings.Contains(string(a.body), `"forgotten":1`) {
		t.Errorf("forgetting: %d %s", a.status, a.body)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if a := s.admin(method, "/audio_proxy/variants/"+key, ""); a.status != http.StatusNotFound {
			t.Errorf("%s of what was forgotten: %d %s", method, a.status, a.body)
		}
	}
	if a := s.get(url); a.cache() != "MISS" {
		t.Errorf("the answer after that is a %s", a.cache())
	}
}

func TestAdminErrorsAreCaddysOwn(t *testing.T) {
	key := strings.Repeat("0", 64)
	for _, tc := range []struct {
		config             string
		method, path, body string
		status             int
		says               string
	}{
		{observed("", ""), "GET", "/audio_proxy/nothing", "", 404, "no such endpoint"},
		{observed("", ""), "GET", "/audio_proxy/", "", 404, "no such endpoint"},
		{observed("", ""), "GET", "/audio_proxy/variants/", "", 404, "no such endpoint"},
		{observed("", ""), "POST", "/audio_proxy/status", "", 405, "POST"},
		{observed("", ""), "GET", "/audio_proxy/renders/" + key, "", 405, "GET"},
		{observed("", ""), "DELETE", "/audio_proxy/renders/abc", "", 400, "64"},
		{observed("", ""), "GET", "/audio_proxy/variants/" + strings.Repeat("A", 64), "", 400, "64"},
		{observed("", ""), "DELETE", "/audio_proxy/renders/" + key, "", 404, "rendering"},
		{observed("", ""), "GET", "/audio_proxy/variants/" + key, "", 404, "stored"},
		{observed("", ""), "POST", "/audio_proxy/warm", `{"options":"f:mp3"`, 400, "entry 0"},
		{observed("", ""), "POST", "/audio_proxy/warm", `{"option":"f:mp3"}`, 400, "option"},
		{observed("", ""), "POST", "/audio_proxy/warm", `[{"source":"local://a.wav"}] x`, 400, "behind"},
		{observed("", ""), "POST", "/audio_proxy/warm", `[{"source":1}]`, 400, "array"},
		{observed("", ""), "GET", "/audio_proxy/warm", "", 405, "GET"},
		{strings.Replace(observed("", ""), "store file_system {store}", "store off", 1), "POST", "/audio_proxy/warm", "", 404, "store off"},
		{strings.Replace(observed("", ""), "store file_system {store}", "store off", 1), "GET", "/audio_proxy/variants/" + key, "", 404, "store off"},
		{"{\n\tadmin localhost:{port2}\n\tpersist_config off\n}\n", "GET", "/audio_proxy/status", "", 404, "audio_proxy"},
	} {
		t.Run(tc.says, func(t *testing.T) {
			a := newSite(t, tc.config).admin(tc.method, tc.path, tc.body)
			var e struct{ Error string }
			if err := json.Unmarshal(a.body, &e); err != nil || a.status != tc.status || !strings.Contains(e.Error, tc.says) {
				t.Errorf("%d %s (%v), want %d and %q", a.status, a.body, err, tc.status, tc.says)
			}
		})
	}
}

func TestWarmingFillsTheStoreAtTheBudgetsPace(t *testing.T) {
	s := newSite(t, observed("slots 2\nqueue 3", ""))
	const n = 200
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"options":"f:opus/br:32/t:0.%03d:0.05","source":"local://speech.wav"}`, i))
	}
	e := theEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	mostQueued := make(chan int)
	go func() {
		most := 0
		for ctx.Err() == nil {
			most = max(most, e.budget.Stats().Queued)
			time.Sleep(time.Millisecond)
		}
		mostQueued <- most
	}()

	first := s.warm(strings.Join(entries, "\n"))
	cancel()

	if most := <-mostQueued; most > 2 {
		t.Errorf("%d entries waited at a time: warming asks for more than there are slots", most)
	}
	second := s.warm("[" + strings.Join(entries, ",") + "]")
	for i := range n {
		if first[i].Status != warmStarted || second[i].Status != warmHit || len(first[i].Key) != 64 || first[i].Key != second[i].Key {
			t.Fatalf("entry %d: first %+v, then %+v", i, first[i], second[i])
		}
	}
	if got := len(s.stored()); got != n {
		t.Errorf("%d variants are stored, want %d", got, n)
	}
	a := s.get(s.url("f:opus/br:32/t:0.007:0.05", "speech.wav"))
	if a.cache() != "HIT" || a.header.Get("ETag") != `"`+first[7].Key+`"` {
		t.Errorf("a request for what was warmed: %s %s", a.cache(), a.header.Get("ETag"))
	}
}

func TestRequestsGoBeforeWhatIsWarmed(t *testing.T) {
	// An encoder takes a quarter of a second here, whatever the machine does.
	ffmpeg := script(t, `sleep 0.25; exec ffmpeg "$@"`)
	s := newSite(t, observed("slots 1\nqueue 2\nffmpeg "+ffmpeg.path, ""))
	var entries []string
	for i := range 8 {
		entries = append(entries, fmt.Sprintf(`{"options":"f:opus/t:0.%d:0.1","source":"local://speech.wav"}`, i))
	}
	warmed := make(chan map[int]warmReport)
	go func() { warmed <- s.warm(strings.Join(entries, "\n")) }()
	waitFor(t, "warming has begun", func() bool { return theEngine(t).budget.Stats().Held == 1 })

	a := s.get(s.url("f:mp3/t:0:0.1", "speech.wav"))

	before := len(ffmpeg.pids()) // the request's own is the last of them, unless others were begun while it rendered
	if a.status != http.StatusOK || before > 3 {
		t.Errorf("the request got %d when %d encoders had been started: it waited for more than the one that ran", a.status, before)
	}
	for i, r := range <-warmed {
		if r.Status != warmStarted {
			t.Errorf("entry %d: %+v", i, r)
		}
	}
}

func TestWarmingWaitsForRoomAtTheClassLow(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, observed("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, ""))
	rendering := s.started(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "a request holds the slot", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	before := s.scrape()
	reports := make(chan map[int]warmReport)
	go func() { reports <- s.warm(`{"options":"f:mp3/t:0:2","source":"local://speech.wav"}`) }()
	waitFor(t, "the budget has refused it at the class low", func() bool {
		return moved(before, s.scrape())["queue_rejections_total{class=low,reason=full}"] >= 1
	})

	open()

	if got := <-reports; got[0].Status != warmStarted {
		t.Errorf("reported %+v", got[0])
	}
	if a := <-rendering; a.status != http.StatusOK {
		t.Errorf("the request got %d", a.status)
	}
}

func TestWarmingReportsEachEntryAsItIs(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, observed("slots 1\nffmpeg "+ffmpeg.path, "preset short f:mp3/t:0:1"))
	if err := os.WriteFile(s.root+"/text.wav", []byte(strings.Repeat("This is no audio.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	listening := s.started(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "a request renders", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	reports := make(chan map[int]warmReport)
	go func() {
		reports <- s.warm(`{"options":"p:short","source":"local://speech.wav"}
			{"options":"f:mp3/t:0:2","source":"local://speech.wav","class":"normal"}
			{"options":"f:mp3","source":"local://nothing.wav"}
			{"options":"f:mp4","source":"local://speech.wav"}
			{"options":"f:mp3","source":"local://speech.wav","class":"interactive"}
			{"options":"f:mp3","source":"local://speech.wav","class":"urgent"}
			{"options":"f:mp3","source":"local://text.wav"}
			{"options":"f:mp3","source":"s3://bucket/speech.wav"}
			{"options":"f:mp3","source":"local://../speech.wav"}`)
	}()
	waitFor(t, "warming joins it", func() bool {
		for _, f := range theEngine(t).flights.Flights() {
			if f.Listeners == 2 {
				return true
			}
		}
		return false
	})
	open()

	got := <-reports

	for i, want := range []struct{ status, err string }{
		{warmJoined, ""}, {warmStarted, ""}, {warmRefused, "not_found"}, {warmRefused, "invalid_options"},
		{warmRefused, endInvalidEntry.code}, {warmRefused, endInvalidEntry.code}, {warmRefused, "undecodable_source"},
		{warmRefused, "not_found"}, {warmRefused, "not_found"},
	} {
		if got[i].Status != want.status || got[i].Error != want.err || (want.err == "") != (got[i].Message == "") {
			t.Errorf("entry %d: %+v, want %s %s", i, got[i], want.status, want.err)
		}
	}
	if a := <-listening; a.status != http.StatusOK {
		t.Errorf("the request got %d", a.status)
	}
}

func TestWarmingFindsTheSiteThatHasTheSource(t *testing.T) {
	other := t.TempDir()
	s := newSite(t, observed("", "")+`
http://127.0.0.1:{port} {
	audio_proxy {
		source local `+other+`
		variant f:opus/br:32/t:0:0.5
	}
}
`)
	content, err := os.ReadFile("testdata/audio/music.wav")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other+"/elsewhere.wav", content, 0o600); err != nil {
		t.Fatal(err)
	}

	got := s.warm(`{"source":"local://elsewhere.wav"} {"options":"f:mp3","source":"local://elsewhere.wav"}`)

	if got[0].Status != warmStarted || got[1].Error != endInvalidEntry.code {
		t.Errorf("reports: %+v", got)
	}
	a := s.get(fmt.Sprintf("http://127.0.0.1:%d/elsewhere.wav", s.port))
	if a.cache() != "HIT" {
		t.Errorf("the site answers %d %s, want a hit", a.status, a.cache())
	}
}

func TestWarmingStopsWhenItsClientHangsUp(t *testing.T) {
	ffmpeg, open := gated(t)
	defer open()
	s := newSite(t, observed("slots 1\nffmpeg "+ffmpeg.path, ""))
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://localhost:%d/audio_proxy/warm", s.port+1),
		strings.NewReader(`{"options":"t:0:1","source":"local://speech.wav"} {"options":"t:0:2","source":"local://speech.wav"}`))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	waitFor(t, "an entry renders", func() bool { return len(ffmpeg.pids()) == 1 })

	hangUp()
	<-done

	waitFor(t, "nothing is left", s.isIdle)
	if n := len(ffmpeg.pids()); n != 1 {
		t.Errorf("%d encoders were started, want 1", n)
	}
}

func TestAdminAnswersForTheConfigThatRuns(t *testing.T) {
	s := newSite(t, observed("slots 2", ""))
	s.get(s.url("f:mp3/t:0:1", "speech.wav"))
	slots := func() int {
		return read[serverStatus](t, s.admin(http.MethodGet, "/audio_proxy/status", "")).Budget.Slots
	}
	if err := s.tryLoad(observed("slots 5", "") + "http://192.0.2.1:{port} {\n\trespond hello\n\tbind 192.0.2.1\n}\n"); err == nil {
		t.Fatal("a config was loaded that cannot listen")
	}
	if got := slots(); got != 2 {
		t.Errorf("after a failed load there are %d slots, want 2", got)
	}
	if got := s.warm(`{"options":"f:mp3/t:0:1","source":"local://speech.wav"}`)[0]; got.Status != warmHit {
		t.Errorf("after a failed load: %+v", got)
	}
	s.load(observed("slots 3", ""))
	if got := slots(); got != 3 {
		t.Errorf("after a reload there are %d slots, want 3", got)
	}
}
