package audioproxy

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium on a page of the site. Without one the tests that need it fail: what players
// do with our answers cannot be proven otherwise.
func browser(t *testing.T, page string) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("these tests need Chromium: %v", err)
	}
	// An empty profile and no work of its own: it must ask for nothing but what the test asks for.
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
	}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	options = append(options, chromedp.Flag("autoplay-policy", "no-user-gesture-required"))
	bounded, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	allocator, cancel := chromedp.NewExecAllocator(bounded, options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate(page)); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx
}

// playback is what an <audio> element did.
type playback struct {
	Duration float64 // 0 = it does not know
	Seekable float64 // up to where
	Time     float64 // where it was when we stopped it
}

// playing is JavaScript that has an <audio> element play a moment, from a position where one is given.
const playing = `(async (src, at) => {
	const audio = document.createElement('audio')
	audio.muted = true
	const next = name => new Promise((resolve, reject) => {
		audio.addEventListener(name, resolve, {once: true})
		audio.addEventListener('error', () => reject(new Error(src + ': ' + audio.error.message)), {once: true})
	})
	audio.src = src
	await next('loadedmetadata')
	if (at) {
		audio.currentTime = at
		await next('seeked')
	}
	const from = audio.currentTime
	await audio.play()
	while (audio.currentTime < from + 0.05) await next('timeupdate')
	audio.pause()
	const result = {
		Duration: isFinite(audio.duration) ? audio.duration : 0,
		Seekable: audio.seekable.length ? audio.seekable.end(0) : 0,
		Time: audio.currentTime,
	}
	audio.removeAttribute('src')
	audio.load()
	return result
})(%q, %v)`

func play(ctx context.Context, t *testing.T, src string, at float64) playback {
	t.Helper()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[playback](fmt.Sprintf(playing, src, at), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Errorf("playing %s: %v", src, err)
	}
	return result
}

func TestABrowserPlaysWhatIsColdAndSeeksInWhatIsStored(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, around("ffmpeg "+ffmpeg.path, `handle /page {
		header Content-Type text/html
		respond "<title>player</title>"
	}
	handle_path /files/* {
		audio_proxy {
			source local {root}
			variant f:opus/t:0:1
		}
	}
	audio_proxy {
		{audio}
	}`))
	s.generate("song.wav", 40)
	ctx := browser(t, fmt.Sprintf("http://localhost:%d/page", s.port))
	for i, options := range []string{"f:mp3/t:0:30", "f:m4a/t:0:30", "f:opus/t:0:30"} {
		src := s.url(options, "song.wav")

		if cold := play(ctx, t, src, 0); cold.Time <= 0 {
			t.Errorf("%s, cold: %+v", options, cold)
		}

		waitFor(t, "the variant is stored", func() bool { return s.get(src).cache() == "HIT" })
		stored := play(ctx, t, src+"?again", 20)
		if math.Abs(stored.Duration-30) > 0.1 || stored.Seekable < 29.9 || stored.Time < 20 || stored.Time > 22 {
			t.Errorf("%s, stored, from 20 s on: %+v", options, stored)
		}
		if n := len(ffmpeg.pids()); n > 2*(i+1) {
			t.Errorf("%s: %d encoders ran so far", options, n)
		}
	}
	for _, name := range oddNames {
		s.master(name, "testdata/audio/speech.wav")
		src := "/files" + (&url.URL{Path: "/" + name}).EscapedPath()
		if a := play(ctx, t, src, 0); a.Time <= 0 {
			t.Errorf("%q: %+v", name, a)
		}
		if a := s.do(t.Context(), http.MethodHead, fmt.Sprintf("http://localhost:%d%s", s.port, src)); a.status != http.StatusOK {
			t.Errorf("%q: %d", name, a.status)
		}
	}
}
