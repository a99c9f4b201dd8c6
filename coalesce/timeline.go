package coalesce

import "time"

// Timeline is when a flight came how far. A moment that has not come, or never will, is zero.
type Timeline struct {
	Began time.Time // somebody asked for it

	Slot time.Time // the budget's answer: a slot, unless the flight was refused

	PrepareBegan, PrepareEnded time.Time

	RenderBegan, FirstByte, RenderEnded time.Time
}

// Timeline tells it as far as it has gone.
func (l *Listener) Timeline() Timeline {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	t := Timeline{Began: f.began, PrepareBegan: f.preparing, RenderBegan: f.started}
	t.Slot = after(f.began, f.summary.Wait)
	t.PrepareEnded = after(f.preparing, f.prepared)
	t.FirstByte = after(f.started, f.summary.FirstByte)
	t.RenderEnded = after(f.started, f.summary.Render)
	return t
}

// after is the end of a stretch of time that has been measured once it was over.
func after(start time.Time, d time.Duration) time.Time {
	if start.IsZero() || d == 0 {
		return time.Time{}
	}
	return start.Add(d)
}

// Job is what the flight was started with, for whoever gave it and knows more of it.
func (l *Listener) Job() Job { return l.flight.job }
