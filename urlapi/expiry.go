package urlapi

import (
	"strings"
	"time"
)

// PeekExpiry finds the expiry in option segments that have not been checked yet: an expired URL is answered 410 for
// good, whatever else it says. It returns 0 where there is none that ParseOptions would take.
func PeekExpiry(segments string) int64 {
	var exp int64
	for segment := range strings.SplitSeq(segments, "/") {
		value, ok := strings.CutPrefix(segment, "exp:")
		if !ok {
			continue
		}
		n, reason := parseInteger(value, 1, maxExpiry)
		if reason != "" || exp != 0 {
			return 0
		}
		exp = n
	}
	return exp
}

// Expired tells whether a URL with this expiry is over: from the second after it, with no leeway. 0 never expires.
func Expired(exp int64, now time.Time) bool { return exp != 0 && now.Unix() > exp }

// ClampLifetime cuts the lifetime of a response, or of anything handed out with it, to what the URL has left. The
// result is never negative. An expiry of 0 cuts nothing.
func ClampLifetime(lifetime time.Duration, exp int64, now time.Time) time.Duration {
	if exp == 0 {
		return lifetime
	}
	left := max(exp-now.Unix(), 0)
	if left >= int64(lifetime/time.Second)+1 { // compared in seconds: the year 9999 does not fit into a Duration
		return lifetime
	}
	return min(lifetime, time.Duration(left)*time.Second)
}
