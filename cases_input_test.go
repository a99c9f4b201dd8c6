package audioproxy

import (
	"bytes"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Field cases about what sources hold, and about options that meet an encoder's limits. What is asked of them in
// every format is in TestEveryFileOfTheCorpusGetsItsVerdict.

// A picture in a song is a video stream to ffmpeg, and some muxers would keep it (case F01).
func TestCoverArtStaysBehind(t *testing.T) {
	s := corpusSite(t, "slots 3")
	for _, source := range []string{
		"lossy/small-cover.mp3", "lossy/huge-cover-1.5MB.mp3", "lossless/with-cover.flac", "containers/attachment-cover.mka",
	} {
		for _, format := range allFormats {
			if format.name == "peaks" {
				continue
			}
			a := s.get(s.url("f:"+format.name, source))
			if streams := streamsOf(t, a.body, "codec_type"); a.status != http.StatusOK || streams != "audio" {
				t.Errorf("f:%s of %s: %d with streams %q", format.name, source, a.status, streams)
			}
		}
	}
}

// streamsOf has ffprobe list one field of each stream of a file.
func streamsOf(t *testing.T, body []byte, field string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, "ffprobe", "-v", "error", "-show_entries", "stream="+field, "-of", "csv=p=0", "file:"+file)
	return strings.Join(strings.Fields(out), " ")
}

// Encoders refuse layouts that masters have; two channels is what all of them take, and what a URL without ch
// means (case F03).
func TestMoreThanTwoChannelsAreFoldedToTwo(t *testing.T) {
	s := corpusSite(t, "slots 3")
	for i, source := range []string{"lossless/5.1-side-48k.flac", "lossy/opus-6ch.opus", "wav/7.1-48k.wav"} {
		for n, format := range []string{"opus", "mp3", "ogg", "m4a", "flac", "wav"} {
			options, want := "f:"+format, "2"
			if n%3 == i { // every format once
				options, want = options+"/ch:1", "1"
			}
			a := s.get(s.url(options, source))
			if a.status != http.StatusOK || a.err != nil || streamsOf(t, a.body, "channels") != want {
				t.Errorf("%s of %s: %d with %s channels, want %s", options, source, a.status, streamsOf(t, a.body, "channels"), want)
			}
		}
	}
}

// A value that no source makes possible is told before anything runs; one that this source does not allow becomes
// the nearest that it does (case F06).
func TestWhatAnEncoderRefusesIsNeverAnEmptySong(t *testing.T) {
	ffmpeg := counting(t)
	s := corpusSite(t, "ffmpeg "+ffmpeg.path)
	const speech, telephone = "wav/plain-speech-44k1-mono.wav", "wav/ulaw-8k.wav"
	for _, options := range []string{
		"f:opus/br:999", "f:opus/br:257/ch:1", "f:ogg/br:8/sr:44100", "f:ogg/br:500/ch:1", "f:ogg/br:501", "f:mp3/sr:192000",
		"f:opus/sr:44100", "f:aac/br:999", "f:m4a/br:289/ch:1", "f:flac/sr:383999", "f:wav/sr:384001",
	} {
		if a := s.get(s.url(options, speech)); a.status != http.StatusUnprocessableEntity || a.code() != "invalid_options" {
			t.Errorf("%s: %d %s", options, a.status, a.body)
		}
	}
	if n := len(ffmpeg.pids()); n != 0 {
		t.Errorf("%d encoders ran for what none can do", n)
	}
	for _, tc := range []struct{ options, source string }{
		{"f:ogg/br:8", speech}, {"f:ogg/br:500", speech}, {"f:opus/br:512", speech}, {"f:mp3/br:10000", speech}, {"f:aac/br:576", speech},
		{"f:ogg/br:128", telephone}, {"f:ogg/br:500", telephone}, {"f:ogg/br:8", telephone}, {"f:mp3/br:320", telephone}, {"f:aac/br:320", telephone},
	} {
		a := s.get(s.url(tc.options, tc.source))
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s of %s: %d %s %v", tc.options, tc.source, a.status, a.body, a.err)
			continue
		}
		stored := s.get(s.url(tc.options, tc.source))
		bodies := make([][]byte, len(allFormats))
		bodies[0] = stored.body // decoded by content
		if seconds := float64(len(decodeAll(t, bodies)[0])) / decodedRate; stored.cache() != "HIT" || seconds < 2.9 || seconds > 3.4 {
			t.Errorf("%s of %s: %s of %.2f s, want 3", tc.options, tc.source, stored.cache(), seconds)
		}
	}
}

// picture is what f:peaks draws.
type picture struct {
	Version, Channels, Bits, Length int
	SampleRate                      int `json:"sample_rate"`
	SamplesPerPixel                 int `json:"samples_per_pixel"`
	Data                            []int
}

func (s *site) picture(options, source string) (p picture) {
	s.t.Helper()
	a := s.get(s.url("f:peaks/"+options, source))
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusOK {
		s.t.Errorf("peaks %s of %s: %d, %v: %.200s", options, source, a.status, err, a.body)
	}
	return p
}

// What a container claims must not stretch the picture (case F08).
func TestThePictureIsThatOfTheSound(t *testing.T) {
	s := corpusSite(t, "")

	halves := s.picture("pts:100", "lossy/vbr-no-xing-quiet-then-loud.mp3") // claims 52 s and has 40
	for i := range min(100, len(halves.Data)/2) {
		low, high := halves.Data[2*i], halves.Data[2*i+1]
		// Sound begins in the middle, and the last pixel may have a part of one only.
		if i < 49 && (low < -300 || high > 300) || i > 50 && i < 99 && (low > -3000 || high < 3000) {
			t.Errorf("pixel %d is %d to %d", i, low, high)
		}
	}
	if frames := 40.0457 * 44100; halves.SamplesPerPixel < int(frames/100) || halves.SamplesPerPixel > int(frames/100)+30 {
		t.Errorf("a pixel is %d samples, want a hundredth of 40 s", halves.SamplesPerPixel)
	}

	sine := s.picture("pts:100", "lossless/piped-total-samples-0.flac") // claims nothing
	if len(sine.Data) != 200 {
		t.Fatalf("%d values, want 200", len(sine.Data))
	}
	top := slices.Max(sine.Data)
	for i := range 100 {
		if low, high := sine.Data[2*i], sine.Data[2*i+1]; high < top*9/10 || low > -top*9/10 {
			t.Errorf("pixel %d of a sine is %d to %d", i, low, high)
		}
	}
}

// Drawing libraries break on other numbers than these (case F10).
func TestPicturesOfExtremesAreExact(t *testing.T) {
	s := corpusSite(t, "")

	square := s.picture("pts:50", "peaks/full-scale-square.wav")
	for i, v := range square.Data {
		if want := []int{-32768, 32767}[i%2]; v != want {
			t.Fatalf("value %d of a full-scale square is %d, want %d", i, v, want)
		}
	}
	if mono := s.picture("pts:50", "peaks/antiphase-stereo.wav"); mono.Channels != 1 || slices.Min(mono.Data) < -1 || slices.Max(mono.Data) > 1 {
		t.Errorf("opposite channels cancel out; got %d channels from %d to %d", mono.Channels, slices.Min(mono.Data), slices.Max(mono.Data))
	}
	if both := s.picture("pts:50/ch:2", "peaks/antiphase-stereo.wav"); both.Channels != 2 || len(both.Data) != 200 || slices.Max(both.Data) < 1000 {
		t.Errorf("two channels: %d with %d values up to %d", both.Channels, len(both.Data), slices.Max(both.Data))
	}
	for _, pts := range []int{1, 7, 800, 44087, 50000} {
		options := "pts:" + strconv.Itoa(pts)
		p := s.picture(options, "peaks/prime-frame-count-44087.wav")
		if p.Version != 2 || p.Bits != 16 || p.Length != pts || len(p.Data) != 2*pts || p.SamplesPerPixel != (44087+pts-1)/pts {
			t.Errorf("%s: version %d, %d bits, length %d, %d values, %d samples per pixel", options, p.Version, p.Bits, p.Length, len(p.Data), p.SamplesPerPixel)
		}
		for i := 0; i+1 < len(p.Data); i += 2 {
			if p.Data[i] > p.Data[i+1] {
				t.Fatalf("%s: pixel %d is %d to %d", options, i/2, p.Data[i], p.Data[i+1])
			}
		}
		dat := s.get(s.url("f:peaks/pk_fmt:dat/"+options, "peaks/prime-frame-count-44087.wav")).body
		want := make([]byte, 0, 24+2*len(p.Data))
		for _, v := range []int{2, 0, 44100, p.SamplesPerPixel, pts, 1} {
			want = endian.LittleEndian.AppendUint32(want, uint32(v))
		}
		for _, v := range p.Data {
			want = endian.LittleEndian.AppendUint16(want, uint16(int16(v)))
		}
		if !bytes.Equal(dat, want) {
			t.Errorf("%s: dat has %d bytes that are not the JSON's numbers, which make %d", options, len(dat), len(want))
		}
	}
}

// What is written to a pipe cannot say its length in front. What is stored must, and is then another
// representation; and whatever we serve, we can read (case F11).
func TestWhatIsStoredSaysItsLength(t *testing.T) {
	s := corpusSite(t, "")
	for _, source := range []string{"wav/plain-speech-44k1-mono.wav", "wav/piped-size-ffffffff.wav"} {
		for _, options := range []string{"f:wav", "f:flac", "f:mp3/br:96", "f:mp3/q:4"} {
			first := s.get(s.url(options, source))
			second := s.get(s.url(options, source))
			if !bytes.Equal(first.body, second.body) && first.header.Get("ETag") == second.header.Get("ETag") {
				t.Errorf("%s: two representations have the one ETag %s", options, first.header.Get("ETag"))
			}
			body := second.body
			switch {
			case strings.HasPrefix(options, "f:wav"):
				data := bytes.Index(body, []byte("data"))
				if size := endian.LittleEndian.Uint32(body[data+4:]); int(size) != len(body)-data-8 || int(endian.LittleEndian.Uint32(body[4:])) != len(body)-8 {
					t.Errorf("%s of %s: sizes that are not the file's", options, source)
				}
				if streamed := endian.LittleEndian.Uint32(first.body[data+4:]); streamed != 0xFFFFFFFF && int(streamed) != len(body)-data-8 {
					t.Errorf("%s of %s: the stream claims %d bytes", options, source, streamed)
				}
			case options == "f:flac":
				if samples := endian.BigEndian.Uint64(body[18:]) & (1<<36 - 1); samples == 0 || bytes.Equal(body[26:42], make([]byte, 16)) {
					t.Errorf("%s of %s: %d samples with the sum %x", options, source, samples, body[26:42])
				}
			case !bytes.Contains(body[:200], []byte("Xing")) && !bytes.Contains(body[:200], []byte("Info")):
				t.Errorf("%s of %s has no Xing header", options, source)
			}
		}
	}
	again := filepath.Join(s.root, "again.wav")
	if err := os.WriteFile(again, s.get(s.url("f:wav", "wav/plain-speech-44k1-mono.wav")).body, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := s.picture("pts:100", "again.wav"), s.picture("pts:100", "wav/plain-speech-44k1-mono.wav"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("our own output has other peaks than what it was made of")
	}
}

// Tags break JSON and terminals, and would make every variant as large as they are (case F12).
func TestTagsAreBoundedAndMostStayBehind(t *testing.T) {
	s := corpusSite(t, "")
	const source = "lossy/bad-utf8-control-tags.mp3"
	var info struct{ Tags map[string]string }
	a := s.get(s.url("info", source))
	if err := json.Unmarshal(a.body, &info); err != nil || !utf8.Valid(a.body) {
		t.Fatalf("%v: %q", err, a.body)
	}
	if len(info.Tags) == 0 || len(info.Tags) > 32 {
		t.Errorf("%d tags", len(info.Tags))
	}
	for key, value := range info.Tags {
		if key != strings.ToLower(key) || len(value) > 512 {
			t.Errorf("tag %q of %d bytes", key, len(value))
		}
	}
	if i := bytes.IndexFunc(a.body, func(r rune) bool { return r != '\n' && unicode.Is(unicode.Cc, r) }); i >= 0 {
		t.Errorf("info has a raw control character: %q", a.body[i:min(i+20, len(a.body))])
	}
	for _, options := range []string{"f:mp3/br:64", "f:flac"} {
		tagged := s.get(s.url(options, source))
		plain := s.get(s.url(options, "lossy/cbr-xing-info.mp3")) // the same sound
		if n, most := len(tagged.body), len(plain.body)*11/10+2048; tagged.status != http.StatusOK || n > most {
			t.Errorf("%s has %d bytes, want at most %d", options, n, most)
		}
	}
}

// A text file that calls itself audio may be a playlist, a script or a session, and ffmpeg would open what it
// names (case H01). What those name here is a FIFO, at which an opener would stand for ever, and an address at
// which somebody listens.
func TestAPlaylistInDisguiseOpensNothingElse(t *testing.T) {
	ffmpeg := counting(t)
	s := newSite(t, simple("render_timeout 10s\nprobe_timeout 10s\nffmpeg "+ffmpeg.path, ""))
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer canary.Close()
	visited := make(chan string, 100)
	go func() {
		for {
			conn, err := canary.Accept()
			if err != nil {
				return
			}
			visited <- conn.RemoteAddr().String()
			conn.Close()
		}
	}()
	for _, name := range []string{"sibling.wav", "sibling.ts"} {
		if err := syscall.Mkfifo(filepath.Join(s.root, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sibling := filepath.Join(s.root, "sibling.ts")
	address := canary.Addr().String()
	hls := func(segment string) string {
		return "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10.0,\n" + segment + "\n#EXT-X-ENDLIST\n"
	}
	_, port, _ := net.SplitHostPort(address)
	for name, content := range map[string]string{
		"concat-sibling":  "ffconcat version 1.0\nfile 'sibling.wav'\n",
		"concat-absolute": "ffconcat version 1.0\nfile '" + sibling + "'\n",
		"concat-remote":   "ffconcat version 1.0\nfile 'http://" + address + "/x.wav'\n",
		"hls-sibling":     hls("sibling.ts"),
		"hls-file":        hls("file://" + sibling),
		"hls-remote":      hls("http://" + address + "/config/"),
		"hls-both":        hls("concat:http://" + address + "/?|file://" + sibling),
		"hls-key":         strings.Replace(hls("sibling.ts"), "#EXTINF", "#EXT-X-KEY:METHOD=AES-128,URI=\"http://"+address+"/key\"\n#EXTINF", 1),
		"dash":            `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1"><BaseURL>http://` + address + `/x.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>`,
		"sdp":             "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio " + port + " RTP/AVP 0\n",
		"rtsp":            "RTSPtext\nrtsp://" + address + "/x\n",
	} {
		for _, ext := range []string{".mp3", ".wav", ".m3u8"} {
			if err := os.WriteFile(filepath.Join(s.root, name+ext), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct{ options, ext string }{{"f:mp3", ".mp3"}, {"f:peaks", ".wav"}, {"info", ".m3u8"}} {
			if a := s.get(s.url(tc.options, name+tc.ext)); a.status != undecodable.status || a.code() != undecodable.code {
				t.Errorf("%s of %s%s: %d %s", tc.options, name, tc.ext, a.status, a.body)
			}
		}
	}
	// Who has a FIFO open for reading lets others open it for writing.
	for _, name := range []string{"sibling.wav", "sibling.ts"} {
		if fd, err := syscall.Open(filepath.Join(s.root, name), syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = syscall.Close(fd)
			t.Errorf("somebody reads %s", name)
		}
	}
	select {
	case who := <-visited:
		t.Errorf("somebody called from %s", who)
	default:
	}
	s.awaitIdle()
}
