package urlapi_test

import (
	"errors"
	"fmt"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

// Reading a request, step by step.
func Example() {
	key, err := urlapi.NewKey("00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF", "FFEEDDCCBBAA99887766554433221100")
	if err != nil {
		panic(err)
	}
	path := "/K-bdgs5jKMbGU75weSwIWy4ryWvufzmE60JEgD9lycI/f:mp3/br:128/plain/local://tones.wav"

	signature, rest, _ := urlapi.Split(path)
	fmt.Println("signed:", urlapi.Keyring{key}.Verify(signature, rest))

	request, _ := urlapi.ParseRequest(rest)
	options, _ := urlapi.ParseOptions(request.OptionSegments)
	source, _ := urlapi.ParseSource(request.Source)
	fmt.Println("options:", options.Canonical())
	fmt.Println("source:", source)
	fmt.Println("type:", options.ContentType())
	fmt.Println("key:", urlapi.CacheKey(options.Canonical(), source.String()))
	// Output:
	// signed: true
	// options: br:128/f:mp3
	// source: local://tones.wav
	// type: audio/mpeg
	// key: 94898aaf6a79646855db33441923aa5305854cc241cfae493f55cee138059955
}

func ExampleKey_Sign() {
	key, err := urlapi.NewKey("00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF", "FFEEDDCCBBAA99887766554433221100")
	if err != nil {
		panic(err)
	}
	rest := "/info/plain/local://tones.wav"
	fmt.Println("/" + key.Sign(rest) + rest)
	// Output:
	// /mYs1TUVJVMjrIdse0c5LAqW3VA59x5GYnTepGfnTRq8/info/plain/local://tones.wav
}

// All spellings of the same wish have one canonical form.
func ExampleOptions_Canonical() {
	for _, sent := range []string{"f:opus/t:30.0:15.500/br:96", "br:0096/exp:2000000000/f:opus/t:30:15.5"} {
		options, err := urlapi.ParseOptions(sent)
		if err != nil {
			panic(err)
		}
		fmt.Println(options.Canonical())
	}
	// Output:
	// br:96/f:opus/t:30:15.5
	// br:96/f:opus/t:30:15.5
}

func ExampleParseOptions_refused() {
	_, err := urlapi.ParseOptions("f:flac/br:96")
	var refused *urlapi.OptionError
	if errors.As(err, &refused) {
		fmt.Println(refused.Segment)
	}
	fmt.Println(err)
	// Output:
	// br:96
	// option br:96: only for lossy formats
}
