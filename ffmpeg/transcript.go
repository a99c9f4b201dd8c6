package ffmpeg

import "errors"

// errFlood ends a run whose source has more to say of itself than any song has: reading that costs our time, and a
// slot for as long as it lasts.
var errFlood error = &Error{Class: Undecodable, Err: errors.New("the source's tags or chapters are too many")}

// transcript reads what a program writes to stderr. It keeps a bounded amount.
type transcript struct {
	report  Report
	tail    tail
	total   int64
	flooded func()        // called once, when there is too much
	opened  chan struct{} // closed once the report on the source is over; may be nil
}

func (t *transcript) Write(p []byte) (int, error) {
	t.total += int64(len(p))
	_, _ = t.tail.Write(p)
	_, _ = t.report.Write(p)
	if t.flooded != nil && t.report.Flooded() {
		t.flooded()
		t.flooded = nil
	}
	if t.opened != nil && t.report.InputDone() {
		close(t.opened)
		t.opened = nil
	}
	return len(p), nil
}

// words are what tells how the run ended: what was complained of, and the end of it all, which the log shows.
func (t *transcript) words() []byte {
	end := t.tail.bytes()
	if t.total == int64(len(end)) {
		return end
	}
	return append(append(make([]byte, 0, len(end)+troubleLimit+1), t.report.Trouble()...), end...)
}
