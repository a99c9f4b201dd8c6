package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestLimitsThatMakeNoSenseAreRefused(t *testing.T) {
	good := admission.Limits{Slots: 2, Queue: 4, MaxWait: time.Minute, ReadyThreshold: 4,
		ClassLimits: [admission.NumClasses]int{admission.Low: 1}}
	if err := good.Validate(); err != nil {
		t.Fatalf("good limits: %v", err)
	}
	if err := (admission.Limits{Slots: 1}).Validate(); err != nil {
		t.Fatalf("one slot and no queue: %v", err)
	}
	for name, spoil := range map[string]func(*admission.Limits){
		"slots":           func(l *admission.Limits) { l.Slots = 0 },
		"queue size":      func(l *admission.Limits) { l.Queue = -1; l.ReadyThreshold = 0 },
		"class_limit low": func(l *admission.Limits) { l.ClassLimits[admission.Low] = -1 },
		"wait":            func(l *admission.Limits) { l.MaxWait = -1 },
		"ready_threshold": func(l *admission.Limits) { l.ReadyThreshold = 5 },
		"0 or more":       func(l *admission.Limits) { l.ReadyThreshold = -2 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("spoiled %s: error %v", name, err)
		}
	}
}

func TestReadyThresholdDefaults(t *testing.T) {
	for _, c := range []struct{ queue, given, want int }{
		{0, 0, 1}, {1, 0, 1}, {3, 0, 1}, {8, 0, 4}, {8, 3, 3}, {8, admission.ReadyAlways, 0},
	} {
		l := admission.Limits{Slots: 1, Queue: c.queue, ReadyThreshold: c.given}
		if got := l.Threshold(); got != c.want {
			t.Errorf("queue %d, ready_threshold %d: %d, want %d", c.queue, c.given, got, c.want)
		}
	}
}
