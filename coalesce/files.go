package coalesce

import (
	"os"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/store"
)

// files are what a flight has no use for any more. They are closed and removed outside of all locks: giving up a
// large file takes a disk its time, and nobody should have to wait for it to join another flight.
type files struct {
	spools []*Spool
	final  *os.File
	kept   *store.Variant // the finished file, open from the store
	reader *store.Reader  // of the rest, in a ledger
}

func (u files) close() {
	for _, s := range u.spools {
		s.remove()
	}
	if u.final != nil {
		u.final.Close()
	}
	if u.kept != nil {
		u.kept.Close()
	}
	if u.reader != nil {
		u.reader.Close()
	}
}

// unusedFiles takes all that is left out of a flight that can gain no listener and has none. The mutex is held.
func (f *flight) unusedFiles() files {
	if !f.landed || f.total > 0 {
		return files{}
	}
	unused := files{f.spools, f.final, f.kept, f.reader}
	if f.kept != nil {
		unused.final = nil // it is the variant's, which closes it
	}
	f.spools, f.final, f.kept, f.reader = nil, nil, nil, nil
	return unused
}

// unusedSpools takes those spools out that no listener needs: all but the latest, once it has what the one before
// it had. The mutex is held.
func (f *flight) unusedSpools() files {
	last := len(f.spools) - 1
	if last < 1 || f.visible > 0 && f.live != f.spools[last].live {
		return files{}
	}
	unused := files{spools: f.spools[:last:last]}
	f.spools = []*Spool{f.spools[last]}
	return unused
}

// dispose takes the flight off the list, and lets its files go as soon as no listener reads them.
func (f *flight) dispose() {
	f.group.land(f)
	f.mu.Lock()
	f.landed = true
	unused := f.unusedFiles()
	f.mu.Unlock()
	unused.close()
}
