package audioproxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// What a refusal says in its header it says whoever renders its body, or if nobody does.
func TestErrorRoutesKeepTheHeaderOfRefusals(t *testing.T) {
	for _, route := range []string{"handle_errors {\n\trespond \"page {err.status_code}\"\n}", "handle_errors 404 {\n\trespond \"page {err.status_code}\"\n}", ""} {
		ffmpeg := script(t, `case "$*" in *"-c:a pcm_s16le"*) exit 1;; esac; exec ffmpeg "$@"`)
		s := newSite(t, around("max_source_size 4MB\nffmpeg "+ffmpeg.path, "audio_proxy {\n{audio}\nerrors caddy\ncache private\n}\n"+route))
		s.generate("large.wav", 60)
		url := s.url("f:mp3/t:0:1", "speech.wav")
		s.get(url)
		size := strconv.Itoa(len(s.get(url).body))
		for name, tc := range map[string]struct {
			answer
			status                int
			control, contentRange string
		}{
			"beyond the end":       {s.get(url, "Range", "bytes=99999999999999999999-"), 416, "no-store", "bytes */" + size},
			"beyond the end, HEAD": {s.do(t.Context(), http.MethodHead, url, "Range", "bytes=-0"), 416, "no-store", "bytes */" + size},
			"another":              {s.get(url, "If-Match", `"other"`), 412, "no-store", ""},
			"another, cold":        {s.get(s.url("f:mp3/t:0:2", "speech.wav"), "If-Match", `"other"`), 412, "no-store", ""},
			"method":               {s.do(t.Context(), http.MethodPost, url), 404, "private, max-age=10", ""},
			"missing":              {s.get(s.url("", "missing.wav")), 404, "private, max-age=10", ""},
			"large":                {s.get(s.url("f:mp3", "large.wav")), 413, "private, max-age=10", ""},
			"options":              {s.get(s.url("x:1", "speech.wav")), 422, "private, max-age=60", ""},
			"expired":              {s.get(s.url("exp:1", "speech.wav")), 410, "private, max-age=31536000, immutable", ""},
			"failed":               {s.get(s.url("f:wav/bd:16/t:0:1", "speech.wav")), 500, "no-store", ""},
		} {
			if tc.answer.status != tc.status || tc.header.Get("Cache-Control") != tc.control || tc.header.Get("Content-Range") != tc.contentRange {
				t.Errorf("%q, %s: %d %v, want %d", route, name, tc.answer.status, tc.header, tc.status)
			}
			for _, field := range []string{"ETag", "Accept-Ranges", "Last-Modified", "X-Audio-Proxy"} {
				if got := tc.header.Get(field); got != "" {
					t.Errorf("%q, %s: %s %q", route, name, field, got)
				}
			}
		}
	}
}

// notASource is a guest module of a namespace to which it does not belong.
type notASource struct{ ID caddy.ModuleID }

func (m notASource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: m.ID, New: func() caddy.Module { return &notASource{m.ID} }}
}

func init() {
	caddy.RegisterModule(notASource{"audio_proxy.sources.test_none"})
	caddy.RegisterModule(notASource{"audio_proxy.stores.test_none"})
}

// A config may be written in JSON, past what the Caddyfile checks. What is wrong in it is an error, and no panic.
func TestMistakesInJSONAreErrors(t *testing.T) {
	adapted, _, err := adapt(":1 {\n\taudio_proxy {\n\t\tsource local testdata/audio\n\t\tinsecure\n\t}\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	const local = `"local":{"root":"testdata/audio"}`
	for says, change := range map[string][2]string{
		"opens no sources":                   {local, local + `,"test_none":{}`},
		"cache is public or private":         {`"insecure":true`, `"insecure":true,"cache":"both"`},
		"client_idle must be positive":       {`"insecure":true`, `"insecure":true,"client_idle":-1`},
		"keeps no variants":                  {`"apps":{`, `"apps":{"audio_proxy":{"store":{"kind":"test_none"}},`},
		"range_wait must be positive":        {`"apps":{`, `"apps":{"audio_proxy":{"range_wait":-1},`},
		"render_timeout must be positive":    {`"apps":{`, `"apps":{"audio_proxy":{"render_timeout":-1},`},
		"probe_timeout must be positive":     {`"apps":{`, `"apps":{"audio_proxy":{"probe_timeout":-1},`},
		"probes must be positive":            {`"apps":{`, `"apps":{"audio_proxy":{"probes":-1},`},
		"max_source_size must be positive":   {`"apps":{`, `"apps":{"audio_proxy":{"max_source_size":-1},`},
		"max_variant_size must be positive":  {`"apps":{`, `"apps":{"audio_proxy":{"max_variant_size":-1},`},
		"slots must be positive":             {`"apps":{`, `"apps":{"audio_proxy":{"slots":-1},`},
		"abandoned is cancel or finish, not": {`"apps":{`, `"apps":{"audio_proxy":{"abandoned":"keep"},`},
	} {
		changed := strings.Replace(string(adapted), change[0], change[1], 1)
		if changed == string(adapted) || !json.Valid([]byte(changed)) {
			t.Fatalf("%s: the config was not changed: %s", says, changed)
		}
		if err := validate(t, []byte(changed)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
