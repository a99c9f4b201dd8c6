// Package urlapi reads and writes the URLs of the Audio Proxy API, version 1: what they ask for, whether they were
// signed, and the one name under which their answer is kept.
//
// A URL path is /{signature}/{options}/{source}, or /{signature}/info/{source}. Reading one takes these steps, in this
// order, each a function of its own, because each failure is a different answer:
//
//	signature, rest, ok := urlapi.Split(escapedPath)   // !ok: 404
//	keyring.Verify(signature, rest)                    // false: 401
//	request, err := urlapi.ParseRequest(rest)          // *SourceError: 404, *OptionError: 422
//	exp := urlapi.PeekExpiry(request.OptionSegments)   // Expired(exp, now): 410
//	options, err := urlapi.ParseOptions(request.OptionSegments) // *OptionError: 422
//	source, err := urlapi.ParseSource(request.Source)  // *SourceError: 404
//	key := urlapi.CacheKey(options.Canonical(), source.String())
//
// All of it works on the escaped path as the client sent it. A path that was decoded and encoded again is another
// path: its signature fails, and it must.
//
// The package does no I/O, reads no clock and keeps no state; every function may be called concurrently.
package urlapi
