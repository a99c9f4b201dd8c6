package audioproxy

import (
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// representation is what a request's conditions are compared with.
type representation struct {
	tag      string    // its strong entity tag; "" where it has none
	stored   bool      // false: it has yet to be rendered
	modified time.Time // its Last-Modified; zero where it has none
}

// decision is what a request's conditions come to.
type decision int

const (
	conditionsHold decision = iota
	notModified             // 304: the client has it
	conditionsFail          // 412
)

// evaluate judges the conditions of a GET or HEAD in the order of RFC 9110, 13.2.2. If-Range has no say here: see
// rangeApplies. A condition that cannot be read, or that needs a date where there is none, is ignored.
func evaluate(header http.Header, current representation) decision {
	if match := header.Values("If-Match"); len(match) > 0 {
		if !isAny(match) && !hasTag(match, current.tag, false) {
			return conditionsFail
		}
	} else if limit, ok := dateField(header, "If-Unmodified-Since"); ok && current.modifiedAfter(limit) {
		return conditionsFail
	}
	if none := header.Values("If-None-Match"); len(none) > 0 {
		if isAny(none) && current.stored || hasTag(none, current.tag, true) {
			return notModified
		}
		return conditionsHold
	}
	if since, ok := dateField(header, "If-Modified-Since"); ok && !current.modified.IsZero() && !current.modifiedAfter(since) {
		return notModified
	}
	return conditionsHold
}

// notModifiedByTag reports whether the client has the variant, judging by its tag alone: then neither store nor source
// is looked at.
func notModifiedByTag(header http.Header, tag string) bool {
	if len(header.Values("If-Match")) == 0 && len(header.Values("If-Unmodified-Since")) > 0 {
		return false // which comes first, and needs the date
	}
	return evaluate(header, representation{tag: tag}) == notModified
}

// modifiedAfter compares in the precision of HTTP's dates.
func (r representation) modifiedAfter(limit time.Time) bool {
	return r.modified.Truncate(time.Second).After(limit)
}

// rangeApplies evaluates If-Range: with another variant than the client has, a part is no use to it. Weak tags never
// match, and a date only the very Last-Modified.
func rangeApplies(header http.Header, current representation) bool {
	if len(header.Values("If-Range")) == 0 {
		return true
	}
	if tag := single(header, "If-Range"); tag != "" && tag == current.tag {
		return true
	}
	date, ok := dateField(header, "If-Range")
	return ok && !current.modified.IsZero() && date.Equal(current.modified.Truncate(time.Second))
}

// isAny reports whether a field of entity tags is "*".
func isAny(fields []string) bool {
	return len(fields) == 1 && textproto.TrimString(fields[0]) == "*"
}

// hasTag looks for a strong tag in fields of entity tags. Compared weakly, the weak form of it is as good. What follows
// a malformed tag is not read.
func hasTag(fields []string, tag string, weakly bool) bool {
	rest := strings.Join(fields, ",")
	for {
		rest = strings.TrimLeft(rest, " \t,")
		opaque, isWeak := strings.CutPrefix(rest, "W/")
		if !strings.HasPrefix(opaque, `"`) {
			return false
		}
		end := strings.IndexByte(opaque[1:], '"')
		if end < 0 {
			return false
		}
		if opaque[:end+2] == tag && (weakly || !isWeak) {
			return true
		}
		rest = strings.TrimLeft(opaque[end+2:], " \t")
		if !strings.HasPrefix(rest, ",") {
			return false
		}
	}
}

func dateField(header http.Header, name string) (time.Time, bool) {
	date, err := http.ParseTime(single(header, name))
	return date, err == nil
}

// single is the value of a field that may be there once. More of them are as malformed as a list in one would be.
func single(header http.Header, name string) string {
	if values := header.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}
