package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestEveryEventCarriesItsClassAndAllDepths(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// Given a budget that is observed
		var got []admission.Event
		b := admission.New(admission.Limits{Slots: 1, Queue: 2}, admission.WithObserver(func(e admission.Event) { got = append(got, e) }))
		// When everything happens that can happen to a caller, a second apart
		second := func() { time.Sleep(time.Second) }
		lease := held(t, b, admission.High)
		second()
		low := queued(t, b, admission.Low)
		second()
		normal := queued(t, b, admission.Normal)
		second()
		normal.SetClass(admission.High)
		second()
		interactive := queued(t, b, admission.Interactive)
		second()
		_, _, _ = b.Ask(t.Context(), admission.Low)
		lease.Release()
		second()
		normal.GiveUp()
		granted(t, interactive)
		ctx, cancel := context.WithCancel(t.Context())
		gone := queuedWith(ctx, t, b, admission.Low)
		second()
		cancel()
		<-gone.Done()
		synctest.Wait()
		b.Close()
		_, _ = low, lease

		// Then each event says of whom, and how the budget stood after it.
		type depths = [admission.NumClasses]int
		const s = time.Second
		want := []admission.Event{
			{Kind: admission.EventAcquired, Class: admission.High, Held: 1},
			{Kind: admission.EventQueued, Class: admission.Low, Held: 1, Queued: 1, Depths: depths{0, 0, 0, 1}},
			{Kind: admission.EventQueued, Class: admission.Normal, Held: 1, Queued: 2, Depths: depths{0, 0, 1, 1}},
			{Kind: admission.EventPromoted, Class: admission.High, From: admission.Normal, Held: 1, Queued: 2, Depths: depths{0, 1, 0, 1}},
			{Kind: admission.EventDisplaced, Class: admission.Low, Held: 1, Queued: 1, Depths: depths{0, 1, 0, 0},
				Reason: admission.Displaced, Wait: 3 * s, RetryAfter: 6 * s},
			{Kind: admission.EventQueued, Class: admission.Interactive, Held: 1, Queued: 2, Depths: depths{1, 1, 0, 0}},
			{Kind: admission.EventRejected, Class: admission.Low, Held: 1, Queued: 2, Depths: depths{1, 1, 0, 0},
				Reason: admission.Full, RetryAfter: 6 * s},
			{Kind: admission.EventReleased, Class: admission.High, Queued: 2, Depths: depths{1, 1, 0, 0}, Hold: 5 * s},
			{Kind: admission.EventAcquired, Class: admission.Interactive, Held: 1, Queued: 1, Depths: depths{0, 1, 0, 0}, Wait: s},
			{Kind: admission.EventAbandoned, Class: admission.High, Held: 1, Wait: 4 * s},
			{Kind: admission.EventQueued, Class: admission.Low, Held: 1, Queued: 1, Depths: depths{0, 0, 0, 1}},
			{Kind: admission.EventAbandoned, Class: admission.Low, Held: 1, Wait: s},
		}
		for i := range want {
			want[i].Seq = uint64(i + 1)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("events (-want +got):\n%s", diff)
		}
	})
}

func TestEventsOfThoseSentAway(t *testing.T) {
	var got []admission.Event
	b := admission.New(admission.Limits{Slots: 1, Queue: 2}, admission.WithObserver(func(e admission.Event) { got = append(got, e) }))
	held(t, b, admission.Interactive)
	queued(t, b, admission.Low).Expire()
	queued(t, b, admission.Normal)
	b.Close()
	_, _, _ = b.Ask(context.Background(), admission.High)
	var reasons []string
	for _, e := range got {
		if e.Kind == admission.EventRejected {
			reasons = append(reasons, e.Class.String()+" "+e.Reason.String())
			if e.RetryAfter < time.Second {
				t.Errorf("no retry-after for %s", e.Class)
			}
		}
	}
	if diff := cmp.Diff([]string{"low timeout", "normal shutdown", "high shutdown"}, reasons); diff != "" {
		t.Fatal(diff)
	}
}

func TestObserversMayCallTheBudget(t *testing.T) {
	// Given an observer that asks the budget, which it could not under the lock
	var b *admission.Budget
	var seen []admission.Stats
	b = admission.New(admission.Limits{Slots: 1, Queue: 1}, admission.WithObserver(func(admission.Event) { seen = append(seen, b.Stats()) }))
	held(t, b, admission.Interactive).Release()
	if len(seen) != 2 || seen[0].Held != 1 || seen[1].Held != 0 {
		t.Fatalf("seen %+v", seen)
	}
}

func TestNamesOfEventsAndReasons(t *testing.T) {
	var kinds, reasons []string
	for k := admission.EventAcquired; k <= admission.EventLeaked; k++ {
		kinds = append(kinds, k.String())
	}
	for r := admission.Full; r <= admission.Shutdown; r++ {
		reasons = append(reasons, r.String())
	}
	want := []string{"acquired", "queued", "rejected", "released", "abandoned", "displaced", "promoted", "leaked"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"full", "displaced", "timeout", "shutdown"}, reasons); diff != "" {
		t.Error(diff)
	}
	if admission.Reason(0).String() != "" || admission.Reason(9).String() != "reason(9)" || admission.EventKind(0).String() != "event(0)" {
		t.Error("a stray number has a name")
	}
	refusal := &admission.Refusal{Reason: admission.Full, Class: admission.Low, RetryAfter: 3 * time.Second}
	if got := refusal.Error(); got != "render of class low refused: no slot is free and the queue is full (retry after 3s)" {
		t.Error(got)
	}
	if errors.Is(&admission.Refusal{Reason: 9}, admission.ErrFull) {
		t.Error("a stray reason is a full queue")
	}
}
