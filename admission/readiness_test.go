package admission_test

import (
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func wantReady(t *testing.T, b *admission.Budget, ready bool, queued, threshold int) {
	t.Helper()
	r, q, n := b.Ready()
	if r != ready || q != queued || n != threshold {
		t.Fatalf("ready %v, queued %d, threshold %d; want %v, %d, %d", r, q, n, ready, queued, threshold)
	}
}

func TestReadinessFlipsOncePerExcursion(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 1, Queue: 8, ReadyThreshold: 5})
	held(t, b, admission.Interactive)
	var waiters []*admission.Ticket
	// Given a queue that fills up, it is ready until the threshold is reached
	for n := range 5 {
		wantReady(t, b, true, n, 5)
		waiters = append(waiters, queued(t, b, admission.Interactive))
	}
	// and when the queue shrinks again, not until it is down to half, rounded
	// down, however it goes up and down in between.
	wantReady(t, b, false, 5, 5)
	waiters[0].GiveUp()
	waiters[1].GiveUp()
	wantReady(t, b, false, 3, 5)
	queued(t, b, admission.Interactive).GiveUp()
	wantReady(t, b, false, 3, 5)
	waiters[2].GiveUp()
	wantReady(t, b, true, 2, 5)
	queued(t, b, admission.Interactive)
	wantReady(t, b, true, 3, 5)
}

func TestReadinessIsRightAlthoughNobodyPolled(t *testing.T) {
	// Given an excursion that nobody saw
	b := admission.New(admission.Limits{Slots: 1, Queue: 8, ReadyThreshold: 4})
	held(t, b, admission.Interactive)
	var waiters []*admission.Ticket
	for range 4 {
		waiters = append(waiters, queued(t, b, admission.Interactive))
	}
	waiters[0].GiveUp()
	// When somebody looks at last, then the queue is not down far enough yet.
	wantReady(t, b, false, 3, 4)
}

func TestDisplacementIsNoEndOfAnExcursion(t *testing.T) {
	// Given a budget whose threshold is one, and not ready
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	held(t, b, admission.Interactive)
	queued(t, b, admission.Low)
	wantReady(t, b, false, 1, 1)
	// When one waiter takes the place of another, then it stays so.
	queued(t, b, admission.Interactive)
	wantReady(t, b, false, 1, 1)
}

func TestReadinessFollowsTheLimits(t *testing.T) {
	limits := admission.Limits{Slots: 1, Queue: 8, ReadyThreshold: 2}
	b := admission.New(limits)
	held(t, b, admission.Interactive)
	queued(t, b, admission.Interactive)
	queued(t, b, admission.Interactive)
	wantReady(t, b, false, 2, 2)
	limits.ReadyThreshold = admission.ReadyAlways
	b.SetLimits(limits)
	wantReady(t, b, true, 2, 0)
	limits.ReadyThreshold = 1
	b.SetLimits(limits)
	wantReady(t, b, false, 2, 1)
	b.Close()
	wantReady(t, b, true, 0, 1)
}
