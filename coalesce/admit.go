package coalesce

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// preparation is the job's Prepare, going on beside the wait for a slot.
type preparation struct {
	done chan struct{}
	err  error // valid once done is closed
}

func (f *flight) prepare() *preparation {
	p := &preparation{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		start := time.Now()
		p.err = guard(func() error { return f.job.Prepare(f.ctx) })
		f.mu.Lock()
		f.prepared = time.Since(start)
		f.mu.Unlock()
	}()
	return p
}

// admit gets the flight its slot, and does the job's preparation meanwhile. Where either fails there is no
// slot to give back and nothing left running.
func (f *flight) admit() error {
	p := f.prepare()
	asked := time.Now()
	err := f.acquire(p)
	f.mu.Lock()
	f.ticket = nil
	f.summary.Wait = time.Since(asked)
	f.mu.Unlock()
	if err != nil {
		f.cancel(err) // ends the preparation too
		<-p.done
		return err
	}
	<-p.done
	if p.err != nil {
		f.release()
	}
	return p.err
}

// acquire asks the budget and waits for its answer, or for the end of a preparation that failed.
func (f *flight) acquire(p *preparation) error {
	ticket, err := f.ask()
	if ticket == nil {
		return err
	}
	patience := time.NewTimer(f.terms.Timeout)
	defer patience.Stop()
	prepared := p.done
	for {
		select {
		case <-ticket.Done():
			lease, err := ticket.Lease()
			if err == nil {
				f.granted(lease)
			}
			return f.causeOf(err)
		case <-prepared:
			if p.err != nil {
				ticket.GiveUp()
				return p.err
			}
			prepared = nil
		case <-patience.C:
			ticket.Expire()
		case <-f.ctx.Done():
			ticket.GiveUp()
			return context.Cause(f.ctx)
		}
	}
}

// ask asks the budget with the class of the best listener there is by now. A nil ticket means that the answer
// was immediate.
func (f *flight) ask() (*admission.Ticket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	class := f.best()
	f.summary.Class = class.String()
	lease, ticket, err := f.group.budget.Ask(f.ctx, class)
	switch {
	case ticket != nil:
		f.ticket = ticket
	case err == nil:
		f.lease, f.leased = lease, true
	}
	return ticket, f.causeOf(err)
}

// granted takes a lease that was waited for, at the class its listeners have by now.
func (f *flight) granted(lease admission.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticket = nil
	f.lease, f.leased = lease, true
	f.reclass()
}

// causeOf replaces an error that only says that the flight's context has ended by the reason why it has.
func (f *flight) causeOf(err error) error {
	if err != nil && errors.Is(err, context.Canceled) {
		return context.Cause(f.ctx)
	}
	return err
}

// release gives the slot back. The encoder is gone by then.
func (f *flight) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leased = false
	f.lease.Release()
}
