package urlapi

import (
	"net/netip"
	"strconv"
	"strings"
)

// Bounds of a source on a web server. 253 and 63 are the longest name and label that DNS can carry (RFC 1035).
const (
	maxURL   = 2048
	maxHost  = 253
	maxLabel = 63
)

// parseHTTPS reads what follows "https://". It takes the URL apart by hand, since net/url would decode and re-encode
// its path, and a server may tell the two spellings apart.
func parseHTTPS(rest string) (Source, string) {
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	host, port, reason := parseAuthority(authority)
	if reason != "" {
		return Source{}, reason
	}
	canonical := SchemeHTTPS + "://" + bracketed(host) + port + canonicalTail(tail)
	return Source{Scheme: SchemeHTTPS, Path: canonical, authority: host, canonical: canonical}, ""
}

// canonicalTail folds what a server never sees (the fragment) or cannot tell apart (an absent path, an empty query).
func canonicalTail(tail string) string {
	tail, _, _ = strings.Cut(tail, "#")
	path, query, _ := strings.Cut(tail, "?")
	if path == "" {
		path = "/"
	}
	if query == "" {
		return path
	}
	return path + "?" + query
}

// parseAuthority returns the canonical host, an IPv6 address without brackets, and the port with its colon unless it
// is the default.
func parseAuthority(authority string) (host, port, reason string) {
	if strings.Contains(authority, "@") {
		return "", "", "user information in the URL"
	}
	if literal, ok := strings.CutPrefix(authority, "["); ok {
		literal, port, ok = strings.Cut(literal, "]")
		addr, err := netip.ParseAddr(literal)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "", "not an IPv6 address"
		}
		host = addr.String()
	} else {
		if i := strings.IndexByte(authority, ':'); i >= 0 {
			authority, port = authority[:i], authority[i:]
		}
		if host, reason = canonicalHost(authority); reason != "" {
			return "", "", reason
		}
	}
	port, reason = canonicalPort(port)
	return host, port, reason
}

// canonicalHost accepts names of ASCII letters, digits, hyphens and underscores (which also keeps out percent-escapes
// and spellings that Unicode folds to another name), and IPv4 addresses in their one strict form. A name that ends in
// a number but is not such an address is what other parsers read as 127.0.0.1 in disguise: 127.1, 0x7f.0.0.1,
// 2130706433. It is refused.
func canonicalHost(host string) (canonical, reason string) {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > maxHost {
		return "", "no host, or too long a one"
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if !isHostLabel(label) {
			return "", "not a host name"
		}
		last = strings.ToLower(label)
	}
	host = strings.ToLower(host) // only now that it is ASCII: Unicode folds the Kelvin sign to a k
	if !endsInNumber(last) {
		return host, ""
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", "not an IPv4 address"
	}
	return addr.String(), ""
}

func isHostLabel(label string) bool {
	for i := range len(label) {
		if c := label[i]; !isAlphanumeric(c) && c != '-' && c != '_' {
			return false
		}
	}
	return label != "" && len(label) <= maxLabel
}

// endsInNumber follows the WHATWG URL standard: decimal digits, or 0x and hex digits.
func endsInNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return allDigits(label)
}

func canonicalPort(port string) (canonical, reason string) {
	if port == "" {
		return "", ""
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(port, ":"), 10, 16)
	if err != nil || n == 0 || port != ":"+strconv.FormatUint(n, 10) {
		return "", "not a port"
	}
	if n == 443 {
		return "", ""
	}
	return port, ""
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
