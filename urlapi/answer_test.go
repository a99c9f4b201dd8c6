package urlapi_test

import (
	"mime"
	"testing"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/urlapi"
)

func TestContentTypeAndExtension(t *testing.T) {
	for options, want := range map[string][2]string{
		"":                   {"audio/mpeg", ".mp3"},
		"f:opus":             {"audio/ogg", ".opus"},
		"f:ogg":              {"audio/ogg", ".ogg"},
		"f:aac":              {"audio/aac", ".aac"},
		"f:m4a":              {"audio/mp4", ".m4a"},
		"f:flac":             {"audio/flac", ".flac"},
		"f:wav":              {"audio/wav", ".wav"},
		"f:peaks":            {"application/json", ".json"},
		"f:peaks/pk_fmt:dat": {"application/octet-stream", ".dat"},
	} {
		o := mustParse(t, options)
		if got := [2]string{o.ContentType(), o.Extension()}; got != want {
			t.Errorf("%q: %v, want %v", options, got, want)
		}
	}
	for _, f := range urlapi.Formats() {
		if got := mustParse(t, "f:"+string(f)).Format; got != f {
			t.Errorf("f:%s reads as %s", f, got)
		}
	}
}

func TestContentDisposition(t *testing.T) {
	for options, want := range map[string]string{
		"f:mp3":                     ``,
		"dl:my%20song.mp3":          `attachment; filename="my song.mp3"; filename*=UTF-8''my%20song.mp3`,
		"dl:caf%C3%A9%E2%82%AC.mp3": `attachment; filename="caf__.mp3"; filename*=UTF-8''caf%C3%A9%E2%82%AC.mp3`,
		"dl:a%22;b=%5C%25%2Fc'.mp3": `attachment; filename="a_;b=___c'.mp3"; filename*=UTF-8''a%22%3Bb%3D%5C%25%2Fc%27.mp3`,
		"dl:100%2525.mp3":           `attachment; filename="100_25.mp3"; filename*=UTF-8''100%2525.mp3`,
	} {
		o := mustParse(t, options)
		got := o.ContentDisposition()
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", options, got, want)
		}
		if want == "" {
			continue
		}
		// Go's own reader prefers filename*, as a browser does.
		if disposition, params, err := mime.ParseMediaType(got); err != nil || disposition != "attachment" || params["filename"] != o.Download {
			t.Errorf("%q: reads back as %q, %q and %v", options, disposition, params, err)
		}
	}
}
