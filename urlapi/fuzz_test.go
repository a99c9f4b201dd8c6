package urlapi_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func FuzzParseOptions(f *testing.F) {
	var v optionVectors
	readVectors(f, "options.json", &v)
	for _, row := range v.Normalized {
		f.Add(row.In)
	}
	for _, row := range v.Refused {
		f.Add(row.In)
	}
	f.Fuzz(func(t *testing.T, in string) {
		o, err := urlapi.ParseOptions(in)
		if err == nil {
			checkCanonicalOptions(t, o)
			if o.Expires != urlapi.PeekExpiry(in) {
				t.Fatalf("%q: expiry %d, peeked %d", in, o.Expires, urlapi.PeekExpiry(in))
			}
			return
		}
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) {
			t.Fatalf("%q: %v is no OptionError", in, err)
		}
		if !strings.Contains("/"+in+"/", "/"+refused.Segment+"/") {
			t.Fatalf("%q: blamed %q, which was not sent", in, refused.Segment)
		}
	})
}

func FuzzParseSource(f *testing.F) {
	var v sourceVectors
	readVectors(f, "sources.json", &v)
	for _, row := range v.Canonical {
		f.Add(row.In)
	}
	for _, in := range v.Refused {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := urlapi.ParseSource(in)
		if err == nil {
			checkCanonicalSource(t, s)
			return
		}
		var refused *urlapi.SourceError
		if !errors.As(err, &refused) || s != (urlapi.Source{}) {
			t.Fatalf("%q: %+v and %v", in, s, err)
		}
	})
}

func FuzzSplitVerify(f *testing.F) {
	var v signatureVectors
	readVectors(f, "signatures.json", &v)
	key := v.key(f)
	for _, row := range v.Valid {
		f.Add("/" + row.Signature + row.Path)
		f.Add("/" + row.Signature + "=" + row.Path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		signature, rest, ok := urlapi.Split(path)
		if !ok {
			return
		}
		if "/"+signature+rest != path || strings.Contains(signature, "/") || !strings.HasPrefix(rest, "/") {
			t.Fatalf("%q: split into %q and %q", path, signature, rest)
		}
		good := key.Sign(rest)
		want := signature == good || signature == good+"="
		if got := (urlapi.Keyring{key}).Verify(signature, rest); got != want {
			t.Fatalf("%q: verifies %v, want %v", path, got, want)
		}
		if url.PathEscape(good) != good {
			t.Fatalf("signature %q needs escaping", good)
		}
		req, err := urlapi.ParseRequest(rest)
		if err == nil && !strings.HasSuffix(rest, "/"+req.Source) {
			t.Fatalf("%q: source %q", rest, req.Source)
		}
	})
}
