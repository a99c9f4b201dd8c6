package urlapi_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// readVectors reads one file of the contract's machine-checkable half.
func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("../testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type optionVectors struct {
	Normalized []struct{ In, Out string }
	Refused    []struct{ In, Segment string }
}

type sourceVectors struct {
	Canonical []struct{ In, Out string }
	Refused   []string
}

type signatureVectors struct {
	Key, Salt string
	Valid     []struct{ Path, Signature string }
}

func (v signatureVectors) key(t testing.TB) urlapi.Key {
	t.Helper()
	key, err := urlapi.NewKey(v.Key, v.Salt)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestOptionVectors(t *testing.T) {
	var v optionVectors
	readVectors(t, "options.json", &v)
	if len(v.Normalized) < 29 || len(v.Refused) < 57 {
		t.Fatalf("only %d and %d rows: are these the contract's?", len(v.Normalized), len(v.Refused))
	}
	for _, row := range v.Normalized {
		o, err := urlapi.ParseOptions(row.In)
		if err != nil {
			t.Errorf("%q refused: %v", row.In, err)
		} else if got := o.Canonical(); got != row.Out {
			t.Errorf("%q: canonical %q, want %q", row.In, got, row.Out)
		}
	}
	for _, row := range v.Refused {
		_, err := urlapi.ParseOptions(row.In)
		var refused *urlapi.OptionError
		if !errors.As(err, &refused) {
			t.Errorf("%q: got %v, want an OptionError", row.In, err)
		} else if refused.Segment != row.Segment || refused.Reason == "" {
			t.Errorf("%q: blamed %q (%s), want %q", row.In, refused.Segment, refused.Reason, row.Segment)
		}
	}
}

func TestSourceVectors(t *testing.T) {
	var v sourceVectors
	readVectors(t, "sources.json", &v)
	if len(v.Canonical) < 17 || len(v.Refused) < 20 {
		t.Fatalf("only %d and %d rows: are these the contract's?", len(v.Canonical), len(v.Refused))
	}
	for _, row := range v.Canonical {
		if s, err := urlapi.ParseSource(row.In); err != nil {
			t.Errorf("%q refused: %v", row.In, err)
		} else if s.String() != row.Out {
			t.Errorf("%q: canonical %q, want %q", row.In, s, row.Out)
		}
	}
	for _, in := range v.Refused {
		s, err := urlapi.ParseSource(in)
		var refused *urlapi.SourceError
		if !errors.As(err, &refused) {
			t.Errorf("%q: got %q and %v, want a SourceError", in, s, err)
		}
	}
}

func TestSignatureVectors(t *testing.T) {
	var v signatureVectors
	readVectors(t, "signatures.json", &v)
	if len(v.Valid) < 7 {
		t.Fatalf("only %d rows: are these the contract's?", len(v.Valid))
	}
	key := v.key(t)
	for _, row := range v.Valid {
		if got := key.Sign(row.Path); got != row.Signature {
			t.Errorf("%q: signature %q, want %q", row.Path, got, row.Signature)
		}
		signature, rest, ok := urlapi.Split("/" + row.Signature + row.Path)
		if !ok || signature != row.Signature || rest != row.Path {
			t.Errorf("%q: split into %q and %q (%v)", row.Path, signature, rest, ok)
		}
		if !(urlapi.Keyring{key}).Verify(signature, rest) {
			t.Errorf("%q: does not verify", row.Path)
		}
	}
}

func TestCacheKeyVectors(t *testing.T) {
	var v map[string][]struct{ Options, Source, Key string }
	readVectors(t, "cache_keys.json", &v)
	rows := v["sha256 of options + LF + source"]
	if len(rows) < 4 {
		t.Fatalf("only %d rows: are these the contract's?", len(rows))
	}
	for _, row := range rows {
		if got := urlapi.CacheKey(row.Options, row.Source); got != row.Key || !urlapi.IsKey(got) {
			t.Errorf("%q of %q: key %q, want %q", row.Options, row.Source, got, row.Key)
		}
	}
}
