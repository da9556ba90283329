package embedded

import (
	"slices"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// A watchMode says how long a watch lasts and what it sees.
type watchMode uint8

const (
	oneShot   watchMode = iota
	lasting             // addWatch, persistent
	recursive           // addWatch, persistent and recursive
)

var watchModeNames = [...]string{"one-shot", "persistent", "recursive"}

// A watchTable holds the watches of one kind: those on data (which exists and
// getData leave) or those on children. As in ZooKeeper 3.8 a connection has
// at most one watch of a kind on a path, and a later one replaces the mode of
// an earlier one.
//
// A table is guarded by the lock of its server.
type watchTable struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]*watched
	recursive int // watches of that mode
	total     int
	limits    watchLimits
}

// watched are the paths that a connection watches. To take a path out is dear
// when many watches fire at once, so that those that are over stay until there
// are too many of them; byPath has the truth.
type watched struct {
	paths map[string]struct{}
	live  int
}

// watchLimits are how many watches of one kind there may be.
type watchLimits struct{ connection, total int }

func newWatchTable(limits watchLimits) watchTable {
	return watchTable{
		limits: limits,
		byPath: make(map[string]map[*conn]watchMode),
		byConn: make(map[*conn]*watched),
	}
}

// add leaves a watch of c on path, unless c has ended. It reports whether there
// was none.
func (w *watchTable) add(path string, c *conn, mode watchMode) bool {
	if c.ended() {
		return false
	}
	_, there := w.byPath[path][c]
	if !there && (w.total >= w.limits.total || w.live(c) >= w.limits.connection) {
		c.close("too many watches")
		return false
	}
	if !there {
		w.total++
	}
	conns := w.byPath[path]
	if conns == nil {
		conns = make(map[*conn]watchMode, 1)
		w.byPath[path] = conns
	}
	if old, ok := conns[c]; ok && old == recursive {
		w.recursive--
	}
	if mode == recursive {
		w.recursive++
	}
	conns[c] = mode
	of := w.byConn[c]
	if of == nil {
		of = &watched{paths: make(map[string]struct{})}
		w.byConn[c] = of
	}
	of.paths[path] = struct{}{}
	if !there {
		of.live++
	}
	return !there
}

// live returns the number of watches of c.
func (w *watchTable) live(c *conn) int {
	if of := w.byConn[c]; of != nil {
		return of.live
	}
	return 0
}

// paths returns what c watches, in order.
func (w *watchTable) paths(c *conn) []string {
	of := w.byConn[c]
	if of == nil {
		return nil
	}
	return slices.DeleteFunc(sortedKeys(of.paths), func(path string) bool {
		_, ok := w.byPath[path][c]
		return !ok
	})
}

// remove takes away the watch of c on path and reports whether there was one.
func (w *watchTable) remove(path string, c *conn) bool {
	conns := w.byPath[path]
	mode, ok := conns[c]
	if !ok {
		return false
	}
	if mode == recursive {
		w.recursive--
	}
	w.removeFrom(conns, path, c)
	if len(conns) == 0 {
		delete(w.byPath, path)
	}
	return true
}

// removeFrom takes the watch of c out of those on path.
func (w *watchTable) removeFrom(conns map[*conn]watchMode, path string, c *conn) {
	w.total--
	delete(conns, c)
	of := w.byConn[c]
	of.live--
	switch {
	case of.live == 0:
		delete(w.byConn, c)
	case len(of.paths) > 8*of.live+1024:
		live := make(map[string]struct{}, of.live)
		for path := range of.paths {
			if _, ok := w.byPath[path][c]; ok {
				live[path] = struct{}{}
			}
		}
		of.paths = live
	}
}

// dropSlice is how many watches are taken away at once: others wait meanwhile.
const dropSlice = 500

// drop takes watches of c away, dropSlice of them at most, and reports whether
// none is left.
func (w *watchTable) drop(c *conn) (done bool) {
	of := w.byConn[c]
	if of == nil {
		return true
	}
	n := 0
	for path := range of.paths {
		if n++; n > dropSlice {
			return false
		}
		delete(of.paths, path)
		conns := w.byPath[path]
		mode, there := conns[c]
		if !there {
			continue // it was over
		}
		if mode == recursive {
			w.recursive--
		}
		w.total--
		of.live--
		if delete(conns, c); len(conns) == 0 {
			delete(w.byPath, path)
		}
	}
	delete(w.byConn, c)
	return true
}

// contains answers checkWatches. At the path itself anyone's watch counts:
// that is a slip of ZooKeeper 3.8, which a client can see.
func (w *watchTable) contains(path string) bool {
	return len(w.byPath[path]) > 0
}

// size returns the number of watches.
func (w *watchTable) size() int { return w.total }

// trigger sends the event to every connection that watches path, and to those
// that watch a node above it recursively, but not to those in except; it
// takes away the one-shot watches among them. Who may not read the node, whose
// ACL is acl, is not told, though a one-shot watch is used up: so it is since
// 3.8.4 (CVE-2024-23944). It returns whom it would have told without except
// and acl.
func (w *watchTable) trigger(path string, event int32, acl []wire.ACL, except told) told {
	var to told
	conns := w.byPath[path]
	if len(conns) > 0 {
		to = make(told, 0, len(conns))
	}
	for c, mode := range conns {
		if mode == recursive && event == wire.EventNodeChildrenChanged {
			continue
		}
		to = append(to, c)
		if mode == oneShot && c.session.lag.Load() == nil {
			w.removeFrom(conns, path, c)
		}
	}
	if conns != nil && len(conns) == 0 {
		delete(w.byPath, path)
	}
	if w.recursive > 0 && event != wire.EventNodeChildrenChanged {
		to = w.above(path, to)
	}
	if len(to) == 0 {
		return nil
	}
	frame, skip, anyone := eventFrame(event, path), except.set(), allowed(acl, wire.PermRead, nil)
	for _, c := range to {
		tell := !skip[c] && (anyone || allowed(acl, wire.PermRead, c.ids))
		switch l := c.session.lag.Load(); {
		case c.ended(): // and its watches are about to go
		case l != nil:
			w.hold(l, c, path, event, frame, tell)
		case tell:
			c.send(frame)
		}
	}
	return to
}

// hold keeps the event for c, which lags, or the mere end of its watch.
func (w *watchTable) hold(l *lag, c *conn, path string, event int32, frame []byte, tell bool) {
	if !tell {
		frame = nil
	}
	at := path
	if mode, there := w.byPath[path][c]; !there || mode == recursive && event == wire.EventNodeChildrenChanged {
		for ancestor := range ancestors(path) {
			if mode, there := w.byPath[ancestor][c]; there && mode == recursive {
				at = ancestor
				break
			}
		}
	}
	l.hold(c, heldEvent{frame, w, at})
}

// told are connections, each once.
type told []*conn

func (t told) set() map[*conn]bool {
	if len(t) == 0 {
		return nil
	}
	set := make(map[*conn]bool, len(t))
	for _, c := range t {
		set[c] = true
	}
	return set
}

// above adds those that watch a node above path recursively.
func (w *watchTable) above(path string, to told) told {
	var there map[*conn]bool
	for ancestor := range ancestors(path) {
		for c, mode := range w.byPath[ancestor] {
			if mode != recursive {
				continue
			}
			if there == nil {
				there = make(map[*conn]bool, len(to))
				for _, c := range to {
					there[c] = true
				}
			}
			if !there[c] {
				there[c] = true
				to = append(to, c)
			}
		}
	}
	return to
}

// ancestors yields the paths above path, nearest first, the root last.
func ancestors(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for path != "/" && path != "" {
			path = path[:max(strings.LastIndexByte(path, '/'), 0)]
			if path == "" {
				path = "/"
			}
			if !yield(path) {
				return
			}
		}
	}
}

// eventFrame returns the notification of an event.
func eventFrame(event int32, path string) []byte {
	return wire.AppendFrame(make([]byte, 0, 32+len(path)),
		&wire.ReplyHeader{Xid: wire.XidNotify, Zxid: -1},
		&wire.WatcherEvent{Type: event, State: wire.StateSyncConnected, Path: path})
}
