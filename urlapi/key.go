package urlapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Insecure is the word that stands in place of a signature where a site accepts unsigned URLs. Verify never accepts
// it: whether it counts is the site's decision.
const Insecure = "insecure"

// minKeyBytes is the length of the MAC itself: a shorter key would be the weakest part (RFC 2104, section 3).
const minKeyBytes = sha256.Size

// signatureLength is that of 32 bytes in unpadded base64.
const signatureLength = 43

// Key signs and verifies the paths of one site. The zero Key verifies nothing and must not sign.
type Key struct{ key, salt []byte }

// NewKey makes a Key from its configured form: two strings of hex digits, of either case. The key must be at least 32
// bytes. An empty salt is refused, since it is nearly always an environment variable that was not set, and would show
// only as a 401 on every request. No error repeats any part of either.
func NewKey(hexKey, hexSalt string) (Key, error) {
	key, err := hex.DecodeString(hexKey)
	if err != nil {
		return Key{}, errors.New("key is not an even number of hex digits")
	}
	if len(key) < minKeyBytes {
		return Key{}, fmt.Errorf("key is %d bytes long, at least %d are needed", len(key), minKeyBytes)
	}
	salt, err := hex.DecodeString(hexSalt)
	if err != nil {
		return Key{}, errors.New("salt is not an even number of hex digits")
	}
	if len(salt) == 0 {
		return Key{}, errors.New("salt is empty")
	}
	return Key{key: key, salt: salt}, nil
}

// Sign returns the signature of rest: everything after the signature segment, its leading slash included, escaped
// exactly as it will be requested.
func (k Key) Sign(rest string) string {
	return base64.RawURLEncoding.EncodeToString(k.mac(rest))
}

func (k Key) mac(rest string) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write(k.salt)
	h.Write([]byte(rest))
	return h.Sum(nil)
}

// Format keeps keys out of logs and error texts, whatever verb is used on a Key or on a struct that holds one.
func (Key) Format(s fmt.State, _ rune) { io.WriteString(s, "urlapi.Key(hidden)") }

// Keyring is the set of keys of which any may have signed a request, so that keys rotate without an outage.
type Keyring []Key

// Verify tells whether any key of the ring made this signature for rest. It always tries all of them and compares in
// constant time, so that its duration says nothing about which one fits, or how nearly.
func (r Keyring) Verify(signature, rest string) bool {
	given, ok := decodeSignature(signature)
	if !ok {
		return false
	}
	match := 0
	for _, k := range r {
		if len(k.key) == 0 {
			continue // the zero Key: anyone could compute its signatures
		}
		match |= subtle.ConstantTimeCompare(given, k.mac(rest))
	}
	return match == 1
}

// decodeSignature accepts the two spellings of a signature and no third. Decoders are more generous than that (they
// skip line breaks and ignore the two spare bits of the last character), hence the comparison with the bytes encoded
// anew.
func decodeSignature(s string) ([]byte, bool) {
	if len(s) == signatureLength+1 && s[signatureLength] == '=' {
		s = s[:signatureLength]
	}
	if len(s) != signatureLength {
		return nil, false
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != s {
		return nil, false
	}
	return b, true
}
