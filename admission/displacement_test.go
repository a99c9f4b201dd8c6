package admission_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// full returns a budget whose slot is held and whose queue is full of waiters
// of these classes, in this order.
func full(t *testing.T, classes ...admission.Class) (*admission.Budget, admission.Lease, []*admission.Ticket) {
	t.Helper()
	b := admission.New(admission.Limits{Slots: 1, Queue: len(classes)})
	lease := held(t, b, admission.Interactive)
	var tickets []*admission.Ticket
	for _, c := range classes {
		tickets = append(tickets, queued(t, b, c))
	}
	return b, lease, tickets
}

// wantDisplaced checks that of these tickets just the one was displaced.
func wantDisplaced(t *testing.T, tickets []*admission.Ticket, victim int) {
	t.Helper()
	for i, ticket := range tickets {
		if decided(ticket) != (i == victim) {
			t.Fatalf("ticket %d: decided is %v", i, decided(ticket))
		}
	}
	_, err := tickets[victim].Lease()
	var refusal *admission.Refusal
	if !errors.Is(err, admission.ErrDisplaced) || !errors.As(err, &refusal) || refusal.RetryAfter < time.Second {
		t.Fatalf("the victim got %v", err)
	}
	if errors.Is(err, admission.ErrFull) {
		t.Fatal("the victim's answer is that of a full queue")
	}
}

func TestDisplacesTheNewestOfTheLowest(t *testing.T) {
	// Given a full queue with two of the lowest class, not at its ends
	b, lease, tickets := full(t, admission.Normal, admission.Low, admission.Low, admission.High)
	// When a better one arrives
	arrival := queued(t, b, admission.Interactive)
	// Then the newer of the two makes place, and the arrival is next.
	wantDisplaced(t, tickets, 2)
	check(t, b, 1, 4)
	lease.Release()
	granted(t, arrival)
}

func TestDisplacesTheLowestBelowItself(t *testing.T) {
	b, _, tickets := full(t, admission.High, admission.Normal, admission.Interactive)
	queued(t, b, admission.High)
	wantDisplaced(t, tickets, 1)
}

func TestOutrankingNothingIsRefused(t *testing.T) {
	b, _, tickets := full(t, admission.Interactive, admission.High)
	for _, c := range []admission.Class{admission.Low, admission.Normal} {
		if _, _, err := b.Ask(context.Background(), c); !errors.Is(err, admission.ErrFull) {
			t.Fatalf("a %s arrival got %v", c, err)
		}
	}
	if decided(tickets[0]) || decided(tickets[1]) {
		t.Fatal("somebody was displaced by a worse arrival")
	}
}

func TestPeersDoNotDisplacePeers(t *testing.T) {
	for _, c := range admission.Classes() {
		b, _, tickets := full(t, c, c)
		if _, _, err := b.Ask(context.Background(), c); !errors.Is(err, admission.ErrFull) {
			t.Fatalf("a %s arrival among its peers got %v", c, err)
		}
		if decided(tickets[0]) || decided(tickets[1]) {
			t.Fatalf("a %s waiter was displaced by its peer", c)
		}
	}
}

func TestInteractiveIsNeverDisplaced(t *testing.T) {
	b, _, tickets := full(t, admission.Interactive, admission.Interactive)
	for _, c := range admission.Classes() {
		if _, ticket, _ := b.Ask(context.Background(), c); ticket != nil {
			t.Fatalf("a %s arrival found place among interactive waiters", c)
		}
	}
	if decided(tickets[0]) || decided(tickets[1]) {
		t.Fatal("an interactive waiter was displaced")
	}
}

func TestADisplacedWaiterThatLaterGivesUpChangesNothing(t *testing.T) {
	// Given a waiter that was displaced
	b, lease, tickets := full(t, admission.Low)
	arrival := queued(t, b, admission.High)
	wantDisplaced(t, tickets, 0)
	// When it leaves by every exit
	tickets[0].GiveUp()
	tickets[0].Expire()
	tickets[0].SetClass(admission.Interactive)
	// Then nothing moves: its answer stays, and the queue is as it was.
	_, err := tickets[0].Lease()
	if !errors.Is(err, admission.ErrDisplaced) {
		t.Fatalf("its answer is now %v", err)
	}
	check(t, b, 1, 1)
	lease.Release()
	granted(t, arrival).Release()
	check(t, b, 0, 0)
}

func TestADepartedVictimIsNotToldItWasDisplaced(t *testing.T) {
	// Given a full queue whose victim is gone, though word has not arrived
	b := admission.New(admission.Limits{Slots: 1, Queue: 1})
	held(t, b, admission.Interactive)
	ctx := newLateContext()
	gone := queuedWith(ctx, t, b, admission.Low)
	ctx.over.Store(true)
	// When a better one arrives, then the victim has left, and was not displaced.
	queued(t, b, admission.High)
	if _, err := gone.Lease(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the departed got %v", err)
	}
	check(t, b, 1, 1)
}
