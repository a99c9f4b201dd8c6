package urlapi_test

import (
	"errors"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestSplit(t *testing.T) {
	for path, want := range map[string]struct {
		signature, rest string
		ok              bool
	}{
		"/sig/plain/local://a%2Fb.wav": {"sig", "/plain/local://a%2Fb.wav", true},
		"/sig/":                        {"sig", "/", true},
		"/sig//x":                      {"sig", "//x", true},
		"//sig/x":                      {"", "/sig/x", true},
		"/sig":                         {"", "", false},
		"/":                            {"", "", false},
		"":                             {"", "", false},
		"sig/plain/local://a.wav":      {"", "", false},
	} {
		signature, rest, ok := urlapi.Split(path)
		if signature != want.signature || rest != want.rest || ok != want.ok {
			t.Errorf("%q: got %q, %q, %v", path, signature, rest, ok)
		}
	}
}

func TestParseRequest(t *testing.T) {
	type request = urlapi.Request
	for rest, want := range map[string]request{
		"/plain/local://a.wav":                  {Source: "plain/local://a.wav"},
		"/f:mp3/br:96/plain/local://a.wav":      {OptionSegments: "f:mp3/br:96", Source: "plain/local://a.wav"},
		"/f:mp3/enc/bG9jYWw6Ly9h":               {OptionSegments: "f:mp3", Source: "enc/bG9jYWw6Ly9h"},
		"/info/plain/local://a.wav":             {Info: true, Source: "plain/local://a.wav"},
		"/info/enc/bG9jYWw6Ly9h":                {Info: true, Source: "enc/bG9jYWw6Ly9h"},
		"/f:mp3/plain/local://enc/plain/info/a": {OptionSegments: "f:mp3", Source: "plain/local://enc/plain/info/a"},
		"/cb:plain/plainer/enc/x":               {OptionSegments: "cb:plain/plainer", Source: "enc/x"},
		"/f:mp3//br:96/plain/local://a.wav":     {OptionSegments: "f:mp3//br:96", Source: "plain/local://a.wav"},
		"/f:mp3//plain/local://a.wav":           {OptionSegments: "f:mp3/", Source: "plain/local://a.wav"},
		"/f:mp3/info/plain/local://a.wav":       {OptionSegments: "f:mp3/info", Source: "plain/local://a.wav"},
		"/f:mp3/plain":                          {OptionSegments: "f:mp3", Source: "plain"},
		"/information/plain/local://a.wav":      {OptionSegments: "information", Source: "plain/local://a.wav"},
	} {
		got, err := urlapi.ParseRequest(rest)
		if err != nil || got != want {
			t.Errorf("%q: got %+v and %v, want %+v", rest, got, err, want)
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, rest := range []string{"", "/", "/f:mp3", "/f:mp3/", "/local://a.wav", "/Plain/local://a.wav", "/info", "/info/", "plain/local://a.wav"} {
		_, err := urlapi.ParseRequest(rest)
		var refused *urlapi.SourceError
		if !errors.As(err, &refused) {
			t.Errorf("%q: got %v, want a SourceError", rest, err)
		}
	}
	for rest, segment := range map[string]string{
		"//plain/local://a.wav":                "",
		"/info/f:mp3/plain/local://a.wav":      "f:mp3",
		"/info/f:mp3/br:1/plain/local://a.wav": "f:mp3",
		"/info/exp:1/plain/local://a.wav":      "exp:1",
		"/info//plain/local://a.wav":           "",
		"/info/info/plain/local://a.wav":       "info",
	} {
		_, err := urlapi.ParseRequest(rest)
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) || refused.Segment != segment {
			t.Errorf("%q: got %v, want %q blamed", rest, err, segment)
		}
	}
	// What ParseRequest leaves alone, ParseOptions refuses.
	for options, segment := range map[string]string{"f:mp3/": "", "/f:mp3": "", "f:mp3/info": "info"} {
		_, err := urlapi.ParseOptions(options)
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) || refused.Segment != segment {
			t.Errorf("%q: got %v, want %q blamed", options, err, segment)
		}
	}
}

// Field case N16: a proxy that merges slashes leaves one after the scheme. It is put back there, and nowhere else.
func TestRestoreSlash(t *testing.T) {
	for rest, want := range map[string]string{
		"/plain/local:/a.wav":                     "/plain/local://a.wav",
		"/f:mp3/br:96/plain/local:/a.wav":         "/f:mp3/br:96/plain/local://a.wav",
		"/info/plain/LOCAL:/a/b.wav":              "/info/plain/LOCAL://a/b.wav",
		"/plain/s3:/bucket/a/b":                   "/plain/s3://bucket/a/b",
		"/plain/https:/h.example/a":               "/plain/https://h.example/a",
		"/plain/x-guest+1.0:/a":                   "/plain/x-guest+1.0://a",
		"/plain/local%3A/a.wav":                   "/plain/local%3A//a.wav",
		"/plain/local%3a/a.wav":                   "/plain/local%3a//a.wav",
		"/plain/local:/":                          "/plain/local://",
		"/plain/local:/plain/local:/a.wav":        "/plain/local://plain/local:/a.wav",
		"/plain/local:/a/https:/b":                "/plain/local://a/https:/b",
		"/cb:local:/f:mp3/plain/local:/a%2Fb.wav": "/cb:local:/f:mp3/plain/local://a%2Fb.wav",
	} {
		if got := urlapi.RestoreSlash(rest); got != want {
			t.Errorf("%q: got %q, want %q", rest, got, want)
		}
	}
	for _, rest := range []string{
		"", "/", "plain/local:/a.wav", "/plain", "/plain/", "/plain/local:", "/plain/local://a.wav", "/plain/local:///a.wav", "/plain/local://a/https:/b",
		"/plain/a/local:/b", "/plain/:/a", "/plain/1x:/a", "/plain/-:/a", "/plain/a_b:/a", "/plain/%3A/a", "/plain/a%20b:/c", "/plain/local%2F/a", "/plain/local/a",
		"/enc/local:/a", "/enc/bG9jYWw6Ly9h", "/f:mp3/local:/a", "/plainer/local:/a", "/plain/s3://b/a:/c", "/plain/s3://b/c:/d",
	} {
		if got := urlapi.RestoreSlash(rest); got != rest {
			t.Errorf("%q: changed to %q", rest, got)
		}
	}
}
