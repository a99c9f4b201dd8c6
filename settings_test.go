package audioproxy

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Keys rotate without an outage: the old one verifies until it is taken out.
func TestAnyOfSeveralKeysVerifies(t *testing.T) {
	const otherKey = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	salt := filepath.Join(t.TempDir(), "salt")
	if err := os.WriteFile(salt, []byte("00ff"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AUDIO_PROXY_TEST_KEY", otherKey)
	both := around("", "audio_proxy {\nsource local {root}\nkey "+testKey+" "+testSalt+"\nkey {env.AUDIO_PROXY_TEST_KEY} {file."+salt+"}\n}")
	s := newSite(t, both)
	ask := func(key, salt string) int {
		signer, err := urlapi.NewKey(key, salt)
		if err != nil {
			t.Fatal(err)
		}
		rest := "/f:mp3/t:0:1/plain/local://speech.wav"
		return s.get("http://localhost:" + strconv.Itoa(s.port) + "/" + signer.Sign(rest) + rest).status
	}
	if a, b := ask(testKey, testSalt), ask(otherKey, "00ff"); a != http.StatusOK || b != http.StatusOK {
		t.Errorf("the first key: %d, the second: %d", a, b)
	}
	if mixed := ask(testKey, "00ff"); mixed != http.StatusUnauthorized {
		t.Errorf("one key with the other's salt: %d", mixed)
	}
	if a := s.get(s.url("f:mp3/t:0:1", "speech.wav")); a.status != http.StatusUnauthorized {
		t.Errorf("the word insecure, where the site does not say so: %d", a.status)
	}
	s.load(strings.Replace(both, "key "+testKey+" "+testSalt+"\n", "", 1))
	if a, b := ask(testKey, testSalt), ask(otherKey, "00ff"); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("after the first key was taken out: %d and %d", a, b)
	}
}

// A class decides who waits, and is no part of the variant. It may be had from any of Caddy's matchers, and the
// first rule that matches counts.
func TestClassesComeFromAnyMatcherInWrittenOrder(t *testing.T) {
	ffmpeg, open := gated(t)
	s := newSite(t, around("slots 9\nffmpeg "+ffmpeg.path, `@prefetch header Sec-Purpose prefetch*
	audio_proxy {
		{audio}
		class low @prefetch
		class high /insecure/f:mp3/t:0:1/cb:1/*
		class normal {
			expression {http.request.header.X-Bot} == "1"
			remote_ip 127.0.0.1 ::1
		}
		class high {
			header X-Bot *
		}
		default_class low
	}`))
	for i, tc := range []struct {
		source, class string
		header        []string
	}{
		{"speech.wav", "low", nil},
		{"music.wav", "high", nil},
		{"music.wav", "low", []string{"Sec-Purpose", "prefetch;prerender"}},
		{"speech.wav", "normal", []string{"X-Bot", "1"}},
		{"speech.wav", "high", []string{"X-Bot", "2"}},
	} {
		s.started(s.url("f:mp3/t:0:1/cb:"+strconv.Itoa(i), tc.source), tc.header...)
		waitFor(t, "it renders", func() bool { return len(theEngine(t).flights.Flights()) == i+1 })
		flights := theEngine(t).flights.Flights()
		newest := slices.MinFunc(flights, func(a, b coalesce.Status) int { return cmp.Compare(a.Age, b.Age) })
		if got := newest.Class.String(); got != tc.class {
			t.Errorf("%s with %v is of class %s, want %s", tc.source, tc.header, got, tc.class)
		}
	}
	open()
	waitFor(t, "all are rendered", s.isIdle)
	if a := s.get(s.url("f:mp3/t:0:1/cb:0", "speech.wav"), "X-Bot", "1"); a.cache() != "HIT" {
		t.Errorf("the same variant for another class: %s", a.cache())
	}
}

func TestAPresetIsTheVariantThatItSpells(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, "preset short f:opus/br:96/t:0:1"))
	s.get(s.url("f:opus/t:0:1/br:96", "speech.wav"))
	if a := s.get(s.url("p:short", "speech.wav")); a.cache() != "HIT" {
		t.Errorf("the preset: %d %s", a.status, a.cache())
	}
	if a := s.get(s.url("br:64/p:short", "speech.wav")); a.cache() != "MISS" {
		t.Errorf("with an option that overrides: %d %s", a.status, a.cache())
	}
	if a := s.get(s.url("f:opus/br:64/t:0:1", "speech.wav")); a.cache() != "HIT" {
		t.Errorf("and spelled out: %d %s", a.status, a.cache())
	}
	for _, options := range []string{"p:none", "p:short/p:short", "p:"} {
		if a := s.get(s.url(options, "speech.wav")); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "p:") {
			t.Errorf("%s: %d %s", options, a.status, a.body)
		}
	}
}

func TestContradictionsAreRefusedAtLoad(t *testing.T) {
	s := newSite(t, simple("", ""))
	for name, lines := range map[string]string{
		"nobody could be served":         "source local {root}",
		"key and insecure have no place": "source local {root}\nvariant f:mp3\ninsecure",
		"presets have no place":          "source local {root}\nvariant f:mp3\npreset a f:mp3",
		"there is no preset":             "source local {root}\ninsecure\npresets_only",
		"a fixed variant cannot expire":  "source local {root}\nvariant f:mp3/exp:4102444800",
		"there is nothing to serve":      "insecure",
		"it needs one: source local":     "variant f:mp3",
		"bitrate":                        "source local {root}\nvariant f:mp3/bitrate:1",
		"freshness is immutable or":      "source local {root}\ninsecure\nfreshness never",
		"takes a duration":               "source local {root}\ninsecure\nclient_idle 0",
		"a preset cannot expire":         "source local {root}\ninsecure\npreset a f:mp3/exp:4102444800",
		"at least 32":                    "source local {root}\nkey 00 00",
	} {
		err := s.tryLoad(around("", "audio_proxy {\n"+lines+"\n}"))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want an error that says %q", lines, err, name)
		}
	}
}
