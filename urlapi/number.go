package urlapi

import (
	"strconv"
	"strings"
)

// parseMilli reads the API's numbers: -?digits[.digits] with at most three decimals. A fourth decimal is refused
// rather than rounded, so that a number means what it says. On failure it says why.
func parseMilli(s string) (n Milli, reason string) {
	unsigned, negative := strings.CutPrefix(s, "-")
	whole, decimals, point := strings.Cut(unsigned, ".")
	if !allDigits(whole) || point && !allDigits(decimals) {
		return 0, "not a number"
	}
	if len(decimals) > 3 {
		return 0, "more than three decimals"
	}
	thousandths, err := strconv.ParseInt(whole+(decimals + "000")[:3], 10, 64)
	if err != nil {
		return 0, "out of range"
	}
	if negative {
		thousandths = -thousandths
	}
	return Milli(thousandths), ""
}

// parseInteger reads -?digits, from low to high.
func parseInteger(s string, low, high int64) (n int64, reason string) {
	if strings.Contains(s, ".") {
		return 0, "not a whole number"
	}
	m, reason := parseMilli(s)
	if reason != "" {
		return 0, reason
	}
	if n = int64(m) / 1000; n < low || n > high {
		return 0, rangeReason(strconv.FormatInt(low, 10), strconv.FormatInt(high, 10))
	}
	return n, ""
}

// parseWithin reads a number from low to high.
func parseWithin(s string, low, high Milli) (n Milli, reason string) {
	if n, reason = parseMilli(s); reason == "" {
		reason = within(n, low, high)
	}
	return n, reason
}

func within(n, low, high Milli) (reason string) {
	if n < low || n > high {
		return rangeReason(low.String(), high.String())
	}
	return ""
}

func rangeReason(low, high string) string { return "must be from " + low + " to " + high }

// allDigits tells whether s is one or more ASCII digits.
func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// String writes the number in its shortest form: no trailing zeros, no point without decimals. Where the unit is a
// second, this is also how ffmpeg reads it.
func (m Milli) String() string {
	sign, n := "", int64(m)
	if n < 0 {
		sign, n = "-", -n
	}
	s := sign + strconv.FormatInt(n/1000, 10)
	if n %= 1000; n != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(1000+n, 10)[1:], "0")
	}
	return s
}
