package embedded

import (
	"errors"
	"sync"
	"sync/atomic"
)

// errSilenced ends a connection that was closed while it was silenced.
var errSilenced = errors.New("closed while silent")

// A gate holds up the connections that are silenced.
type gate struct {
	used    atomic.Bool // anything is silenced
	mu      sync.Mutex
	all     bool
	ids     map[int64]bool
	changed chan struct{} // closed and replaced by each change
}

func newGate() *gate { return &gate{ids: make(map[int64]bool), changed: make(chan struct{})} }

// set changes what is silenced: more ids, all if there are none, or nothing.
func (g *gate) set(on bool, ids []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !on:
		g.all = false
		clear(g.ids)
	case len(ids) == 0:
		g.all = true
	}
	for _, id := range ids {
		g.ids[id] = true
	}
	g.used.Store(on)
	close(g.changed)
	g.changed = make(chan struct{})
}

// silent reports whether c is held up.
func (g *gate) silent(c *conn) bool {
	if !g.used.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all || g.ids[c.sid.Load()]
}

// wait blocks while c is silenced. It fails if the connection ends meanwhile.
func (g *gate) wait(c *conn) error {
	if !g.used.Load() {
		return nil
	}
	for {
		g.mu.Lock()
		held, changed := g.all || g.ids[c.sid.Load()], g.changed
		g.mu.Unlock()
		if !held {
			return nil
		}
		select {
		case <-changed:
		case <-c.done:
			return errSilenced
		}
	}
}
