package audioproxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// byteRange is the one range of bytes that a request asks for. What it comes to depends on the variant's size.
type byteRange struct {
	first int64 // -1: counted from the end
	last  int64 // -1: to the end. Where first is -1: how many bytes before the end
}

// parseRange reads the Range field (RFC 9110, 14.1.2 and 14.2). It returns false where the whole variant is the answer:
// there is no such field, it is malformed, of another unit, or asks for several ranges.
func parseRange(header http.Header) (byteRange, bool) {
	unit, set, found := strings.Cut(single(header, "Range"), "=")
	if !found || strings.ToLower(unit) != "bytes" {
		return byteRange{}, false
	}
	only := ""
	for spec := range strings.SplitSeq(set, ",") {
		spec = textproto.TrimString(spec)
		switch {
		case spec == "": // lists may have empty elements (RFC 9110, 5.6.1.2)
		case only != "":
			return byteRange{}, false
		default:
			only = spec
		}
	}
	return parseRangeSpec(only)
}

// parseRangeSpec reads "first-last", "first-" or "-length".
func parseRangeSpec(spec string) (byteRange, bool) {
	first, last, found := strings.Cut(spec, "-")
	if !found || first == "" && last == "" || first != "" && last != "" && isLess(last, first) {
		return byteRange{}, false
	}
	b, ok := byteRange{-1, -1}, true
	if first != "" {
		b.first, ok = parseDigits(first)
	}
	if last != "" && ok {
		b.last, ok = parseDigits(last)
	}
	return b, ok
}

// parseDigits reads a number of digits and nothing else. One too large for an int64 is beyond the end of every variant,
// as is the largest int64.
func parseDigits(s string) (int64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// isLess compares numbers of any length by their digits.
func isLess(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// whole reports whether the range is the whole variant, whatever its size.
func (b byteRange) whole() bool { return b.first == 0 && b.last == -1 }

// within is the part of a variant of so many bytes that the range covers, or false where it covers none.
func (b byteRange) within(size int64) (first, length int64, satisfiable bool) {
	if b.first < 0 {
		length = min(b.last, size)
		return size - length, length, length > 0
	}
	if b.first >= size {
		return 0, 0, false
	}
	last := size - 1
	if b.last >= 0 {
		last = min(b.last, last)
	}
	return b.first, last - b.first + 1, true
}

// contentRange is the field that tells which part of a variant the answer is.
func contentRange(first, length, size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", first, first+length-1, size)
}
