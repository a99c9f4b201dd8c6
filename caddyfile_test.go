package audioproxy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what Caddyfiles adapt to into testdata/adapt")

func adapt(text string) ([]byte, []caddyconfig.Warning, error) {
	return caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
}

// validate loads a config without running it, as `caddy validate` does.
func validate(t *testing.T, adapted []byte) error {
	t.Helper()
	config := new(caddy.Config)
	if err := json.Unmarshal(adapted, config); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(config)
}

// What Caddyfiles mean in JSON is pinned: others generate that JSON.
func TestCaddyfilesAdaptToTheirGoldenJSON(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfile")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Caddyfiles: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		adapted, warnings, err := adapt(string(text))
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", file, err, warnings)
			continue
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, adapted, "", "\t"); err != nil {
			t.Fatal(err)
		}
		pretty.WriteByte('\n')
		golden := strings.TrimSuffix(file, ".caddyfile") + ".json"
		if *update {
			if err := os.WriteFile(golden, pretty.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
		if formatted := caddyfile.Format(text); !bytes.Equal(formatted, text) {
			t.Errorf("%s: caddy fmt would change it", file)
		}
	}
}

// Each way to get a Caddyfile wrong is told with its place, what was wrong, and what would be right.
func TestMistakesInACaddyfileAreExplained(t *testing.T) {
	t.Setenv("AUDIO_PROXY_UNSET", "")
	const site = "http://localhost:1 {\n\taudio_proxy {\n"
	const ok = "\t\tsource local testdata/audio\n\t\tinsecure\n"
	directive := func(lines string) string { return site + lines + "\n\t}\n}\n" }
	global := func(lines string) string {
		return "{\n\taudio_proxy {\n\t\t" + lines + "\n\t}\n}\n" + directive(ok)
	}
	for _, tc := range []struct {
		caddyfile string
		says      string // with the place, when it is found while reading
	}{
		{global("slots"), "Caddyfile:3"},
		{global("slots 0"), "slots takes a whole number, 1 or more, not \"0\", at Caddyfile:3"},
		{global("slots two"), "not \"two\", at Caddyfile:3"},
		{global("slots 1 2"), "Caddyfile:3"},
		{global("slots 1\n\t\tslots 2"), "slots is there twice, at Caddyfile:4"},
		{global("queue -1"), "queue takes a whole number, 0 or more"},
		{global("class_limit fast 1"), "fast"},
		{global("class_limit low"), "class_limit low <n>"},
		{global("class_limit low 0"), "1 or more"},
		{global("class_limit low 1\n\t\tclass_limit low 2"), "class_limit low is there twice, at Caddyfile:4"},
		{global("queue 4\n\t\tready_threshold 5"), "ready_threshold 5 is above the queue size 4"},
		{global("render_timeout 0s"), "render_timeout takes a duration such as 90s or 5m"},
		{global("render_timeout soon"), "not \"soon\", at Caddyfile:3"},
		{global("max_source_size lots"), "max_source_size takes a size such as 500MB or 2GiB"},
		{global("max_source_size 99999999999999GB"), "max_source_size takes a size"},
		{global("abandoned keep"), "abandoned is cancel or finish, not \"keep\", at Caddyfile:3"},
		{global("store"), "store file_system [<dir>]"},
		{global("store tape"), "audio_proxy.stores.tape"},
		{global("store off now"), "Caddyfile:3"},
		{global("store file_system /a /b"), "Caddyfile:3"},
		{global("store file_system {\n\t\t\tsize 1GB\n\t\t}"), "unknown option of store file_system: \"size\""},
		{global("store file_system README.md/variants"), "README.md"},
		{global("ffmpeg /no/such/ffmpeg"), "install ffmpeg, or name it with the global option audio_proxy > ffmpeg"},
		{global("ffmpeg {env.AUDIO_PROXY_UNSET}"), "ffmpeg"},
		{global("speed 11"), "unknown global option of audio_proxy: \"speed\", at Caddyfile:3"},
		{"{\n\taudio_proxy fast\n}\n" + directive(ok), "Caddyfile:2"},
		{"{\n\taudio_proxy {\n\t}\n\taudio_proxy {\n\t}\n}\n" + directive(ok), "is there twice"},

		{directive("\t\tsource local testdata/audio"), "nobody could be served"},
		{directive("\t\tinsecure"), "source local <root>"},
		{directive("\t\tsource\n\t\tinsecure"), "source local <root>"},
		{directive("\t\tsource local\n\t\tinsecure"), "source local <root>"},
		{directive("\t\tsource tape /a\n\t\tinsecure"), "audio_proxy.sources.tape"},
		{directive("\t\tsource local /no/such/folder\n\t\tinsecure"), "source local"},
		{directive(ok + "\t\tsource local /b"), "source local is there twice"},
		{directive("\t\tsource local testdata/audio\n\t\tkey abcd"), "key <hex> <salt-hex>"},
		{directive("\t\tsource local testdata/audio\n\t\tkey abcd 00"), "at least 32 are needed"},
		{directive("\t\tsource local testdata/audio\n\t\tkey {env.AUDIO_PROXY_UNSET} 00"), "key 1"},
		{directive("\t\tsource local testdata/audio\n\t\tkey xyz 00"), "hex"},
		{directive(ok + "\t\tinsecure"), "insecure is there twice, at Caddyfile:5"},
		{directive(ok + "\t\tinsecure yes"), "Caddyfile:5"},
		{directive(ok + "\t\tclass fast /a"), "fast"},
		{directive(ok + "\t\tclass"), "Caddyfile:5"},
		{directive(ok + "\t\tclass low"), "no matcher"},
		{directive(ok + "\t\tclass low @missing"), "@missing"},
		{directive(ok + "\t\tclass low word"), "\"word\" is no matcher"},
		{directive(ok + "\t\tclass low /a /b"), "Caddyfile:5"},
		{directive(ok + "\t\tclass low {\n\t\t}"), "no matcher"},
		{directive(ok + "\t\tdefault_class fast"), "fast"},
		{directive(ok + "\t\tpreset one"), "preset <name> <options>"},
		{directive(ok + "\t\tpreset one f:avi"), "f:avi"},
		{directive(ok + "\t\tpreset a/b f:mp3"), "a/b"},
		{directive(ok + "\t\tpreset one f:mp3\n\t\tpreset one f:ogg"), "preset one is there twice"},
		{directive(ok + "\t\tpresets_only"), "no preset"},
		{directive(ok + "\t\tvariant f:mp3"), "key and insecure have no place"},
		{directive("\t\tsource local testdata/audio\n\t\tvariant f:avi"), "f:avi"},
		{directive("\t\tsource local testdata/audio\n\t\tvariant f:mp3\n\t\tpreset a f:mp3"), "presets have no place"},
		{directive("\t\tsource local testdata/audio\n\t\tvariant f:mp3/exp:2000000000"), "exp"},
		{directive(ok + "\t\tfreshness fresh"), "freshness is immutable or revalidate"},
		{directive(ok + "\t\tdelivery express"), "delivery is stream or complete"},
		{directive(ok + "\t\tclient_idle never"), "client_idle takes a duration"},
		{directive(ok + "\t\terrors html"), "errors is json or caddy"},
		{directive(ok + "\t\tpass_thru yes"), "Caddyfile:5"},
		{directive(ok + "\t\tcors"), "Caddyfile:5"},
		{directive(ok + "\t\tcache"), "Caddyfile:5"},
		{directive(ok + "\t\tcache off"), "cache is public or private, not \"off\", at Caddyfile:5"},
		{directive(ok + "\t\tcache private public"), "Caddyfile:5"},
		{directive(ok + "\t\tcache public\n\t\tcache private"), "cache is there twice, at Caddyfile:6"},
		{directive(ok + "\t\tspeed 11"), "unknown subdirective of audio_proxy: \"speed\", at Caddyfile:5"},
	} {
		adapted, _, err := adapt(tc.caddyfile)
		if err == nil {
			err = validate(t, adapted)
		}
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("says %v, want %q in it:\n%s", err, tc.says, tc.caddyfile)
		}
	}
}
