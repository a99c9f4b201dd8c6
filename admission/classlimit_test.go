package admission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func limitTo(c admission.Class, n int) (limits [admission.NumClasses]int) {
	limits[c] = n
	return limits
}

func TestAClassAtItsLimitWaitsBesideAFreeSlot(t *testing.T) {
	// Given two slots of which low may hold one, and does
	b := admission.New(admission.Limits{Slots: 2, Queue: 2, ClassLimits: limitTo(admission.Low, 1)})
	low := held(t, b, admission.Low)
	// When another low one asks, then it waits; an interactive one does not.
	waiter := queued(t, b, admission.Low)
	interactive := held(t, b, admission.Interactive)
	check(t, b, 2, 1)
	// And the interactive one's slot is not for it, the low one's is.
	interactive.Release()
	if decided(waiter) {
		t.Fatal("two low ones run at once")
	}
	low.Release()
	granted(t, waiter)
}

func TestAClassAtItsLimitIsRefusedWhenTheQueueIsFull(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 2, ClassLimits: limitTo(admission.Low, 1)})
	held(t, b, admission.Low)
	if _, _, err := b.Ask(context.Background(), admission.Low); !errors.Is(err, admission.ErrFull) {
		t.Fatalf("a low one beside a free slot got %v", err)
	}
	held(t, b, admission.Interactive)
}

func TestALimitedWaiterIsPassedOver(t *testing.T) {
	// Given a low waiter at its limit, and a better one that came after it
	b := admission.New(admission.Limits{Slots: 2, Queue: 3, ClassLimits: limitTo(admission.Low, 1)})
	held(t, b, admission.Low)
	high := held(t, b, admission.High)
	low := queued(t, b, admission.Low)
	normal := queued(t, b, admission.Normal)
	// When the high slot comes back, then the normal one gets it.
	high.Release()
	granted(t, normal)
	if decided(low) {
		t.Fatal("the limit of low was exceeded")
	}
}

func TestALimitCountsTheClassAndThoseBelowIt(t *testing.T) {
	// Given three slots of which normal and low together may hold one
	b := admission.New(admission.Limits{Slots: 3, Queue: 3, ClassLimits: limitTo(admission.Normal, 1)})
	low := held(t, b, admission.Low)
	// When a normal one asks, then low counts against it; high is free.
	normal := queued(t, b, admission.Normal)
	held(t, b, admission.High)
	low.Release()
	granted(t, normal)
	queued(t, b, admission.Low)
}

func TestPromotionLeavesTheLimitBehind(t *testing.T) {
	// Given a low waiter beside a free slot
	b := admission.New(admission.Limits{Slots: 2, Queue: 2, ClassLimits: limitTo(admission.Low, 1)})
	held(t, b, admission.Low)
	waiter := queued(t, b, admission.Low)
	// When an interactive listener joins it, then it runs at once.
	waiter.SetClass(admission.Interactive)
	granted(t, waiter)
	check(t, b, 2, 0)
}

func TestAHeldLeaseCountsForTheClassItHasNow(t *testing.T) {
	// Given a low render, and a low waiter at the limit
	b := admission.New(admission.Limits{Slots: 3, Queue: 3, ClassLimits: limitTo(admission.Low, 1)})
	first := held(t, b, admission.Low)
	waiter := queued(t, b, admission.Low)
	// When somebody begins to listen to the render, then the waiter runs.
	first.SetClass(admission.Interactive)
	second := granted(t, waiter)
	// And when that listener leaves, nothing is taken, and nothing granted
	// until both are done.
	first.SetClass(admission.Low)
	check(t, b, 2, 0)
	third := queued(t, b, admission.Low)
	second.Release()
	if decided(third) {
		t.Fatal("granted at the limit")
	}
	first.Release()
	granted(t, third)
	if got := b.Stats().HeldBy; got != limitTo(admission.Low, 1) {
		t.Fatalf("held by class: %v", got)
	}
}

func TestLiftingAClassLimitWakesItsWaiters(t *testing.T) {
	b := admission.New(admission.Limits{Slots: 2, Queue: 2, ClassLimits: limitTo(admission.Low, 1)})
	held(t, b, admission.Low)
	waiter := queued(t, b, admission.Low)
	b.SetLimits(admission.Limits{Slots: 2, Queue: 2})
	granted(t, waiter)
}
