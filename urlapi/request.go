package urlapi

import "strings"

// Request is what a path asks for, taken apart but not yet checked.
type Request struct {
	Info           bool   // the source's facts, not a variant
	OptionSegments string // as sent, for ParseOptions; always "" under Info
	Source         string // as sent, for ParseSource: "plain/…" or "enc/…"
}

// Split takes the signature off an escaped path. rest is every byte after the signature segment, with its leading
// slash: what the signature was made for. ok is false where the path has no such shape; a signature may be empty, and
// then simply fails to verify.
func Split(escapedPath string) (signature, rest string, ok bool) {
	path, ok := strings.CutPrefix(escapedPath, "/")
	if !ok {
		return "", "", false
	}
	slash := strings.IndexByte(path, '/')
	if slash < 0 {
		return "", "", false
	}
	return path[:slash], path[slash:], true
}

// RestoreSlash repairs the rest that Split returned where somebody on the way has merged slashes, as many proxies do, so
// that exactly one follows the scheme of a plain source: plain/local:/a.wav. No source can be meant like that. All other
// slashes are left alone, since nothing tells how many there were.
func RestoreSlash(rest string) string {
	path, ok := strings.CutPrefix(rest, "/")
	if !ok {
		return rest
	}
	at := sourceStart(path)
	if at < 0 {
		return rest
	}
	source, ok := strings.CutPrefix(path[at:], "plain/")
	if !ok {
		return rest
	}
	scheme, tail, ok := strings.Cut(source, "/")
	if !ok || strings.HasPrefix(tail, "/") || !isSchemeAndColon(scheme) {
		return rest
	}
	return rest[:len(rest)-len(tail)] + "/" + tail
}

// isSchemeAndColon tells whether s is a scheme (RFC 3986, section 3.1) and its colon, which may be escaped.
func isSchemeAndColon(s string) bool {
	scheme, ok := strings.CutSuffix(s, ":")
	if !ok && len(s) > 3 && strings.EqualFold(s[len(s)-3:], "%3a") {
		scheme, ok = s[:len(s)-3], true
	}
	if !ok || scheme == "" || scheme[0] < 'A' {
		return false
	}
	for i := range len(scheme) {
		if !isAlphanumeric(scheme[i]) && strings.IndexByte("+-.", scheme[i]) < 0 {
			return false
		}
	}
	return true
}

// ParseRequest takes apart the rest that Split returned. The source begins at the first segment that is exactly
// "plain" or "enc"; what stands before it are options. Without such a segment the error is a *SourceError. An option
// beside "info", or an empty segment in front of the source, is an *OptionError.
func ParseRequest(rest string) (Request, error) {
	path, ok := strings.CutPrefix(rest, "/")
	if !ok {
		return Request{}, refuseSource("no source in the path")
	}
	at := sourceStart(path)
	if at < 0 {
		return Request{}, refuseSource("no source in the path")
	}
	req := Request{Source: path[at:]}
	if at == 0 {
		return req, nil
	}
	req.OptionSegments = path[:at-1]
	first, beside, more := strings.Cut(req.OptionSegments, "/")
	switch {
	case req.OptionSegments == "":
		return Request{}, &OptionError{Segment: "", Reason: "empty segment"}
	case first != "info":
		return req, nil
	case more:
		segment, _, _ := strings.Cut(beside, "/")
		return Request{}, &OptionError{Segment: segment, Reason: "info takes no options"}
	}
	req.Info, req.OptionSegments = true, ""
	return req, nil
}

// sourceStart returns where the source begins in a path without its leading slash, or -1.
func sourceStart(path string) int {
	for at := 0; ; {
		segment, _, more := strings.Cut(path[at:], "/")
		if segment == "plain" || segment == "enc" {
			return at
		}
		if !more {
			return -1
		}
		at += len(segment) + 1
	}
}
