package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// TestRandomPrograms runs random programs of all that can happen to flights. Whatever the order: at most one
// encoder per ID, no more encoders than slots, every listener is told an ending, whoever is told of a complete
// variant heard all of it, and nothing is left.
func TestRandomPrograms(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProgram(rt) // outside of the bubble, which a failing draw must not leave
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t.Context(), temp) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// program is what happens, in this order.
type program struct {
	limits admission.Limits
	store  bool
	room   bool // whether the store can make room
	ops    []op
}

// op is one thing that happens to one variant.
type op struct {
	kind  string
	id    store.ID
	class admission.Class
	n     int
	flag  bool
}

var kinds = []string{
	"ask", "ask", "ask", "ask", "join", "leave", "leave", "write", "write", "write", "end", "fail", "full", "panic",
	"stubborn", "die", "cancel", "forget", "sleep", "sleep", "drain",
}

func drawProgram(rt *rapid.T) program {
	classes := admission.Classes()
	p := program{
		limits: admission.Limits{Slots: rapid.IntRange(1, 2).Draw(rt, "slots"), Queue: rapid.IntRange(0, 3).Draw(rt, "queue")},
		store:  rapid.Bool().Draw(rt, "store"),
		room:   rapid.Bool().Draw(rt, "room"),
	}
	if rapid.Bool().Draw(rt, "limit") {
		p.limits.ClassLimits[admission.Low] = 1
	}
	p.ops = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
		return op{
			kind:  rapid.SampledFrom(kinds).Draw(rt, "kind"),
			id:    rapid.SampledFrom([]store.ID{a, b, c}).Draw(rt, "id"),
			class: rapid.SampledFrom(classes[:]).Draw(rt, "class"),
			n:     rapid.IntRange(0, 100).Draw(rt, "n"),
			flag:  rapid.Bool().Draw(rt, "flag"),
		}
	}), 1, 60).Draw(rt, "ops")
	return p
}

// wholeOf is a variant. Two renders of one are the same.
func wholeOf(id store.ID) string { return strings.Repeat(id.Key[:1]+"0123456789", 30) }

var errBroken = errors.New("broken")

// audience is everybody who listens while a program runs.
type audience struct {
	*site
	leave     []context.CancelFunc
	everybody sync.WaitGroup
	stubborn  map[store.ID]chan struct{}

	errMu sync.Mutex
	errs  []error
}

func (p program) run(ctx context.Context, temp string) error {
	s := &audience{site: newSite(temp, p.limits), stubborn: map[store.ID]chan struct{}{}}
	s.store.room = p.room
	for i, o := range p.ops {
		terms := s.terms()
		if !p.store {
			terms.Store = nil
		}
		s.do(ctx, o, terms)
		if i%3 != o.n%3 { // some follow each other before anybody else could run
			synctest.Wait()
			s.checkSlots(p.limits.Slots)
		}
	}
	s.finish()
	return errors.Join(append(s.errs, s.idle())...)
}

func (s *audience) do(ctx context.Context, o op, terms coalesce.Terms) {
	switch o.kind {
	case "ask":
		terms.FinishAbandoned = o.flag
		if o.n > 90 {
			terms.MaxSize = int64(o.n)
		}
		j := newJob(s.site, o.id)
		j.prepare = func(ctx context.Context) error { return prepareFor(ctx, o.n) }
		j.die = s.stubborn[o.id]
		l, _ := s.group.JoinOrStart(o.id, o.class, j, terms)
		s.listen(ctx, o.id, l)
	case "join":
		if l, joined := s.group.Join(o.id, o.class); joined {
			s.listen(ctx, o.id, l)
		}
	case "leave":
		if len(s.leave) > 0 {
			s.leave[o.n%len(s.leave)]()
		}
	case "stubborn":
		if s.stubborn[o.id] == nil {
			s.stubborn[o.id] = make(chan struct{})
		}
	case "die":
		s.letDie(o.id)
	case "cancel":
		s.group.Cancel(o.id.Key)
	case "forget":
		_ = s.store.Delete(o.id)
	case "sleep":
		time.Sleep(time.Duration(o.n*o.n) * 10 * time.Millisecond)
	case "drain":
		if o.n > 90 {
			s.budget.Drain()
		}
	default:
		s.encode(o)
	}
}

func prepareFor(ctx context.Context, n int) error {
	switch {
	case n%20 == 0:
		return errBroken
	case n%20 == 1:
		panic("a bug")
	}
	select {
	case <-time.After(time.Duration(n%3) * time.Second):
		return nil
	case <-ctx.Done():
		time.Sleep(time.Duration(n%2) * time.Second)
		return ctx.Err()
	}
}

// encode has the encoder of a variant take a step, where there is one that listens to us.
func (s *audience) encode(o op) {
	synctest.Wait()
	s.mu.Lock()
	j := s.encoding[o.id]
	s.mu.Unlock()
	if j == nil {
		return
	}
	do := map[string]step{
		"write": func(out *output) (bool, error) { return false, out.advance(o.id, o.n) },
		"end":   func(out *output) (bool, error) { return true, out.advance(o.id, len(wholeOf(o.id))) },
		"fail":  func(*output) (bool, error) { return true, errBroken },
		"full":  func(*output) (bool, error) { return true, full },
		"panic": func(*output) (bool, error) { panic("a bug") },
	}[o.kind]
	select {
	case j.steps <- do:
	default: // it is being killed
	}
}

// advance writes n more bytes of a variant.
func (out *output) advance(id store.ID, n int) error {
	info, err := out.live.Stat()
	if err != nil {
		return err
	}
	rest := wholeOf(id)[info.Size():]
	_, err = out.live.WriteString(rest[:min(n, len(rest))])
	if n > 20 {
		out.spool.Release()
	}
	return err
}

func (s *audience) letDie(id store.ID) {
	if die := s.stubborn[id]; die != nil {
		close(die)
		delete(s.stubborn, id)
	}
}

// listen has somebody listen until the end, or until they leave.
func (s *audience) listen(ctx context.Context, id store.ID, l *coalesce.Listener) {
	ctx, leave := context.WithCancel(ctx)
	s.leave = append(s.leave, leave)
	s.everybody.Go(func() {
		defer leave()
		defer l.Close()
		heard, err := hearUntil(ctx, l)
		if ctx.Err() == nil {
			s.judge(id, heard, err)
		}
	})
}

// judge complains about an ending that is none.
func (s *audience) judge(id store.ID, heard string, err error) {
	whole := wholeOf(id)
	_, refused := errors.AsType[*admission.Refusal](err)
	var wrong error
	switch {
	case err == nil && heard != whole:
		wrong = fmt.Errorf("told that it is complete after %d of %d bytes", len(heard), len(whole))
	case !strings.HasPrefix(whole, heard):
		wrong = fmt.Errorf("heard what is not in the variant: %q", heard)
	case err == nil, refused:
	case errors.Is(err, coalesce.ErrStored):
		if kept := s.store.kept(id); kept != "" && kept != whole {
			wrong = fmt.Errorf("kept is %q", kept)
		}
	case errors.Is(err, coalesce.ErrCancelled), errors.Is(err, coalesce.ErrTimeout), errors.Is(err, coalesce.ErrTooLarge),
		errors.Is(err, coalesce.ErrNoSpace), errors.Is(err, errBroken), strings.Contains(err.Error(), "panic: a bug"):
	default:
		wrong = fmt.Errorf("told %w", err)
	}
	s.complain(wrong)
}

func (s *audience) complain(err error) {
	if err != nil {
		s.errMu.Lock()
		defer s.errMu.Unlock()
		s.errs = append(s.errs, err)
	}
}

func (s *audience) checkSlots(slots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.encoding); n > slots && s.budget.Stats().Generation == 0 {
		s.errs = append(s.errs, fmt.Errorf("%d encoders in %d slots", n, slots))
	}
}

// finish lets everything come to its end: nobody may be left who was told nothing.
func (s *audience) finish() {
	over := make(chan struct{})
	go func() {
		s.everybody.Wait()
		close(over)
	}()
	for range 100 {
		for _, id := range []store.ID{a, b, c} {
			s.letDie(id)
			s.encode(op{kind: "end", id: id})
		}
		time.Sleep(5 * time.Second) // longer than a preparation, or a linger
		select {
		case <-over:
			synctest.Wait()
			if err := s.idleOrAbandoned(); err == nil {
				return
			}
		default:
		}
	}
	s.complain(errors.New("it does not end"))
	for _, leave := range s.leave {
		leave()
	}
	s.group.Close()
}

// idleOrAbandoned is nil when no flight is left.
func (s *audience) idleOrAbandoned() error {
	if n := len(s.group.Flights()); n > 0 {
		return fmt.Errorf("%d flights go on", n)
	}
	return nil
}
