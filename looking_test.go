package audioproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/ffmpeg"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
)

// What must look at a source does so within a slot: here are the cases of that.

// copies puts n files with the same audio and different names into the root.
func (s *site) copies(n int) (names []string) {
	s.t.Helper()
	for i := range n {
		name := fmt.Sprintf("copy-%d.mp3", i)
		s.master(name, "testdata/audio/speech.mp3")
		names = append(names, name)
	}
	return names
}

// R8: twenty previews with a fade at once got sixteen 429s, since each needs to know the length of its source.
func TestTwentyPreviewsWithAFadeAreServedByOneSlot(t *testing.T) {
	s := newSite(t, simple("slots 1\nqueue 32", ""))
	var urls []string
	for _, name := range s.copies(20) {
		urls = append(urls, s.url("f:opus/br:96/t:0:2/fade:0.2:0.5", name))
	}
	for i, a := range s.all(urls) {
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("preview %d: %d %s", i, a.status, a.body)
		}
	}
}

// S9: probes ran beside the slots, and took the CPU from those who listen.
func TestWhatLooksAtASourceDoesSoWithinItsSlot(t *testing.T) {
	ffprobe := probing(t, `echo x >> "$0.begun"; sleep 0.1; echo x >> "$0.ended"; exec ffprobe "$@"`)
	s := newSite(t, simple("slots 1\nqueue 32\nffprobe "+ffprobe.path, ""))
	var urls []string
	for _, name := range s.copies(6) {
		urls = append(urls, s.url("f:flac/t:0:0.1", name))
	}
	done := make(chan []answer, 1)
	go func() { done <- s.all(urls) }()
	most := 0
	for {
		running := 0
		for _, pid := range ffprobe.pids() {
			if syscall.Kill(pid, 0) == nil {
				running++
			}
		}
		most = max(most, running)
		select {
		case answers := <-done:
			if n := count(answers, func(a answer) bool { return a.status == http.StatusOK }); n != 6 {
				t.Errorf("%d of 6 were served", n)
			}
			if most > 1 {
				t.Errorf("%d probes ran at once beside one slot", most)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// R8, second half: low requests that look at their sources shut an interactive one out.
func TestLookingAtSourcesShutsNobodyOut(t *testing.T) {
	ffprobe := probing(t, `while [ ! -e "$0.open" ]; do sleep 0.02; done; exec ffprobe "$@"`)
	s := newSite(t, simple("slots 1\nqueue 4\nffprobe "+ffprobe.path, "class low {\n\theader X-Class low\n}"))
	names := s.copies(5)
	for _, name := range names {
		go func() { s.get(s.url("f:flac/t:0:0.1", name), "X-Class", "low") }()
	}
	waitFor(t, "one has the slot and four wait", func() bool {
		stats := theEngine(t).budget.Stats()
		return stats.Held == 1 && stats.Depths[admission.Low] == 4
	})
	important := s.started(s.url("f:flac/t:0:0.2", "speech.wav"))
	waitFor(t, "it waits in the place of one of them", func() bool {
		stats := theEngine(t).budget.Stats()
		return stats.Depths[admission.Interactive] == 1 && stats.Depths[admission.Low] == 3
	})
	if err := os.WriteFile(ffprobe.path+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := <-important; a.status != http.StatusOK {
		t.Errorf("the interactive one: %d %s", a.status, a.body)
	}
	s.awaitIdle()
}

// info waits in classes and in a queue as renders do, but in a budget of its own.
func TestInfoWaitsItsTurn(t *testing.T) {
	ffprobe := probing(t, `while [ ! -e "$0.open" ]; do sleep 0.02; done; exec ffprobe "$@"`)
	s := newSite(t, simple("probes 1\nqueue 2\nffprobe "+ffprobe.path, "class low {\n\theader X-Class low\n}"))
	names := s.copies(3)
	looks := theEngine(t).lookBudget
	first := s.started(s.url("info", "speech.wav"))
	waitFor(t, "the first looks", func() bool { return looks.Stats().Held == 1 })
	displaced := make(chan answer, 2)
	for _, name := range names[:2] {
		go func() { displaced <- s.get(s.url("info", name), "X-Class", "low") }()
	}
	waitFor(t, "two wait", func() bool { return looks.Stats().Queued == 2 })
	better := s.started(s.url("info", names[2]))
	a := <-displaced
	if a.status != http.StatusTooManyRequests || a.code() != "queue_full" || a.header.Get("Retry-After") == "" {
		t.Errorf("the displaced one: %d %v %s", a.status, a.header, a.body)
	}
	if err := os.WriteFile(ffprobe.path+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range []answer{<-first, <-better, <-displaced} {
		if a.status != http.StatusOK {
			t.Errorf("one that waited: %d %s", a.status, a.body)
		}
	}
	if stats := theEngine(t).budget.Stats(); stats.Held+stats.Queued != 0 {
		t.Errorf("info took places of renders: %+v", stats)
	}
}

// A client of info that leaves while it waits leaves nothing behind, and the last one ends the probe.
func TestInfoThatNobodyWaitsForIsNotLookedUp(t *testing.T) {
	ffprobe := probing(t, `exec sleep 30`)
	s := newSite(t, simple("probes 1\nprobe_timeout 30s\nffprobe "+ffprobe.path, ""))
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.open(ctx, http.MethodGet, s.url("info", "speech.wav"))
		gone <- err
	}()
	waitFor(t, "the probe runs", func() bool { return len(ffprobe.pids()) == 1 })
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	waitFor(t, "the probe is gone, and its slot back", func() bool {
		return theEngine(t).lookBudget.Stats().Held == 0 && syscall.Kill(ffprobe.pids()[0], 0) != nil
	})
}

// S10: an undecodable source started one ffmpeg a request.
func TestAnUndecodableSourceIsTriedOnce(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(s.root, "page.mp3"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("<!DOCTYPE html><title>no song</title>")
	for range 3 {
		for _, options := range []string{"f:mp3", "f:opus"} {
			if a := s.get(s.url(options, "page.mp3")); a.status != http.StatusUnsupportedMediaType || a.code() != "undecodable_source" {
				t.Errorf("%s: %d %s", options, a.status, a.body)
			}
		}
		if a := s.get(s.url("info", "page.mp3")); a.status != http.StatusUnsupportedMediaType {
			t.Errorf("info: %d %s", a.status, a.body)
		}
	}
	first := len(ffmpeg.pids())
	if first == 0 || first > 5 { // one for the render, and two each for evidence, also to info
		t.Errorf("%d encoders ran", first)
	}
	// A file that is written anew is another source.
	write("<!DOCTYPE html><title>still no song, but another one</title>")
	s.get(s.url("f:mp3", "page.mp3"))
	if n := len(ffmpeg.pids()); n <= first {
		t.Errorf("the new file was not tried")
	}
}

func TestEachErrorHasItsEnding(t *testing.T) {
	class := func(c ffmpeg.Class) error { return fmt.Errorf("rendering: %w", &ffmpeg.Error{Class: c}) }
	for _, test := range []struct {
		err    error
		name   string
		status int
		code   string
		source bool
	}{
		{nil, "complete", 200, "", false},
		{&guard.Panic{Value: "a bug"}, "panic", 500, "render_failed", false},
		{&guard.Panic{Value: source.ErrNotFound}, "panic", 500, "render_failed", false},
		{&admission.Refusal{Reason: admission.Full}, "refused", 429, "queue_full", false},
		{&admission.Refusal{Reason: admission.Shutdown}, "refused", 503, "shutting_down", false},
		{fmt.Errorf("%w: %w", source.ErrUnavailable, syscall.EIO), "unavailable", 502, "upstream_unavailable", false},
		{fmt.Errorf("%w: %w", source.ErrUnavailable, syscall.EMFILE), "exhausted", 503, "overloaded", false},
		{fmt.Errorf("%w: %w", ffmpeg.ErrNotRunnable, syscall.EAGAIN), "exhausted", 503, "overloaded", false},
		{fmt.Errorf("%w: %w", ffmpeg.ErrNotRunnable, os.ErrNotExist), "failed", 500, "not_configured", false},
		{class(ffmpeg.Exhausted), "exhausted", 503, "overloaded", false},
		{class(ffmpeg.Unavailable), "unavailable", 502, "upstream_unavailable", false},
		{class(ffmpeg.Undecodable), "undecodable", 415, "undecodable_source", true},
		{class(ffmpeg.NoSound), "noaudio", 415, "undecodable_source", true},
		{class(ffmpeg.VideoSource), "video", 415, "video_source", true},
		{class(ffmpeg.Failed), "failed", 500, "render_failed", false},
		{&probeError{class(ffmpeg.Failed)}, "failed", 500, "probe_failed", false},
		{&probeError{class(ffmpeg.VideoSource)}, "video", 415, "video_source", true},
		{&probeError{errProbeTimeout}, "timeout", 504, "probe_timeout", false},
		{source.ErrChanged, "changed", 500, "render_failed", false},
		{&ffmpeg.Unsupported{Option: "f", Reason: "no encoder"}, "invalid", 422, "invalid_options", false},
		{&emptyTrim{}, "invalid", 422, "invalid_options", false},
		{errors.New("anything else"), "failed", 500, "render_failed", false},
	} {
		e := endingOf(test.err)
		if e.name != test.name || e.status != test.status || e.code != test.code || e.ofTheSource != test.source {
			t.Errorf("%v is %s, %d %s, of the source %v", test.err, e.name, e.status, e.code, e.ofTheSource)
		}
		if test.err == nil {
			continue
		}
		r := refusalOf(test.err)
		if waits := r.status == 429 || r.status == 503; waits != (r.retryAfter > 0) && !errors.As(test.err, new(*admission.Refusal)) {
			t.Errorf("%v: retry after %v", test.err, r.retryAfter)
		}
		if r.message() == "" {
			t.Errorf("%v: nothing to say", test.err)
		}
	}
}

// What cannot be said of a source for good is not remembered of it.
func TestOnlyWhatIsTheSourcesOwnIsRemembered(t *testing.T) {
	root, err := source.OpenLocal("testdata/audio")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	in, err := root.Open(t.Context(), "speech.mp3")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, test := range []struct {
		class     ffmpeg.Class
		validator string
		want      bool
	}{
		{ffmpeg.Undecodable, in.Validator, true},
		{ffmpeg.Undecodable, "", false},
		{ffmpeg.Unavailable, in.Validator, false},
		{ffmpeg.Exhausted, in.Validator, false},
		{ffmpeg.Failed, in.Validator, false},
		{ffmpeg.Timeout, in.Validator, false},
	} {
		m := newMemory()
		key := sourceKey{"scope", "local://speech.mp3", test.validator}
		m.refuse(t.Context(), forRender, key, in, &ffmpeg.Error{Class: test.class})
		if got := m.refusal(forRender, key) != nil; got != test.want {
			t.Errorf("%s with validator %q is remembered: %v", test.class, test.validator, got)
		}
		if m.refusal(forInfo, key) != nil {
			t.Errorf("%s of a render is believed of info", test.class)
		}
	}
}
