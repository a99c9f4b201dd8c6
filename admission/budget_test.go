package admission_test

import (
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestGrantsUpToCapacityAndQueuesAfterIt(t *testing.T) {
	// Given a budget of two slots
	b := admission.New(admission.Limits{Slots: 2, Queue: 5})
	// When three ask
	first := held(t, b, admission.Interactive)
	held(t, b, admission.Interactive)
	third := queued(t, b, admission.Interactive)
	// Then two have a slot and the third gets the first that is given back.
	check(t, b, 2, 1)
	if decided(third) {
		t.Fatal("the third was decided while both slots were held")
	}
	first.Release()
	granted(t, third)
	check(t, b, 2, 0)
}
