package urlapi_test

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestExpiredFromTheSecondAfter(t *testing.T) {
	const exp = 2_000_000_000
	for now, want := range map[time.Time]bool{
		time.Unix(exp-1, 0):           false,
		time.Unix(exp, 0):             false,
		time.Unix(exp, 999_999_999):   false,
		time.Unix(exp+1, 0):           true,
		time.Unix(exp+1_000_000, 500): true,
	} {
		if got := urlapi.Expired(exp, now); got != want {
			t.Errorf("at %v: %v", now.UTC(), got)
		}
		if urlapi.Expired(0, now) {
			t.Error("a URL without an expiry expires")
		}
	}
}

func TestClampLifetime(t *testing.T) {
	now := time.Unix(1_000_000_000, 700_000_000)
	for _, c := range []struct {
		lifetime time.Duration
		exp      int64
		want     time.Duration
	}{
		{time.Hour, 0, time.Hour},
		{time.Hour, now.Unix() + 10, 10 * time.Second},
		{time.Hour, now.Unix() + 3600, time.Hour},
		{time.Hour, now.Unix() + 3601, time.Hour},
		{1500 * time.Millisecond, now.Unix() + 1, time.Second},
		{1500 * time.Millisecond, now.Unix() + 2, 1500 * time.Millisecond},
		{time.Hour, now.Unix(), 0},
		{time.Hour, now.Unix() - 5, 0},
		{time.Hour, 1, 0},
		{365 * 24 * time.Hour, 253402300799, 365 * 24 * time.Hour},
		{math.MaxInt64, 253402300799, math.MaxInt64},
	} {
		if got := urlapi.ClampLifetime(c.lifetime, c.exp, now); got != c.want {
			t.Errorf("%v until %d: %v, want %v", c.lifetime, c.exp, got, c.want)
		}
	}
}

func TestPeekExpiry(t *testing.T) {
	for segments, want := range map[string]int64{
		"": 0, "f:mp3": 0, "exp:5": 5, "f:nonsense//exp:5/br:": 5, "exp:005": 5,
		"exp:0": 0, "exp:-5": 0, "exp:soon": 0, "exp:253402300800": 0, "exp": 0, "xexp:5": 0, "exp:5/exp:6": 0, "exp:5/exp:x": 0, "EXP:5": 0,
	} {
		if got := urlapi.PeekExpiry(segments); got != want {
			t.Errorf("%q: %d, want %d", segments, got, want)
		}
	}
}
