package embedded

import (
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
	byConn    map[*conn]map[string]struct{}
	recursive int // watches of that mode
	total     int
	limits    watchLimits
}

// watchLimits are how many watches of one kind there may be.
type watchLimits struct{ connection, total int }

func newWatchTable(limits watchLimits) watchTable {
	return watchTable{
		limits: limits,
		byPath: make(map[string]map[*conn]watchMode),
		byConn: make(map[*conn]map[string]struct{}),
	}
}

// add leaves a watch of c on path, unless c has ended.
func (w *watchTable) add(path string, c *conn, mode watchMode) {
	if c.ended() {
		return
	}
	_, there := w.byPath[path][c]
	if !there && (w.total >= w.limits.total || len(w.byConn[c]) >= w.limits.connection) {
		c.close("too many watches")
		return
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
	paths := w.byConn[c]
	if paths == nil {
		paths = make(map[string]struct{})
		w.byConn[c] = paths
	}
	paths[path] = struct{}{}
}

// remove takes away the watch of c on path and reports whether there was one.
func (w *watchTable) remove(path string, c *conn) bool {
	mode, ok := w.byPath[path][c]
	if !ok {
		return false
	}
	if mode == recursive {
		w.recursive--
	}
	w.total--
	delete(w.byPath[path], c)
	if len(w.byPath[path]) == 0 {
		delete(w.byPath, path)
	}
	delete(w.byConn[c], path)
	if len(w.byConn[c]) == 0 {
		delete(w.byConn, c)
	}
	return true
}

// drop takes away all watches of c.
func (w *watchTable) drop(c *conn) {
	for path := range w.byConn[c] {
		w.remove(path, c)
	}
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
func (w *watchTable) trigger(path string, event int32, acl []wire.ACL, except map[*conn]bool) map[*conn]bool {
	var told map[*conn]bool
	tell := func(c *conn) {
		if told == nil {
			told = make(map[*conn]bool)
		}
		told[c] = true
	}
	for c, mode := range w.byPath[path] {
		if mode == recursive && event == wire.EventNodeChildrenChanged {
			continue
		}
		tell(c)
		if mode == oneShot {
			w.remove(path, c)
		}
	}
	if w.recursive > 0 && event != wire.EventNodeChildrenChanged {
		for above := range ancestors(path) {
			for c, mode := range w.byPath[above] {
				if mode == recursive {
					tell(c)
				}
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	frame := eventFrame(event, path)
	for c := range told {
		if !except[c] && allowed(acl, wire.PermRead, c.ids) {
			c.send(frame)
		}
	}
	return told
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
