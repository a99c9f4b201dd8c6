package coalesce_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

func TestTimelineTellsWhenAFlightCameHowFar(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		first, blocker := s.start(t, a, admission.Interactive, s.terms())
		j := newJob(s, b)
		j.prepare = func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		began := time.Now()
		l, _ := s.startJob(t, j, admission.Interactive, s.terms())
		if got, want := l.Timeline(), (coalesce.Timeline{Began: began}); got != want {
			t.Errorf("waiting: %+v, want %+v", got, want)
		}
		if l.Job() != j {
			t.Error("the listener names another job")
		}

		time.Sleep(3 * time.Second)
		blocker.write("1")
		blocker.end(nil)
		synctest.Wait()
		time.Sleep(3 * time.Second)
		j.write("2")
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		j.end(nil)
		for err := error(nil); err != io.EOF; err = l.More(t.Context()) {
			if _, err := l.Read(make([]byte, 9)); err != nil {
				t.Fatal(err)
			}
		}

		got := l.Timeline()
		for _, moment := range []struct {
			name string
			at   time.Time
			want time.Duration
		}{
			{"Slot", got.Slot, 3 * time.Second},
			{"PrepareBegan", got.PrepareBegan, 3 * time.Second},
			{"PrepareEnded", got.PrepareEnded, 5 * time.Second},
			{"RenderBegan", got.RenderBegan, 5 * time.Second},
			{"FirstByte", got.FirstByte, 6 * time.Second},
			{"RenderEnded", got.RenderEnded, 7 * time.Second},
		} {
			// Growth is looked for every so often, which delays what follows from it.
			if late := moment.at.Sub(began) - moment.want; late < 0 || late > 100*time.Millisecond {
				t.Errorf("%s is %v after the beginning, want %v", moment.name, moment.at.Sub(began), moment.want)
			}
		}
		if sum := s.lastEnding(t); sum.Job != j {
			t.Error("the summary names another job")
		}
		first.Close()
		l.Close()
	})
}
