package audioproxy

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/testdata/guest"
)

// The examples are modules of the kinds that this package takes.
var (
	_ SourceModule = (*guest.Buckets)(nil)
	_ StoreModule  = (*guest.MemoryStore)(nil)
)

// R14: a guest source's inputs were always "changed", and a guest store could not make a stage.
func TestGuestModulesServe(t *testing.T) {
	buckets := t.TempDir()
	if err := os.Mkdir(filepath.Join(buckets, "masters"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("store file_system {store}", "store memory", "source local {root}", "source local {root}\n\t\tsource s3 "+buckets).
		Replace(simple("", ""))
	s := newSite(t, config)
	object := filepath.Join(buckets, "masters", "song.wav")
	content, err := os.ReadFile("testdata/audio/speech.wav")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(object, content, 0o600); err != nil {
		t.Fatal(err)
	}
	url := func(options, object string) string {
		return strings.Replace(s.url(options, object), "plain/local://", "plain/s3://", 1)
	}
	for _, options := range []string{"f:mp3/t:0:1", "f:flac", "f:peaks", "f:opus/t:0:1/fade:0.1:0.2", "f:m4a/norm:ebu"} {
		first := s.get(url(options, "masters/song.wav"))
		second := s.get(url(options, "masters/song.wav"))
		if first.status != http.StatusOK || first.err != nil || first.cache() != "MISS" || second.cache() != "HIT" || second.status != http.StatusOK {
			t.Errorf("%s: %d %v %s, then %d %s: %.100s", options, first.status, first.err, first.cache(), second.status, second.cache(), first.body)
		}
		part := s.get(url(options, "masters/song.wav"), "Range", "bytes=10-19")
		if part.status != http.StatusPartialContent || string(part.body) != string(second.body[10:20]) {
			t.Errorf("%s: a range is %d with %d bytes", options, part.status, len(part.body))
		}
	}
	if a := s.get(url("info", "masters/song.wav")); a.status != http.StatusOK {
		t.Errorf("info: %d %s", a.status, a.body)
	}
	if a := s.get(url("f:mp3", "masters/missing.wav")); a.status != http.StatusNotFound {
		t.Errorf("what is not there: %d", a.status)
	}
	// A config that comes after finds what is stored.
	s.load(config)
	if a := s.get(url("f:flac", "masters/song.wav")); a.cache() != "HIT" {
		t.Errorf("after a reload: %s", a.cache())
	}
}

// A guest's sources are followed as local ones are.
func TestGuestSourcesAreRevalidated(t *testing.T) {
	buckets := t.TempDir()
	if err := os.Mkdir(filepath.Join(buckets, "masters"), 0o700); err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(buckets, "masters", "song.wav")
	s := newSite(t, strings.Replace(simple("", "freshness revalidate"), "source local {root}", "source s3 "+buckets, 1))
	url := strings.Replace(s.url("f:mp3/t:0:1", "masters/song.wav"), "plain/local://", "plain/s3://", 1)
	for i, from := range []string{"testdata/audio/speech.wav", "testdata/audio/music.wav"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(object, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(object, time.Time{}, time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		first, second := s.get(url), s.get(url)
		if first.cache() != "MISS" || second.cache() != "HIT" {
			t.Errorf("%s: %d %s, then %s", from, first.status, first.cache(), second.cache())
		}
	}
}
