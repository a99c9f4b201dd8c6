package urlapi_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

const (
	hexKey  = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	hexSalt = "0a0b0c"
)

func newKey(t testing.TB, key, salt string) urlapi.Key {
	t.Helper()
	k, err := urlapi.NewKey(key, salt)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNewKeyRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{"", hexSalt}, {hexKey[2:], hexSalt}, {hexKey[1:], hexSalt}, {"zz" + hexKey, hexSalt}, {" " + hexKey, hexSalt},
		{hexKey, ""}, {hexKey, "0"}, {hexKey, "xy"},
	} {
		if _, err := urlapi.NewKey(c[0], c[1]); err == nil {
			t.Errorf("key %q, salt %q: accepted", c[0], c[1])
		} else if strings.Contains(err.Error(), "zz") || strings.Contains(err.Error(), hexKey[2:10]) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
	newKey(t, hexKey+"00", "00")
}

func TestKeysStayOutOfLogs(t *testing.T) {
	site := struct{ Keys urlapi.Keyring }{urlapi.Keyring{newKey(t, hexKey, hexSalt)}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		got := fmt.Sprintf(verb, site)
		if !strings.Contains(got, "hidden") || strings.Contains(got, "17") || strings.Contains(got, "1122") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestVerifyAcceptsTwoSpellings(t *testing.T) {
	const rest = "/f:mp3/plain/local://a.wav"
	key := newKey(t, hexKey, hexSalt)
	good := key.Sign(rest)
	ring := urlapi.Keyring{key}
	if !ring.Verify(good, rest) || !ring.Verify(good+"=", rest) {
		t.Fatal("a good signature does not verify")
	}
	mac, _ := base64.RawURLEncoding.DecodeString(good)
	bad := map[string]string{
		"empty": "", "short": good[:42], "long": good + "A", "two pads": good + "==", "pad in front": "=" + good,
		"line break":         good + "\n",
		"line break for pad": good[:20] + "\n" + good[20:],
		"space":              good + " ",
		"the word":           urlapi.Insecure,
		"hex":                fmt.Sprintf("%x", mac),
	}
	// The last character carries two spare bits: three other characters decode to the same bytes.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, good[42])
	for spare := 1; spare < 4; spare++ {
		bad[fmt.Sprint("spare bits ", spare)] = good[:42] + alphabet[last^spare:][:1]
	}
	for i := range good {
		bad[fmt.Sprint("another character at ", i)] = good[:i] + alphabet[strings.IndexByte(alphabet, good[i])^4:][:1] + good[i+1:]
	}
	for what, signature := range bad {
		if ring.Verify(signature, rest) {
			t.Errorf("%s: %q verifies", what, signature)
		}
	}
	std := strings.NewReplacer("-", "+", "_", "/").Replace(good)
	if std != good && ring.Verify(std, rest) {
		t.Error("the other base64 alphabet verifies")
	}
}

// Field case G07: only the bytes that were signed verify.
func TestVerifyWantsTheSignedBytes(t *testing.T) {
	key := newKey(t, hexKey, hexSalt)
	const rest = "/f:mp3/br:96/plain/local://a%2Fb.wav"
	signature := key.Sign(rest)
	for _, other := range []string{
		"/f%3Amp3/br:96/plain/local://a%2Fb.wav", "/f:mp3/br:96/plain/local://a%2fb.wav", "/br:96/f:mp3/plain/local://a%2Fb.wav",
		"/f:mp3//br:96/plain/local://a%2Fb.wav", "/f:mp3/./br:96/plain/local://a%2Fb.wav", rest + "/", rest + "?x=1", rest[1:],
		"/f:mp3/br:96/plain/local://a/b.wav", "",
	} {
		if (urlapi.Keyring{key}).Verify(signature, other) {
			t.Errorf("%q verifies with the signature of %q", other, rest)
		}
	}
}

func TestAnyKeyOfTheRingVerifies(t *testing.T) {
	const rest = "/plain/local://a.wav"
	old, current := newKey(t, hexKey, hexSalt), newKey(t, hexKey, "0a0b0d")
	other := newKey(t, strings.Repeat("01", 32), hexSalt)
	ring := urlapi.Keyring{current, old}
	if !ring.Verify(old.Sign(rest), rest) || !ring.Verify(current.Sign(rest), rest) {
		t.Error("a key of the ring does not verify")
	}
	if ring.Verify(other.Sign(rest), rest) {
		t.Error("a key that is not in the ring verifies")
	}
	if twice := (urlapi.Keyring{old, old}); !twice.Verify(old.Sign(rest), rest) {
		t.Error("a key that is in the ring twice does not verify")
	}
	var zero urlapi.Key
	if (urlapi.Keyring{zero}).Verify(zero.Sign(rest), rest) || (urlapi.Keyring{}).Verify(old.Sign(rest), rest) {
		t.Error("a signature verifies without a key")
	}
}
