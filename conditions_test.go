package audioproxy

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// In the tables below, KEY stands for the variant's cache key, DATE for its Last-Modified, and EARLIER and LATER for
// dates beside that.
func fillConditions(header []string, key string, modified time.Time) []string {
	filled := make([]string, len(header))
	for i, text := range header {
		filled[i] = strings.NewReplacer("KEY", key,
			"DATE", modified.UTC().Format(http.TimeFormat),
			"EARLIER", modified.UTC().Add(-time.Hour).Format(http.TimeFormat),
			"LATER", modified.UTC().Add(time.Hour).Format(http.TimeFormat)).Replace(text)
	}
	return filled
}

// conditionCases are requests, and what they get of a variant that is stored and of one that is not. A status stands
// for its body: 200 is the whole, 206 what part says.
var conditionCases = []struct {
	header       []string
	stored, cold int
	part         string // of a variant of 10 bytes 0123456789, say
}{
	{header: nil, stored: 200, cold: 200},

	// Ranges, RFC 9110, 14.
	{[]string{"Range", "bytes=0-1"}, 206, 206, "0-1"},
	{[]string{"Range", "Bytes=0-1"}, 206, 206, "0-1"},
	{[]string{"Range", "BYTES=2-"}, 206, 206, "2-"},
	{[]string{"Range", "bytes=0-"}, 206, 200, "0-"},
	{[]string{"Range", "bytes=-3"}, 206, 206, "-3"},
	{[]string{"Range", "bytes=0-0"}, 206, 206, "0-0"},
	{[]string{"Range", "bytes=-99999999999999999999"}, 206, 206, "0-"},
	{[]string{"Range", "bytes=1-99999999999999999999"}, 206, 206, "1-"},
	{[]string{"Range", "bytes=00000000000000000000001-2"}, 206, 206, "1-2"},
	{[]string{"Range", "bytes=1-9223372036854775807"}, 206, 206, "1-"},
	{[]string{"Range", "bytes=,1-2, ,"}, 206, 206, "1-2"},
	{[]string{"Range", "bytes=99999999-"}, 416, 416, ""},
	{[]string{"Range", "bytes=99999999999999999999-"}, 416, 416, ""},
	{[]string{"Range", "bytes=99999999999999999998-99999999999999999999"}, 416, 416, ""},
	{[]string{"Range", "bytes=9223372036854775807-"}, 416, 416, ""},
	{[]string{"Range", "bytes=-0"}, 416, 416, ""},
	{header: []string{"Range", "bytes =0-1"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0 -1"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=2-1"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=99999999999999999999-99999999999999999998"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=-"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes="}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=--1"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=+1-2"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0x1-2"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=1-2-3"}, stored: 200, cold: 200},
	{header: []string{"Range", "seconds=1-2"}, stored: 200, cold: 200},
	{header: []string{"Range", "byteſ=1-2"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0-1,3-4"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=99999999-,88888888-"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0-1", "Range", "bytes=3-4"}, stored: 200, cold: 200},

	// If-Range, 13.1.5.
	{[]string{"Range", "bytes=0-1", "If-Range", `"KEY"`}, 206, 206, "0-1"},
	{header: []string{"Range", "bytes=0-1", "If-Range", `W/"KEY"`}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0-1", "If-Range", `"other"`}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=99999999-", "If-Range", `"other"`}, stored: 200, cold: 200},
	{[]string{"Range", "bytes=0-1", "If-Range", "DATE"}, 206, 200, "0-1"},
	{header: []string{"Range", "bytes=0-1", "If-Range", "EARLIER"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0-1", "If-Range", "LATER"}, stored: 200, cold: 200},
	{header: []string{"Range", "bytes=0-1", "If-Range", "yesterday"}, stored: 200, cold: 200},
	{header: []string{"If-Range", `"other"`}, stored: 200, cold: 200},

	// If-None-Match, 13.1.2.
	{header: []string{"If-None-Match", `"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-None-Match", `W/"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-None-Match", `"other", W/"x,y" ,"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-None-Match", `"other"`, "If-None-Match", `"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-None-Match", `, ,"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-None-Match", "*"}, stored: 304, cold: 200},
	{header: []string{"If-None-Match", " * "}, stored: 304, cold: 200},
	{header: []string{"If-None-Match", `"*"`}, stored: 200, cold: 200},
	{header: []string{"If-None-Match", `"other"`}, stored: 200, cold: 200},
	{header: []string{"If-None-Match", `KEY`}, stored: 200, cold: 200},
	{header: []string{"If-None-Match", `w/"KEY"`}, stored: 200, cold: 200},
	{header: []string{"If-None-Match", `"a,"KEY",b"`}, stored: 200, cold: 200},
	{header: []string{"If-None-Match", `"KEY"`, "Range", "bytes=99999999-"}, stored: 304, cold: 304},
	{[]string{"If-None-Match", `"other"`, "Range", "bytes=0-1"}, 206, 206, "0-1"},

	// If-Match, 13.1.1.
	{header: []string{"If-Match", `"KEY"`}, stored: 200, cold: 200},
	{header: []string{"If-Match", `"other", "KEY"`}, stored: 200, cold: 200},
	{header: []string{"If-Match", "*"}, stored: 200, cold: 200},
	{header: []string{"If-Match", `W/"KEY"`}, stored: 412, cold: 412},
	{header: []string{"If-Match", `"other"`}, stored: 412, cold: 412},
	{header: []string{"If-Match", ""}, stored: 412, cold: 412},
	{header: []string{"If-Match", `"other"`, "Range", "bytes=99999999-"}, stored: 412, cold: 412},
	{[]string{"If-Match", `"KEY"`, "Range", "bytes=0-1"}, 206, 206, "0-1"},

	// Dates, 13.1.3 and 13.1.4. What is not there yet has none.
	{header: []string{"If-Modified-Since", "DATE"}, stored: 304, cold: 200},
	{header: []string{"If-Modified-Since", "LATER"}, stored: 304, cold: 200},
	{header: []string{"If-Modified-Since", "EARLIER"}, stored: 200, cold: 200},
	{header: []string{"If-Modified-Since", "yesterday"}, stored: 200, cold: 200},
	{header: []string{"If-Modified-Since", "LATER", "Range", "bytes=99999999-"}, stored: 304, cold: 416},
	{[]string{"If-Modified-Since", "EARLIER", "Range", "bytes=0-1"}, 206, 206, "0-1"},
	{header: []string{"If-Unmodified-Since", "DATE"}, stored: 200, cold: 200},
	{header: []string{"If-Unmodified-Since", "EARLIER"}, stored: 412, cold: 200},
	{header: []string{"If-Unmodified-Since", "yesterday"}, stored: 200, cold: 200},
	{header: []string{"If-Unmodified-Since", "EARLIER", "If-Unmodified-Since", "EARLIER"}, stored: 200, cold: 200},

	// Precedence, 13.2.2.
	{header: []string{"If-Match", `"other"`, "If-None-Match", `"KEY"`}, stored: 412, cold: 412},
	{header: []string{"If-Match", `"KEY"`, "If-None-Match", `"KEY"`}, stored: 304, cold: 304},
	{header: []string{"If-Match", `"KEY"`, "If-Unmodified-Since", "EARLIER"}, stored: 200, cold: 200},
	{header: []string{"If-Unmodified-Since", "EARLIER", "If-None-Match", `"KEY"`}, stored: 412, cold: 304},
	{header: []string{"If-None-Match", `"other"`, "If-Modified-Since", "LATER"}, stored: 200, cold: 200},
}

// brief is a variant that renders quickly, and differs for each n.
func (s *site) brief(n int) string {
	return s.url("f:wav/sr:8000/t:0:0.1/cb:"+strconv.Itoa(n), "speech.wav")
}

// R11: one parser and one answer, whether the variant is stored or has yet to be rendered.
func TestConditionsGetOneAnswer(t *testing.T) {
	s := newSite(t, simple("", ""))
	for n, tc := range conditionCases {
		url := s.brief(n)
		head := s.do(t.Context(), http.MethodHead, url)
		key := strings.Trim(strings.TrimPrefix(head.header.Get("ETag"), "W/"), `"`)

		cold := s.get(url, fillConditions(tc.header, key, time.Now())...)

		if cold.status != tc.cold {
			t.Errorf("cold, %q: %d %s, want %d", tc.header, cold.status, cold.body, tc.cold)
		}
		s.get(url)
		whole := s.get(url)
		modified, err := http.ParseTime(whole.header.Get("Last-Modified"))
		if err != nil || whole.cache() != "HIT" {
			t.Fatalf("%v %v", whole.header, err)
		}
		header := fillConditions(tc.header, key, modified)
		stored := s.get(url, header...)
		if stored.status != tc.stored {
			t.Errorf("stored, %q: %d %s, want %d", header, stored.status, stored.body, tc.stored)
		}
		for when, a := range map[string]answer{"cold": cold, "stored": stored} {
			if err := isWhatItSays(a, whole.body, tc.part, key); err != nil {
				t.Errorf("%s, %q: %v\n%v", when, header, err, a.header)
			}
		}
	}
}

// isWhatItSays checks an answer's header and body against its status.
func isWhatItSays(a answer, whole []byte, part, key string) error {
	size := len(whole)
	lacks := func(name, want string) error {
		if got := a.header.Get(name); got != want {
			return fmt.Errorf("%d with %s %q, want %q", a.status, name, got, want)
		}
		return nil
	}
	var errs []error
	switch a.status {
	case http.StatusOK:
		if len(a.body) != size || a.err != nil {
			errs = append(errs, fmt.Errorf("%d bytes of %d, %w", len(a.body), size, a.err))
		}
		errs = append(errs, lacks("Content-Range", ""))
	case http.StatusPartialContent:
		first, last, _ := strings.Cut(part, "-")
		var from int
		to := size - 1
		if first == "" {
			n, _ := strconv.Atoi(last)
			from = size - n
		} else if from, _ = strconv.Atoi(first); last != "" {
			to, _ = strconv.Atoi(last)
		}
		if !bytes.Equal(a.body, whole[from:to+1]) {
			errs = append(errs, fmt.Errorf("%d bytes that are not %s of %d", len(a.body), part, size))
		}
		errs = append(errs, lacks("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, size)), lacks("Accept-Ranges", "bytes"),
			lacks("Content-Length", strconv.Itoa(to-from+1)), lacks("ETag", `"`+key+`"`), lacks("Content-Type", "audio/wav"))
	case http.StatusNotModified:
		errs = append(errs, lacks("ETag", `"`+key+`"`), lacks("Content-Type", ""), lacks("Content-Length", ""),
			lacks("Cache-Control", "public, max-age=31536000, immutable, no-transform"))
	case http.StatusRequestedRangeNotSatisfiable:
		errs = append(errs, lacks("Content-Range", "bytes */"+strconv.Itoa(size)), isJSONError(a, "range_not_satisfiable"))
	case http.StatusPreconditionFailed:
		errs = append(errs, isJSONError(a, "precondition_failed"))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func isJSONError(a answer, code string) error {
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Accept-Ranges": "", "ETag": "", "Last-Modified": "", "X-Audio-Proxy": "",
	} {
		if got := a.header.Get(name); got != want {
			return fmt.Errorf("%d with %s %q, want %q", a.status, name, got, want)
		}
	}
	if a.code() != code {
		return fmt.Errorf("%d with %s, want the code %s", a.status, a.body, code)
	}
	return nil
}

// HEAD has the header that GET would have, so far as it can be known without rendering.
func TestHeadHasTheHeaderOfGet(t *testing.T) {
	for _, directive := range []string{"", "delivery complete", "freshness revalidate"} {
		s := newSite(t, simple("", directive))
		for n, tc := range conditionCases {
			url := s.brief(n)
			key := strings.Trim(strings.TrimPrefix(s.do(t.Context(), http.MethodHead, url).header.Get("ETag"), "W/"), `"`)
			if n%7 == 0 { // renders take their time
				header := fillConditions(tc.header, key, time.Now())
				differ(t, directive+" cold", header, s.do(t.Context(), http.MethodHead, url, header...), s.get(url, header...), true)
			}
		}
		url := s.brief(0)
		s.get(url)
		stored := s.get(url)
		modified, err := http.ParseTime(stored.header.Get("Last-Modified"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range conditionCases {
			header := fillConditions(tc.header, strings.Trim(stored.header.Get("ETag"), `"`), modified)
			differ(t, directive+" stored", header, s.do(t.Context(), http.MethodHead, url, header...), s.get(url, header...), false)
		}
	}
}

// differ compares the headers of a HEAD and of the GET after it. Of what is not rendered yet, neither the length nor
// the date is known, and so no range.
func differ(t *testing.T, what string, header []string, head, get answer, cold bool) {
	t.Helper()
	volatile := []string{"Date", "Server-Timing", "Connection"}
	status := get.status
	if cold && (status == http.StatusPartialContent || status == http.StatusRequestedRangeNotSatisfiable) {
		status = http.StatusOK
	}
	if get.status == http.StatusRequestedRangeNotSatisfiable && cold {
		return // only the whole render tells
	}
	if cold {
		volatile = append(volatile, "Content-Length", "Content-Range", "Last-Modified")
	}
	for name := range maps.Keys(head.header) {
		if !slices.Contains(volatile, name) && !slices.Equal(head.header[name], get.header[name]) {
			t.Errorf("%s, %q: HEAD has %s %q, GET %q", what, header, name, head.header[name], get.header[name])
		}
	}
	for name := range maps.Keys(get.header) {
		if head.header[name] == nil && !slices.Contains(volatile, name) {
			t.Errorf("%s, %q: HEAD lacks %s %q", what, header, name, get.header[name])
		}
	}
	if head.status != status || len(head.body) != 0 {
		t.Errorf("%s, %q: HEAD gets %d with %d bytes, GET %d", what, header, head.status, len(head.body), get.status)
	}
}

// A condition is no way to learn more of a source than a plain request would tell, and costs no render.
func TestConditionsOfWhatCannotBeHad(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("ffmpeg "+ffmpeg.path, ""))
	for _, header := range [][]string{{"If-Match", `"other"`}, {"Range", "bytes=0-1"}, {"If-None-Match", "*"}} {
		if a := s.get(s.url("f:mp3", "nothing-here.wav"), header...); a.status != http.StatusNotFound {
			t.Errorf("%q of a source that is not there: %d, want 404", header, a.status)
		}
	}
	s.get(s.url("f:mp3", "speech.wav"), "If-Match", `"other"`)
	if n := len(ffmpeg.pids()); n != 0 {
		t.Errorf("%d encoders ran for a condition that fails", n)
	}
}

func TestInfoKnowsConditions(t *testing.T) {
	s := newSite(t, simple("", ""))
	url := s.url("info", "speech.wav")
	etag := s.get(url).header.Get("ETag")
	for _, tc := range []struct {
		name, value string
		status      int
	}{
		{"If-None-Match", etag, 304},
		{"If-None-Match", "W/" + etag, 304},
		{"If-None-Match", "*", 304},
		{"If-None-Match", `"other"`, 200},
		{"If-Match", etag, 200},
		{"If-Match", `"other"`, 412},
		{"Range", "bytes=0-1", 200},
	} {
		if a := s.get(url, tc.name, tc.value); a.status != tc.status {
			t.Errorf("%s: %s: %d, want %d", tc.name, tc.value, a.status, tc.status)
		}
	}
}

// A range lies within the variant, and is what the field says, or there is none.
func FuzzRange(f *testing.F) {
	for _, tc := range conditionCases {
		for i := 0; i+1 < len(tc.header); i += 2 {
			if tc.header[i] == "Range" {
				f.Add(tc.header[i+1], int64(1000))
			}
		}
	}
	f.Add("bytes=9223372036854775807-9223372036854775807", int64(math.MaxInt64))
	f.Add("bytes=-9223372036854775807", int64(1))
	f.Fuzz(checkRange)
}

// The fuzzer is slow in a package that holds all of Caddy. This tries a hundred thousand fields made of a range's parts.
func TestRangesMadeOfAnyParts(t *testing.T) {
	parts := []string{"bytes", "Bytes", "=", "-", ",", " ", "\t", "0", "1", "00", "9223372036854775807", "9223372036854775808", "99999999999999999999", "x", "\"", ""}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		field := "bytes="
		if random.IntN(4) == 0 {
			field = ""
		}
		for range random.IntN(8) {
			field += parts[random.IntN(len(parts))]
		}
		checkRange(t, field, []int64{1, 2, 1000, math.MaxInt64}[random.IntN(4)])
	}
}

func checkRange(t *testing.T, field string, size int64) {
	asked, ok := parseRange(http.Header{"Range": {field}})
	if !ok || size <= 0 {
		return
	}
	first, length, satisfiable := asked.within(size)
	if satisfiable && (first < 0 || length < 1 || first > size-length) {
		t.Errorf("%q of %d bytes: %d bytes from %d on", field, size, length, first)
	}
	if again, same := parseRange(http.Header{"Range": {"bytes=" + asked.spell()}}); !same || again != asked {
		t.Errorf("%q is read as %v, and that as %v", field, asked, again)
	}
	if unit, spec, _ := strings.Cut(field, "="); !strings.EqualFold(unit, "bytes") || strings.Trim(spec, "0123456789-, \t") != "" {
		t.Errorf("%q is read as %v", field, asked)
	}
}

// spell writes a range as a request would.
func (b byteRange) spell() string {
	switch {
	case b.first < 0:
		return fmt.Sprintf("-%d", b.last)
	case b.last < 0:
		return fmt.Sprintf("%d-", b.first)
	}
	return fmt.Sprintf("%d-%d", b.first, b.last)
}

// Neither list nor tag is longer than its field, whatever stands in it, and a tag is found only as a whole one.
func FuzzEntityTags(f *testing.F) {
	for _, tc := range conditionCases {
		for i := 1; i < len(tc.header); i += 2 {
			f.Add(tc.header[i])
		}
	}
	f.Fuzz(func(t *testing.T, field string) {
		strongly := hasTag([]string{field}, `"KEY"`, false)
		if weakly := hasTag([]string{field}, `"KEY"`, true); strongly && !weakly || weakly && !strings.Contains(field, `"KEY"`) {
			t.Errorf("%q: strongly %v, weakly %v", field, strongly, weakly)
		}
	})
}
