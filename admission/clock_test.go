package admission_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// holdsOf has the holds that are told collected.
func holdsOf(holds *[]time.Duration) admission.Option {
	return admission.WithObserver(func(e admission.Event) {
		if e.Kind == admission.EventReleased {
			*holds = append(*holds, e.Hold)
		}
	})
}

func TestABurstSharesReadingsOfTheClock(t *testing.T) {
	// Given a clock that goes on by a microsecond whenever it is read
	reads := 0
	var holds []time.Duration
	b := admission.New(admission.Limits{Slots: 1}, holdsOf(&holds), admission.SharedClock(func() time.Duration {
		reads++
		return time.Duration(reads) * time.Microsecond
	}))
	// When a hundred ask and release at once
	const renders = 100
	for range renders {
		held(t, b, admission.Default).Release()
	}
	// Then some of them share a reading. That does not depend on the timer,
	// which may come late, but only on how often a reading may be used again.
	if most, least := 2*renders, 2*renders/(admission.ReadingUses+1); reads < least || reads >= most {
		t.Errorf("the clock was read %d times, want %d or a few more", reads, least)
	}
	// and nobody held a slot for less than no time.
	for i, hold := range holds {
		if hold < 0 || hold > time.Microsecond {
			t.Errorf("render %d held its slot for %s", i, hold)
		}
	}
}

func TestAReadingIsNotUsedAfterTheBurst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var holds []time.Duration
		b := admission.New(admission.Limits{Slots: 2}, holdsOf(&holds))
		const length = 50*time.Millisecond + 7*time.Nanosecond
		for range 5 {
			// Given a slot taken in a burst, which has uses of a reading left
			for range 2 {
				held(t, b, admission.Default).Release()
			}
			lease := held(t, b, admission.Default)
			holds = nil
			// When it is released after a pause, then the time is exact.
			time.Sleep(length)
			lease.Release()
			if holds[0] != length {
				t.Fatalf("held for %s, told %s", length, holds[0])
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestAChangeByItselfHasTheExactTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var holds []time.Duration
		b := admission.New(admission.Limits{Slots: 1}, holdsOf(&holds))
		for length := time.Millisecond; length < time.Minute; length *= 3 {
			time.Sleep(time.Second)
			lease := held(t, b, admission.Default)
			time.Sleep(length)
			synctest.Wait() // a timer that ends a reading is due by now
			lease.Release()
			if last := holds[len(holds)-1]; last != length {
				t.Errorf("held for %s, told %s", length, last)
			}
		}
	})
}
