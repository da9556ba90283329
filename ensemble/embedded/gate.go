package embedded

import (
	"errors"
	"sync"
	"sync/atomic"
)

// errSilenced ends a connection that was closed while it was silenced.
var errSilenced = errors.New("closed while silent")

// A gate holds up the connections that are silenced, or all while the server
// stands still.
type gate struct {
	used    atomic.Bool // anything is held up
	mu      sync.Mutex
	frozen  bool
	all     bool
	ids     map[int64]bool
	changed chan struct{} // closed and replaced by each change
}

func newGate() *gate { return &gate{ids: make(map[int64]bool), changed: make(chan struct{})} }

// silence holds up more: connections of the given sessions, or all.
func (g *gate) silence(ids []int64) {
	g.change(func() {
		g.all = g.all || len(ids) == 0
		for _, id := range ids {
			g.ids[id] = true
		}
	})
}

// open ends all silence.
func (g *gate) open() {
	g.change(func() {
		g.all = false
		clear(g.ids)
	})
}

// freeze holds up everything, or ends that.
func (g *gate) freeze(on bool) { g.change(func() { g.frozen = on }) }

// change changes what is held up, and has all that waits look again.
func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.used.Store(g.frozen || g.all || len(g.ids) > 0)
	close(g.changed)
	g.changed = make(chan struct{})
}

// holds reports whether c is held up. Caller holds g.mu.
func (g *gate) holds(c *conn) bool { return g.frozen || g.all || g.ids[c.sid.Load()] }

// silent reports whether c is held up.
func (g *gate) silent(c *conn) bool {
	if !g.used.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds(c)
}

// wait blocks while c is silenced. It fails if the connection ends meanwhile.
func (g *gate) wait(c *conn) error {
	if !g.used.Load() {
		return nil
	}
	for {
		g.mu.Lock()
		held, changed := g.holds(c), g.changed
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
