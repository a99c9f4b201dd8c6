package audioproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/source"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// N15: what uri strip_suffix took off the end is no part of what was signed.
func TestASuffixThatTheSiteTakesOff(t *testing.T) {
	s := newSite(t, around("", `handle /fixed/* {
		uri strip_prefix /fixed
		uri strip_suffix .play
		audio_proxy {
			source local {root}
			variant f:mp3/t:0:1
		}
	}
	handle_path /audio/* {
		uri strip_suffix .mp3
		audio_proxy {
			source local {root}
			insecure
			key `+testKey+` `+testSalt+`
		}
	}
	handle {
		uri strip_suffix .mp3
		audio_proxy {
			source local {root}
			insecure
			key `+testKey+` `+testSalt+`
		}
	}`))
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a b.wav", "100%.wav", "x.mp3"} {
		s.master(name, "testdata/audio/speech.wav")
	}
	for _, path := range []string{"speech.wav", "%73peech.wav", "a%20b.wav", "100%25.wav", "x.mp3", "./speech.wav", "x/../speech.wav"} {
		rest := "/f:mp3/t:0:1/plain/local://" + path
		for _, signature := range []string{"insecure", key.Sign(rest)} {
			for _, prefix := range []string{"", "/audio", "/%61udio"} {
				for _, suffix := range []string{".mp3", "%2Emp3", ".MP3"} {
					if a := s.raw(prefix + "/" + signature + rest + suffix + "?x=.mp3"); a.status != http.StatusOK {
						t.Errorf("%s/%s%s%s: %d", prefix, signature, rest, suffix, a.status)
					}
				}
			}
		}
	}
	if a := s.raw("/fixed/a%20b.wav.play"); a.status != http.StatusOK {
		t.Errorf("a fixed variant: %d", a.status)
	}
	rest := "/f:mp3/t:0:1/plain/local://speech.wav"
	if a := s.raw("/" + key.Sign(rest+".mp3") + rest + ".mp3"); a.status != http.StatusUnauthorized {
		t.Errorf("a signature over the suffix, too: %d", a.status)
	}
}

// N16: a proxy in between that merges slashes leaves one after the scheme; that is repaired, and nothing else.
func TestMergedSlashesAfterTheSchemeAreRepaired(t *testing.T) {
	s := newSite(t, around("", strings.ReplaceAll(`handle_path /audio/* {
		audio_proxy {
			{site}
		}
	}
	audio_proxy {
		{site}
	}`, "{site}", "source local {root}\ninsecure\nkey "+testKey+" "+testSalt)))
	key, err := urlapi.NewKey(testKey, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{"/f:mp3/t:0:1/plain/local://speech.wav", "/plain/LOCAL://speech.wav", "/info/plain/local://speech.wav", "/f:mp3/plain/local%3A//speech.wav"} {
		merged := strings.ReplaceAll(rest, "//", "/")
		for _, signature := range []string{"insecure", key.Sign(rest)} {
			for _, prefix := range []string{"", "/audio"} {
				if a := s.raw(prefix + "/" + signature + merged); a.status != http.StatusOK {
					t.Errorf("%s/%s%s: %d", prefix, signature, merged, a.status)
				}
			}
		}
	}
	for path, status := range map[string]int{
		"/insecure/f:mp3/plain/local:/album//../speech.wav":                           http.StatusOK, // not merged by anybody, and folded as ever
		"/insecure/f:mp3/plain/local//speech.wav":                                     http.StatusNotFound,
		"/insecure/f:mp3/enc/local:/speech.wav":                                       http.StatusNotFound,
		"/insecure/f:mp3/plain/nothing:/speech.wav":                                   http.StatusNotFound,
		"/" + key.Sign("/plain/local://a//speech.wav") + "/plain/local:/a/speech.wav": http.StatusUnauthorized,
	} {
		if a := s.raw(path); a.status != status {
			t.Errorf("%s: %d, want %d", path, a.status, status)
		}
	}
}

// F3: joiners are part of names.
func TestNamesWithJoiners(t *testing.T) {
	s := newSite(t, simple("", ""))
	for _, name := range []string{"\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.wav", "\u0915\u094d\u200d\u0937.wav", "\U0001f468\u200d\U0001f3a4.wav"} {
		s.master(name, "testdata/audio/speech.wav")
		for _, options := range []string{"f:mp3/t:0:1", "info"} {
			if a := s.get(s.url(options, url.PathEscape(name))); a.status != http.StatusOK {
				t.Errorf("%q %s: %d %s", name, options, a.status, a.body)
			}
		}
	}
	s.master("a\u202eb.wav", "testdata/audio/speech.wav")
	if a := s.get(s.url("", "a%E2%80%AEb.wav")); a.status != http.StatusNotFound {
		t.Errorf("a name that turns the text around: %d", a.status)
	}
}

// N17: the root is what has its name now, and one that is gone is trouble, not a lack of files.
func TestARootThatIsSwitchedAndVanishes(t *testing.T) {
	releases := t.TempDir()
	current := filepath.Join(releases, "current")
	link := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, current+".new"), os.Rename(current+".new", current)); err != nil {
			t.Fatal(err)
		}
	}
	for _, release := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(releases, release), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	caddyfile := fixed("", "f:mp3/t:0:1", "")
	s := newSite(t, strings.ReplaceAll(caddyfile, "{root}", current))
	if err := os.Link(filepath.Join(s.root, "speech.wav"), filepath.Join(releases, "v1", "one.wav")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(s.root, "music.wav"), filepath.Join(releases, "v2", "two.wav")); err != nil {
		t.Fatal(err)
	}
	if a := s.get(s.path("one.mp3")); a.status != http.StatusOK {
		t.Fatalf("before: %d %s", a.status, a.body)
	}

	link("v2")

	waitFor(t, "the new release is served", func() bool {
		return s.get(s.path("two.mp3")).status == http.StatusOK && s.get(s.path("one.mp3")).status == http.StatusNotFound
	})
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its place is unavailable", func() bool { return s.get(s.path("two.mp3")).status == http.StatusBadGateway })
	for _, name := range []string{"two.wav", "one.mp3", "none.mp3"} {
		if a := s.get(s.path(name)); a.status != http.StatusBadGateway || a.code() != "upstream_unavailable" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if err := s.tryLoad(strings.ReplaceAll(caddyfile, "{root}", current)); err == nil || !strings.Contains(err.Error(), current) {
		t.Errorf("a root that is not there when the config is loaded: %v", err)
	}
	link("v1")
	if a := s.get(s.path("one.mp3")); a.status != http.StatusOK {
		t.Errorf("after it came back: %d %s", a.status, a.body)
	}
}

// N18: a file whose time says nothing has no validator: nothing of it is kept, here or by a client.
func TestASourceWithoutATimeHasNoValidator(t *testing.T) {
	s := newSite(t, simple("", "freshness revalidate"))
	when := func(seconds int64) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(s.root, "speech.wav"), time.Unix(seconds, 0), time.Unix(seconds, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, seconds := range []int64{0, 1} {
		when(seconds)
		variant := s.url(fmt.Sprintf("f:wav/t:0:1/cb:%d", seconds), "speech.wav")
		first := s.get(variant)
		if first.cache() != "MISS" || first.header.Get("ETag") != "" || strings.Contains(first.header.Get("Cache-Control"), "3600") {
			t.Errorf("%d: %d %s %v", seconds, first.status, first.cache(), first.header)
		}
		if again := s.get(variant, "If-None-Match", strong(keyNow(t, fmt.Sprintf("f:wav/t:0:1/cb:%d", seconds), "local://speech.wav"))); again.status != http.StatusOK {
			t.Errorf("%d, with a tag that it might have had: %d %s", seconds, again.status, again.cache())
		}
		if a := s.info("speech.wav"); a.header.Get("ETag") != "" || a.header.Get("Cache-Control") != "public, max-age=60" {
			t.Errorf("%d: info: %v", seconds, a.header)
		}
		s.overwrite("speech.wav", "testdata/audio/music.wav")
		when(seconds)
		if changed := s.get(variant); bytes.Equal(changed.body, first.body) {
			t.Errorf("%d: another file with the same time: the same audio", seconds)
		}
		s.overwrite("speech.wav", "testdata/audio/speech.wav")
	}
	if len(s.stored()) > 0 {
		t.Errorf("stored: %v", s.stored())
	}
	when(2)
	if s.get(s.url("f:wav", "speech.wav")); len(s.stored()) != 1 {
		t.Errorf("a file with a time is not stored")
	}
}

// keyNow is the key of a variant of the running site.
func keyNow(t *testing.T, options, name string) string {
	t.Helper()
	src, err := urlapi.ParseCanonical(name)
	if err != nil {
		t.Fatal(err)
	}
	v := &variant{source: src}
	if v.options, err = urlapi.ParseOptions(options); err != nil {
		t.Fatal(err)
	}
	if err := runningApp().sitesInOrder()[0].identify(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	v.close()
	return v.id.Key
}

// R13: clients that read what is stored for hours do not keep its master open for as long.
func TestAHitKeepsNoMasterOpen(t *testing.T) {
	for _, directive := range []string{"freshness revalidate", "freshness immutable"} {
		s := newSite(t, fixed("", "f:wav", directive))
		s.generate("long.wav", 120)
		s.get(s.path("long.wav"))
		waitFor(t, "the render has closed it", func() bool { return s.mastersOpen() == 0 })
		for range 3 {
			resp, err := s.open(t.Context(), http.MethodGet, s.path("long.wav"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil || resp.Header.Get("X-Audio-Proxy") != "HIT" {
				t.Fatalf("%v, %s", err, resp.Header.Get("X-Audio-Proxy"))
			}
		}
		waitFor(t, "no master is open beside paused clients of HITs, "+directive, func() bool { return s.mastersOpen() == 0 })
	}
}

// mastersOpen counts the descriptors that this process has of files in the root.
func (s *site) mastersOpen() (n int) {
	s.t.Helper()
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, descriptor := range descriptors {
		if name, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(name, s.root+"/") {
			n++
		}
	}
	return n
}

// R5: while warming waits for room, the file is replaced, and put back when the render has begun. What is then stored
// under the name of the one must not be the other.
func TestWarmingNeverStoresOneFileUnderTheNameOfAnother(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, observed("slots 1\nqueue 0\nffmpeg "+ffmpeg.path, "freshness revalidate"))
	variant := s.url("f:wav/bd:16/t:0:1", "speech.wav")
	other := s.started(s.url("f:mp3", "music.wav"))
	waitFor(t, "the slot is taken", func() bool { return theEngine(t).budget.Stats().Held == 1 })
	rejected := func() float64 {
		var m dto.Metric
		if err := measured.rejections.WithLabelValues("low", "full").Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	before := rejected()
	warmed := make(chan map[int]warmReport)
	go func() { warmed <- s.warm(`{"options":"f:wav/bd:16/t:0:1","source":"local://speech.wav"}`) }()
	waitFor(t, "warming waits", func() bool { return rejected() > before })
	original := filepath.Join(s.root, "speech.wav")
	if err := os.Link(original, original+".kept"); err != nil {
		t.Fatal(err)
	}
	s.overwrite("speech.wav", "testdata/audio/music.wav")

	open()

	<-other
	if got := <-warmed; got[0].Status == warmRefused {
		t.Errorf("warming: %+v", got[0])
	}
	if err := os.Rename(original+".kept", original); err != nil {
		t.Fatal(err)
	}
	got, want := s.get(variant), s.get(s.url("f:wav/bd:16/t:0:1/cb:fresh", "speech.wav"))
	if len(got.body) < 1000 || !bytes.Equal(got.body[200:], want.body[200:]) {
		t.Errorf("%s of other audio", got.cache())
	}
}

// The same for whoever else opens a source twice: key and input are of one file.
func TestAVariantIsNamedAfterTheInputItCarries(t *testing.T) {
	s := newSite(t, simple("", "freshness revalidate"))
	h := runningApp().sitesInOrder()[0]
	src, err := urlapi.ParseCanonical("local://speech.wav")
	if err != nil {
		t.Fatal(err)
	}
	v := &variant{source: src}
	if err := h.identify(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	check := func(in *source.Input, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if want := urlapi.CacheKey(v.options.Canonical(), src.String(), in.Revision()); v.id.Key != want {
			t.Errorf("key %s, but the open input's is %s", v.id.Key, want)
		}
		in.Close()
		return v.id.Key
	}
	first := check(v.take(t.Context()))
	s.overwrite("speech.wav", "testdata/audio/music.wav")
	if second := check(v.take(t.Context())); second == first {
		t.Error("two files have one key")
	}
	s.remove("speech.wav")
	if _, err := h.open(t.Context(), v); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

// S7, R12: what is not there costs its site little. In the store it is looked for only where the site keeps variants of
// sources that are gone.
func BenchmarkWhatIsNotThere(b *testing.B) {
	for _, freshness := range []string{"revalidate", "immutable"} {
		for name, folder := range map[string]string{"beside": "", "deep": strings.Repeat("d/", 60)} {
			b.Run(freshness+"/"+name, func(b *testing.B) {
				h := fixedHandler(b, freshness, folder)
				for i := 0; b.Loop(); i++ {
					if _, err := h.readFixed(b.Context(), fmt.Sprintf("%smissing-%d.opus", folder, i)); !errors.Is(err, source.ErrNotFound) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// askedStore counts what a store is asked.
type askedStore struct {
	*pooledStore
	stats, known int
}

func (s *askedStore) Stat(id store.ID) (store.Info, error) {
	s.stats++
	return s.pooledStore.Stat(id)
}

func (s *askedStore) Known(id store.ID) bool {
	s.known++
	return s.pooledStore.Known(id)
}

// S7, R12: a flood of paths that lead nowhere has the store look at its disk a few times a second, and only where the
// site keeps variants of sources that are gone.
func TestWhatIsNotThereIsHardlyLookedForInTheStore(t *testing.T) {
	for _, freshness := range []string{freshnessRevalidate, freshnessImmutable} {
		h := fixedHandler(t, freshness, "")
		kept, err := h.app.openStore()
		if err != nil {
			t.Fatal(err)
		}
		asked := &askedStore{pooledStore: kept.(*pooledStore)}
		h.app.openStore = func() (store.Store, error) { return asked, nil }
		began := time.Now()
		for i := range 200 {
			if _, err := h.readFixed(t.Context(), fmt.Sprintf("missing-%d.opus", i)); !errors.Is(err, source.ErrNotFound) {
				t.Fatal(err)
			}
		}
		searches := int(time.Since(began)/searchInterval) + 1
		each := len(h.candidates("missing.opus", "missing.opus"))
		switch {
		case freshness == freshnessRevalidate && asked.stats+asked.known > 0:
			t.Errorf("%s: the store was asked %d times", freshness, asked.stats+asked.known)
		case freshness == freshnessImmutable && (asked.stats == 0 || asked.stats > searches*each):
			t.Errorf("%s: %d looks at the disk for %d searches of %d candidates", freshness, asked.stats, searches, each)
		}
	}
}

// fixedHandler is a site of one fixed variant without a server.
func fixedHandler(b testing.TB, freshness, folder string) *Handler {
	b.Helper()
	root := b.TempDir()
	if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
		b.Fatal(err)
	}
	local, err := source.OpenLocal(root)
	if err != nil {
		b.Fatal(err)
	}
	options, err := urlapi.ParseOptions("f:opus/t:0:30")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	kept, err := holdStore(dir, 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { releaseStore(dir) })
	app := &App{openStore: func() (store.Store, error) { return kept, nil }}
	app.setDefaults()
	return &Handler{app: app, Freshness: freshness, fixed: &options, sources: map[string]SourceModule{"local": &LocalSource{root: root, local: local}}}
}

// slowGuest is a source of another kind that takes its time, and knows nothing of our errors.
type slowGuest struct{}

func (slowGuest) Open(ctx context.Context, _ string) (*source.Input, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (slowGuest) Scope() string { return "" }

// S1 for guests: a source that is not opened within probe_timeout is unavailable.
func TestASourceThatIsNotOpenedInTime(t *testing.T) {
	h := &Handler{app: &App{}, sources: map[string]SourceModule{"local": slowGuest{}}, Freshness: freshnessRevalidate}
	h.app.setDefaults()
	h.app.ProbeTimeout = 1
	src, err := urlapi.ParseCanonical("local://a.wav")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.identify(t.Context(), &variant{source: src}); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.app.ProbeTimeout = 1 << 40
	if err := h.identify(gone, &variant{source: src}); !errors.Is(err, context.Canceled) || errors.Is(err, source.ErrUnavailable) {
		t.Errorf("with nobody waiting: %v", err)
	}
}
