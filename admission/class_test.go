package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestClassesAreNamedAndOrdered(t *testing.T) {
	want := []string{"interactive", "high", "normal", "low"}
	for i, c := range admission.Classes() {
		parsed, err := admission.ParseClass(want[i])
		if err != nil || parsed != c || c.String() != want[i] || !c.Known() {
			t.Errorf("class %d is %v, parsed %v, error %v; want %s", i, c, parsed, err, want[i])
		}
		if i > 0 && (c.Outranks(c-1) || !(c - 1).Outranks(c) || c.Outranks(c)) {
			t.Errorf("%s is not just below %s", c, c-1)
		}
	}
	var zero admission.Class
	if zero != admission.Default || admission.Default != admission.Interactive {
		t.Error("a class that nobody named is not interactive")
	}
}

func TestAnUnknownClassIsAConfigurationError(t *testing.T) {
	for _, name := range []string{"", "urgent", "Low", "low "} {
		_, err := admission.ParseClass(name)
		if err == nil || !strings.Contains(err.Error(), "interactive, high, normal, low") {
			t.Errorf("class %q: error %v does not say which classes there are", name, err)
		}
	}
	if stray := admission.Class(9); stray.Known() || stray.String() != "class(9)" {
		t.Errorf("a stray number is %s", stray)
	}
}

func TestAClassIsWrittenByName(t *testing.T) {
	text, err := json.Marshal(map[admission.Class]admission.Class{admission.Low: admission.High})
	if err != nil || string(text) != `{"low":"high"}` {
		t.Fatalf("written as %s, %v", text, err)
	}
	var back map[admission.Class]admission.Class
	if err := json.Unmarshal(text, &back); err != nil || back[admission.Low] != admission.High {
		t.Fatalf("read back as %v, %v", back, err)
	}
	if json.Unmarshal([]byte(`{"urgent":"high"}`), &back) == nil {
		t.Fatal("an unknown class was read")
	}
	if _, err := json.Marshal(admission.Class(9)); err == nil {
		t.Fatal("a stray number was written")
	}
}
