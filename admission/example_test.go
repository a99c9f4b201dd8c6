package admission_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// A caller that must go on with other things asks, and looks at the ticket when
// it is decided.
func ExampleBudget_Ask() {
	budget := admission.New(admission.Limits{Slots: 1, Queue: 10})
	ctx := context.Background()

	running, _, _ := budget.Ask(ctx, admission.Low)
	_, ticket, _ := budget.Ask(ctx, admission.Low)
	fmt.Println("waiting:", budget.Stats().Queued)

	running.Release() // the subprocess is gone

	select {
	case <-ticket.Done():
		lease, err := ticket.Lease()
		fmt.Println("granted:", lease.Valid(), err)
		lease.Release()
	case <-time.After(time.Minute):
		ticket.Expire() // waited too long: a refusal with a retry-after
	}
	// Output:
	// waiting: 1
	// granted: true <nil>
}

// A caller with nothing else to do waits for its turn.
func ExampleBudget_Acquire() {
	budget := admission.New(admission.Limits{Slots: 2})
	lease, err := budget.Acquire(context.Background(), admission.Interactive)
	if err != nil {
		return
	}
	defer lease.Release()
	fmt.Println("held:", budget.Stats().Held)
	// Output: held: 1
}

// A refusal says why, and when to come back.
func ExampleRefusal() {
	budget := admission.New(admission.Limits{Slots: 1})
	lease, _, _ := budget.Ask(context.Background(), admission.Interactive)
	defer lease.Release()

	_, _, err := budget.Ask(context.Background(), admission.Interactive)
	var refusal *admission.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Reason, refusal.RetryAfter, errors.Is(err, admission.ErrShutdown))
	}
	// Output: full 2s false
}

// A better listener joins a render that waits: it gets in front of its former
// peers.
func ExampleTicket_SetClass() {
	budget := admission.New(admission.Limits{Slots: 1, Queue: 10})
	running, _, _ := budget.Ask(context.Background(), admission.Interactive)
	_, first, _ := budget.Ask(context.Background(), admission.Low)
	_, second, _ := budget.Ask(context.Background(), admission.Low)

	second.SetClass(admission.Interactive)
	running.Release()

	<-second.Done()
	lease, err := second.Lease()
	fmt.Println("second:", lease.Valid(), err)
	_, err = first.Lease()
	fmt.Println("first:", err)
	lease.Release()
	// Output:
	// second: true <nil>
	// first: still waiting
}

// Nobody listens to a render any more. It goes on, for the store, until
// somebody else would have to wait for its slot.
func ExampleLease_Yield() {
	budget := admission.New(admission.Limits{Slots: 1})
	abandoned, _, _ := budget.Ask(context.Background(), admission.Interactive)
	render, cancel := context.WithCancel(context.Background())
	abandoned.Yield(cancel)

	_, ticket, _ := budget.Ask(context.Background(), admission.Interactive)
	fmt.Println("told to stop:", render.Err() != nil)

	abandoned.Release() // the subprocess is gone
	lease, err := ticket.Lease()
	fmt.Println("granted:", lease.Valid(), err)
	lease.Release()
	// Output:
	// told to stop: true
	// granted: true <nil>
}
