package coalesce_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
)

// Case S6: an encoder writes far more than the bound before anybody looks at its file again.
func TestNobodyHearsAByteBeyondTheBound(t *testing.T) {
	whole := strings.Repeat("0123456789", 10)
	for name, end := range map[string]func(*job){
		"it goes on":  func(*job) {},
		"it ends":     func(j *job) { j.end(nil) },
		"it fails":    func(j *job) { j.end(errors.New("exit status 1")) },
		"time passes": func(*job) { time.Sleep(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, one, func(t *testing.T, s *site) {
				terms := s.terms()
				terms.MaxSize = int64(len(whole) / 10)
				l, j := s.start(t, a, admission.Interactive, terms)
				defer l.Close()
				j.write(whole[:1])
				if err := l.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				j.write(whole[1:])
				end(j)
				heard, err := hearRest(l)
				if err == nil || int64(len(heard)) > terms.MaxSize || !strings.HasPrefix(whole, heard) {
					t.Errorf("heard %d bytes of at most %d: %v", len(heard), terms.MaxSize, err)
				}
				if s.store.kept(a) != "" {
					t.Error("it was stored")
				}
			})
		})
	}
}

func TestAStoredFormThatIsTooLargeIsNotComplete(t *testing.T) {
	inBubble(t, one, func(t *testing.T, s *site) {
		terms := s.terms()
		terms.MaxSize = 10
		l, j := s.start(t, a, admission.Interactive, terms)
		j.write("streamed")
		j.final("and stored in more bytes")
		j.end(nil)
		wantEnding(t, l, coalesce.ErrTooLarge)
		if s.store.kept(a) != "" {
			t.Error("it was stored")
		}
	})
}
