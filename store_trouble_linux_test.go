package audioproxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inALoop makes the folder of the only stored variant one that cannot be read, even by root, and returns what puts
// it back.
func (s *site) inALoop() (undo func()) {
	s.t.Helper()
	stored := s.stored()
	if len(stored) != 1 {
		s.t.Fatalf("stored: %v", stored)
	}
	dir, aside := filepath.Dir(stored[0]), filepath.Join(s.t.TempDir(), "aside")
	if err := os.Rename(dir, aside); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(dir), dir); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(dir); err != nil {
			s.t.Fatal(err)
		}
		if err := os.Rename(aside, dir); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Case R15: trouble with the store was a silent miss.
func TestTroubleWithTheStoreCostsARenderAndIsTold(t *testing.T) {
	s := newServer(t, observed("slots 2", ""))
	url := s.url("f:mp3/t:0:1", "speech.wav")
	if a := s.get(url); a.status != http.StatusOK || a.cache() != "MISS" {
		t.Fatalf("got %d %s", a.status, a.cache())
	}
	undo := s.inALoop()
	for range 3 {
		if a := s.get(url); a.status != http.StatusOK || a.err != nil || a.cache() == "HIT" {
			t.Errorf("got %d %s %v, want a render", a.status, a.cache(), a.err)
		}
	}
	got := read[struct {
		Store struct {
			ReadFailures int64 `json:"read_failures"`
		}
	}](t, s.admin(http.MethodGet, "/audio_proxy/status", ""))
	if got.Store.ReadFailures < 3 {
		t.Errorf("status tells of %d failures", got.Store.ReadFailures)
	}
	metrics := string(s.admin(http.MethodGet, "/metrics", "").body)
	if want := fmt.Sprintf("\ncaddy_audio_proxy_store_read_failures_total %d\n", got.Store.ReadFailures); !strings.Contains(metrics, want) {
		t.Errorf("the metrics have no line %q", want)
	}
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "reading the store"); n != 1 {
		t.Errorf("the log has %d lines of it, want 1", n)
	}
	undo()
	if a := s.get(url); a.cache() != "HIT" {
		t.Errorf("when it can be read again, it is a %s", a.cache())
	}
}

func TestTheAdminAPIDoesNotCallTroubleNotFound(t *testing.T) {
	s := newSite(t, observed("slots 2", ""))
	s.get(s.url("f:mp3/t:0:1", "speech.wav"))
	waitFor(t, "it is stored", func() bool { return len(s.stored()) == 1 })
	key, _, _ := strings.Cut(filepath.Base(s.stored()[0]), ".")
	undo := s.inALoop()
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if a := s.admin(method, "/audio_proxy/variants/"+key, ""); a.status != http.StatusBadGateway {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	undo()
	if a := s.admin(http.MethodDelete, "/audio_proxy/variants/"+key, ""); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// Case R6.
func TestWarmingLooksWhetherAVariantIsStillThere(t *testing.T) {
	s := newSite(t, observed("slots 2", ""))
	entry := `{"options":"f:mp3/t:0:1","source":"local://speech.wav"}`
	for i, want := range []string{warmStarted, warmHit, warmStarted, warmHit} {
		if i == 2 {
			if err := os.Remove(s.stored()[0]); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.warm(entry)[0]; got.Status != want {
			t.Errorf("warmed the %d. time: %+v, want %s", i+1, got, want)
		}
	}
}

// Case N19.
func TestNothingButTheStoreNeedsAPlaceForTemporaryFiles(t *testing.T) {
	s := newServer(t, simple("slots 2", ""))
	s.kill()
	s.env = []string{"TMPDIR=/nonexistent"}
	s.start()
	for _, path := range []string{
		"f:mp3/t:0:1/", "f:flac/t:0:1/", "f:wav/t:0:1/", "f:opus/t:0:1/fade:0.1:0.1/", "f:mp3/t:0:1/norm:ebu/", "f:peaks/", "info/",
	} {
		if a := s.get(s.url(strings.TrimSuffix(path, "/"), "speech.wav")); a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: %d %s %v", path, a.status, a.code(), a.err)
		}
	}
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "no place for temporary files"); n != 1 {
		t.Errorf("the log warns %d times, want once", n)
	}
}

func TestNoPlaceToRenderIntoIsAnErrorOfTheConfig(t *testing.T) {
	s := newSite(t, simple("", ""))
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	off := strings.Replace(simple("", ""), "store file_system {store}", "store off", 1)
	if err := s.tryLoad(off); err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("loading a config without a store: %v", err)
	}
	s.load(simple("slots 1", "")) // the store is a place
	if err := os.Mkdir(missing, 0o700); err != nil {
		t.Fatal(err)
	}
	s.load(off)
}
