package coalesce_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/coalesce"
	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// tune is a job that needs no encoder.
type tune struct{}

func (tune) Prepare(context.Context) error { return nil }

func (tune) Render(_ context.Context, spool *coalesce.Spool) error {
	spool.Release() // there is nothing to hold back until it is known to be audio
	return os.WriteFile(filepath.Join(spool.Dir(), coalesce.LiveName), []byte("do re mi"), 0o600)
}

func (tune) Close() {}

// Two ask for one variant: it is rendered once, and both hear all of it.
func Example() {
	budget := admission.New(admission.Limits{Slots: 1, Queue: 8})
	group := coalesce.NewGroup(budget)
	defer group.Close()

	id := store.ID{Scope: strings.Repeat("0", 16), Key: strings.Repeat("a", 64)}
	terms := coalesce.Terms{Timeout: time.Minute} // and no store
	for range 2 {
		l, started := group.JoinOrStart(id, admission.Interactive, tune{}, terms)
		defer l.Close()
		if err := l.Ready(context.Background()); err != nil {
			fmt.Println("answered with an error:", err)
			return
		}
		fmt.Print("started ", started, ": ")
		var err error
		for err == nil {
			if err = l.More(context.Background()); err == nil {
				var piece [1024]byte
				var n int
				n, err = l.Read(piece[:])
				fmt.Print(string(piece[:n]))
			}
		}
		fmt.Println(".", err == io.EOF)
	}
	// Output:
	// started true: do re mi. true
	// started false: do re mi. true
}
