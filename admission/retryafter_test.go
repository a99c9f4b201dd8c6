package admission_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// refusedAfter asks a budget that has no room and returns the retry-after.
func refusedAfter(t *testing.T, b *admission.Budget) time.Duration {
	t.Helper()
	_, _, err := b.Ask(context.Background(), admission.Low)
	var refusal *admission.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refusal.RetryAfter
}

func TestRetryAfterGrowsWithDepth(t *testing.T) {
	// Given nothing was measured yet, then a render is taken to last 2 s, and
	// one waits for those before it and its own, shared by the slots.
	for _, c := range []struct{ slots, queue, want int }{
		{1, 0, 2}, {1, 1, 4}, {1, 4, 10}, {4, 0, 1}, {4, 3, 2}, {4, 4, 3}, {100, 1, 1},
	} {
		b := admission.New(admission.Limits{Slots: c.slots, Queue: c.queue})
		for range c.slots {
			held(t, b, admission.Interactive)
		}
		for range c.queue {
			queued(t, b, admission.Interactive)
		}
		if got := refusedAfter(t, b); got != time.Duration(c.want)*time.Second {
			t.Errorf("%d slots, %d waiting: %s, want %d s", c.slots, c.queue, got, c.want)
		}
		if got := b.Stats().RetryAfter; got != time.Duration(c.want)*time.Second {
			t.Errorf("stats with %d slots, %d waiting: %s, want %d s", c.slots, c.queue, got, c.want)
		}
	}
}

func TestRetryAfterFollowsTheLastTwentyHolds(t *testing.T) {
	var now time.Duration
	b := admission.New(admission.Limits{Slots: 1}, admission.WithClock(func() time.Duration { return now }))
	hold := func(d time.Duration) {
		lease := held(t, b, admission.Interactive)
		now += d
		lease.Release()
	}
	for _, c := range []struct {
		renders     int
		each        time.Duration
		wantAverage time.Duration
		wantRetry   time.Duration
	}{
		{1, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{19, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{1, 7 * time.Second, 5100 * time.Millisecond, 6 * time.Second},
		{20, 100 * time.Millisecond, 100 * time.Millisecond, time.Second},
	} {
		for range c.renders {
			hold(c.each)
		}
		if got := b.Stats().AverageHold; got != c.wantAverage {
			t.Fatalf("average %s, want %s", got, c.wantAverage)
		}
		lease := held(t, b, admission.Interactive)
		if got := refusedAfter(t, b); got != c.wantRetry {
			t.Fatalf("retry after %s, want %s", got, c.wantRetry)
		}
		// A lease of an old generation leaves no trace in the average.
		b.Drain()
		lease.Release()
	}
}

func TestRetryAfterIsNotRoundedUpByRounding(t *testing.T) {
	// Given renders of 1.1 s, eleven slots, and ten for whom they must do
	var now time.Duration
	b := admission.New(admission.Limits{Slots: 11, Queue: 9}, admission.WithClock(func() time.Duration { return now }))
	lease := held(t, b, admission.Interactive)
	now += 1100 * time.Millisecond
	lease.Release()
	for range 11 {
		held(t, b, admission.Interactive)
	}
	for range 9 {
		queued(t, b, admission.Interactive)
	}
	// Then the answer is one second, and not two.
	if got := refusedAfter(t, b); got != time.Second {
		t.Fatalf("retry after %s", got)
	}
}

func TestASlotGivenToTheDepartedIsNoMeasurement(t *testing.T) {
	// Given a render of ten seconds, whose slot then went to somebody
	var now time.Duration
	b := admission.New(admission.Limits{Slots: 1, Queue: 1}, admission.WithClock(func() time.Duration { return now }))
	lease := held(t, b, admission.Interactive)
	ticket := queued(t, b, admission.Interactive)
	now += 10 * time.Second
	lease.Release()
	// When that one turns out to be gone, then it says nothing about renders.
	ticket.GiveUp()
	if got := b.Stats().AverageHold; got != 10*time.Second {
		t.Fatalf("the average is %s", got)
	}
}

func TestRetryAfterIsAtMostTheRenderTimeout(t *testing.T) {
	for _, c := range []struct{ longest, want time.Duration }{
		{7 * time.Second, 7 * time.Second},
		{7500 * time.Millisecond, 7 * time.Second},
		{time.Millisecond, time.Second},
		{time.Hour, 22 * time.Second},
		{0, 22 * time.Second},
	} {
		b := admission.New(admission.Limits{Slots: 1, Queue: 10, MaxWait: c.longest})
		held(t, b, admission.Interactive)
		for range 10 {
			queued(t, b, admission.Interactive)
		}
		if got := refusedAfter(t, b); got != c.want {
			t.Errorf("at most %s: %s, want %s", c.longest, got, c.want)
		}
	}
}

func TestRetryAfterOfAnEndlessRenderIsADayAtMost(t *testing.T) {
	var now time.Duration
	b := admission.New(admission.Limits{Slots: 1, Queue: 1}, admission.WithClock(func() time.Duration { return now }))
	lease := held(t, b, admission.Interactive)
	now += 1 << 62
	lease.Release()
	held(t, b, admission.Interactive)
	queued(t, b, admission.Interactive)
	if got := refusedAfter(t, b); got != 24*time.Hour {
		t.Fatalf("retry after %s", got)
	}
}
