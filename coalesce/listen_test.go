package coalesce_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

func TestWhoeverJoinsAtWhateverMomentHearsTheWhole(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a render that is joined before it has its slot, before its first byte, and in the middle,
		blocker, blocking := s.start(t, b, admission.Interactive, s.terms())
		first, j := s.start(t, a, admission.Interactive, s.terms())
		waiting := s.join(t, a, admission.Low)
		blocking.end(nil)
		synctest.Wait()
		unheard := s.join(t, a, admission.Interactive)
		j.hide("one ")
		j.write("two ")
		middle := s.join(t, a, admission.Normal)
		j.write("three")
		// when it ends well,
		j.end(nil)
		// then all have heard all of it, from one encoder, and so has the store.
		for _, l := range []*coalesce.Listener{first, waiting, unheard, middle} {
			want(t, l, "one two three")
		}
		if n := j.renders.Load(); n != 1 {
			t.Errorf("rendered %d times", n)
		}
		if kept := s.store.kept(a); kept != "one two three" {
			t.Errorf("kept %q", kept)
		}
		blocker.Close()
	})
}

func TestAThousandListenersShareOneDescriptor(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a thousand who listen,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		defer l.Close()
		var crowd sync.WaitGroup
		for range 1000 {
			listener := s.join(t, a, admission.Interactive)
			crowd.Go(func() { want(t, listener, "one two") })
		}
		j.write("one ")
		synctest.Wait()
		// then there are the encoder's descriptor and one for all of them,
		open := slices.DeleteFunc(descriptors(s.temp), func(name string) bool {
			return filepath.Base(name) != coalesce.LiveName
		})
		if len(open) > 2 {
			t.Errorf("%d descriptors: %v", len(open), open)
		}
		// and all hear the whole.
		j.write("two")
		j.end(nil)
		crowd.Wait()
	})
}

func TestNothingIsHeardBeforeItIsReleased(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.terms())
		defer l.Close()
		j.hide("it may turn out a video")
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		if err := l.Ready(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ready: %v", err)
		}
		// What is released is there to be read without anybody having to look for it first.
		before := time.Now()
		j.write(".")
		if err := l.Ready(t.Context()); err != nil || time.Since(before) > 0 {
			t.Errorf("ready after %v: %v", time.Since(before), err)
		}
		j.end(nil)
	})
}

func TestAGoodEndReleasesWhatWasHeldBack(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.hide("whole")
		j.end(nil)
		want(t, l, "whole")
	})
}

func TestListenersWakeInLargePieces(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given an encoder that writes every millisecond for a second,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		defer l.Close()
		go func() {
			for range 1000 {
				j.write(".")
				time.Sleep(time.Millisecond)
			}
			j.end(nil)
		}()
		// when it is listened to, then there are at most 40 pieces and the two ends.
		pieces := 0
		for l.More(t.Context()) == nil {
			pieces++
			for {
				var p [64]byte
				if n, err := l.Read(p[:]); n == 0 || err != nil {
					break
				}
			}
		}
		if pieces > 42 {
			t.Errorf("woken %d times in a second", pieces)
		}
	})
}

func TestTheFirstByteIsNoticedInTimeHoweverLateItComes(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		for _, quiet := range []time.Duration{50 * time.Millisecond, time.Second, time.Minute / 2} {
			// Given an encoder that has written nothing for a while,
			l, j := s.start(t, a, admission.Interactive, s.terms())
			time.Sleep(quiet + time.Millisecond/2)
			// when it writes, then that is noticed before listeners could mind.
			noticed := make(chan time.Time, 1)
			j.steps <- func(out *output) (bool, error) {
				go func() {
					_, _ = out.spool.AwaitGrowth(t.Context(), 0)
					noticed <- time.Now()
				}()
				_, err := out.live.WriteString("late")
				return false, err
			}
			wrote := time.Now()
			late := (<-noticed).Sub(wrote)
			if late > max(time.Millisecond, min(quiet/40, 25*time.Millisecond)) {
				t.Errorf("after %v, noticed %v late", quiet, late)
			}
			l.Close()
			synctest.Wait()
		}
	})
}

func TestWhatFailsIsHeardOutFirstButNotBegun(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given two listeners, one of whom has begun to listen,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		late := s.join(t, a, admission.Interactive)
		defer late.Close()
		j.write("half")
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		// when the render fails,
		broken := errors.New("broken")
		j.end(broken)
		synctest.Wait()
		// then that one gets what there is and then the error; the other one has the error to answer with.
		if heard, err := hearRest(l); heard != "half" || !errors.Is(err, broken) {
			t.Errorf("heard %q and %v", heard, err)
		}
		l.Close()
		if err := late.Ready(t.Context()); !errors.Is(err, broken) {
			t.Errorf("ready: %v", err)
		}
		if s.store.kept(a) != "" {
			t.Error("half a variant was kept")
		}
	})
}

// hearRest is hear, for a listener that was ready.
func hearRest(l *coalesce.Listener) (string, error) {
	heard := ""
	for {
		if err := l.More(context.Background()); err != nil {
			return heard, err
		}
		var piece [10]byte
		n, err := l.Read(piece[:])
		if err != nil {
			return heard, err
		}
		heard += string(piece[:n])
	}
}

func TestTheFileToKeepMayBeAnother(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a format that is streamed in another form than it is kept in,
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("fragments")
		j.final("a proper file")
		j.end(nil)
		// when it is complete,
		if err := l.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		// then the finished file and the store have the one form and listeners the other.
		file, size := l.Final()
		content := make([]byte, size)
		if _, err := file.ReadAt(content, 0); err != nil || string(content) != "a proper file" {
			t.Errorf("the finished file has %q, %v", content, err)
		}
		if kept := s.store.kept(a); kept != "a proper file" || !l.Stored() {
			t.Errorf("kept %q", kept)
		}
		want(t, l, "fragments")
	})
}

func TestAFailedIDIsFreeAtOnce(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a failed flight with a listener who has not left, and a log that takes its time,
		terms := s.terms()
		terms.Ended = func(coalesce.Summary) { time.Sleep(time.Second) }
		l, j := s.start(t, a, admission.Interactive, terms)
		defer l.Close()
		j.end(errors.New("broken"))
		if err := l.Ready(t.Context()); err == nil {
			t.Fatal("it did not fail")
		}
		// when the same is asked for again, then it is rendered again, with nobody told of the failure.
		again, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("whole")
		j.end(nil)
		want(t, again, "whole")
	})
}

func TestAVariantThatWasStoredMeanwhileIsNotRendered(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		s.store.variants[a] = []byte("stored")
		l, j := s.start(t, a, admission.Interactive, s.terms())
		wantEnding(t, l, coalesce.ErrStored)
		if j.prepares.Load()+j.renders.Load() != 0 || len(s.endings) != 0 {
			t.Error("something was done, or told, for what is stored")
		}
		// But what its listeners could not open either is rendered, or they would be sent there for ever.
		s.store.openErr = errors.New("too many open files")
		l, j = s.start(t, a, admission.Interactive, s.terms())
		j.write("anew")
		j.end(nil)
		want(t, l, "anew")
	})
}

func TestASpoolThatIsNotStoredLingers(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		// Given a complete variant and no store,
		l, j := s.start(t, a, admission.Interactive, s.unstored())
		j.write("whole")
		j.end(nil)
		want(t, l, "whole")
		s.check(t, 0, 0) // the slot does not linger
		// when somebody comes within a second, then it is there; and later it is not.
		time.Sleep(900 * time.Millisecond)
		late := s.join(t, a, admission.Interactive)
		time.Sleep(200 * time.Millisecond)
		if _, joined := s.group.Join(a, admission.Interactive); joined || s.group.Going(a) {
			t.Error("it lingers on")
		}
		want(t, late, "whole")
		if err := s.idle(); err != nil {
			t.Error(err)
		}
	})
}

func TestAStoreThatFailsCostsNobodyTheirVariant(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		s.store.putErr = errors.New("read-only file system")
		l, j := s.start(t, a, admission.Interactive, s.terms())
		j.write("whole")
		j.end(nil)
		want(t, l, "whole")
		if sum := s.lastEnding(t); sum.Err != nil || sum.Stored || !errors.Is(sum.StoreErr, s.store.putErr) {
			t.Errorf("told %+v", sum)
		}
		want(t, s.join(t, a, admission.Low), "whole")
	})
}
