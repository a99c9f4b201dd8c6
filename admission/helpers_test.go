package admission_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// held asks for a slot that must be free. The lease is kept until the test ends,
// even if the test does not look at it again: it is not forgotten.
func held(t *testing.T, b *admission.Budget, c admission.Class) admission.Lease {
	t.Helper()
	lease := forgotten(t, b, c)
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

// forgotten is held, for a test that drops the lease.
func forgotten(t *testing.T, b *admission.Budget, c admission.Class) admission.Lease {
	t.Helper()
	lease, _, err := b.Ask(context.Background(), c)
	if err != nil || !lease.Valid() {
		t.Fatalf("asking for a free slot as %s: lease %v, error %v", c, lease.Valid(), err)
	}
	return lease
}

// queued asks for a slot when none is free, but there is room to wait. The
// ticket is kept until the test ends.
func queued(t *testing.T, b *admission.Budget, c admission.Class) *admission.Ticket {
	t.Helper()
	ticket := queuedWith(context.Background(), t, b, c)
	t.Cleanup(func() { runtime.KeepAlive(ticket) })
	return ticket
}

// queuedWith is queued, with a context of the test's, for a test that may drop
// the ticket.
func queuedWith(ctx context.Context, t *testing.T, b *admission.Budget, c admission.Class) *admission.Ticket {
	t.Helper()
	lease, ticket, err := b.Ask(ctx, c)
	if ticket == nil {
		t.Fatalf("asking to wait as %s: lease %v, error %v", c, lease.Valid(), err)
	}
	return ticket
}

// decided reports whether a ticket is decided.
func decided(ticket *admission.Ticket) bool {
	select {
	case <-ticket.Done():
		return true
	default:
		return false
	}
}

// granted takes the lease of a ticket that must have one.
func granted(t *testing.T, ticket *admission.Ticket) admission.Lease {
	t.Helper()
	lease, err := ticket.Lease()
	if err != nil {
		t.Fatalf("the ticket was not granted: %v", err)
	}
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

// check compares how many hold a slot and how many wait.
func check(t *testing.T, b *admission.Budget, held, queued int) {
	t.Helper()
	if s := b.Stats(); s.Held != held || s.Queued != queued {
		t.Fatalf("held %d, queued %d; want %d and %d", s.Held, s.Queued, held, queued)
	}
}

// inBubble runs a test in fake time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// until waits for something that another goroutine, or the runtime, will do.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// logged is a log that is written by one goroutine and read by another.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}
