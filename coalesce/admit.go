package coalesce

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// How a flight gets its slot.

// admit gets the flight its slot. Where it fails there is no slot to give back.
func (f *flight) admit(patience <-chan time.Time) error {
	for {
		err := f.acquire(patience)
		if err == nil || f.refused(err) {
			return err
		}
	}
}

// acquire asks the budget and waits for its answer.
func (f *flight) acquire(patience <-chan time.Time) error {
	ticket, err := f.ask()
	if err != nil {
		return err
	}
	for ticket != nil {
		select {
		case <-ticket.Done():
			lease, err := ticket.Lease()
			if err != nil {
				return causeOf(f.ctx, err)
			}
			f.granted(lease)
			ticket = nil
		case <-patience:
			ticket.Expire()
		case <-f.ctx.Done():
			ticket.GiveUp()
			return context.Cause(f.ctx)
		}
	}
	f.deadline = time.Now().Add(f.terms.Timeout)
	return nil
}

// ask asks the budget with the class of the best listener there is by now. No ticket and no error mean that there
// is a lease.
func (f *flight) ask() (*admission.Ticket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.summary.Class = f.class.String()
	lease, ticket, err := f.group.budget.Ask(f.ctx, f.class)
	if err != nil {
		return nil, causeOf(f.ctx, err)
	}
	f.ticket = ticket
	if ticket == nil {
		f.take(lease)
	}
	return ticket, nil
}

// granted takes a lease that was waited for, at the class that its listeners have by now.
func (f *flight) granted(lease admission.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.take(lease)
	lease.SetClass(f.class)
}

func (f *flight) take(lease admission.Lease) {
	f.ticket = nil
	f.lease, f.leased = lease, true
	f.state = rendering
	f.summary.Wait = time.Since(f.began)
}

// refused decides whether an answer of the budget's is the flight's end, and if so ends it before anybody else can
// join. It is not when a listener has come meanwhile of a better class than the one that was turned away: then the
// flight asks again, as one of that listener's own would have.
func (f *flight) refused(err error) (finally bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticket = nil
	f.summary.Wait = time.Since(f.began)
	if r, ok := errors.AsType[*admission.Refusal](err); ok && f.class.Outranks(r.Class) && f.ctx.Err() == nil {
		switch r.Reason {
		case admission.Full, admission.Displaced:
			return false
		}
	}
	f.endLocked(err)
	return true
}

// release gives the slot back. The encoder is gone by then.
func (f *flight) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease.Release()
	// What is kept of a lease keeps the budget from noticing that a later one was forgotten.
	f.lease, f.leased = admission.Lease{}, false
}
