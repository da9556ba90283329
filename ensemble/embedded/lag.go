package embedded

import (
	"maps"
	"slices"

	"github.com/batonzk/baton/internal/wire"
)

// A lag is what a session sees that lags behind: the tree as it once was. Its
// watches stay until it catches up, as a follower's do that has not heard of
// the changes yet.
type lag struct {
	tree *tree
	zxid int64
	held []heldEvent
	size int // bytes of them
}

// A heldEvent is one that a watch is to tell of later.
type heldEvent struct {
	frame []byte // nil: the watch is used up without a word
	table *watchTable
	path  string // of the watch
}

// heldSize is about what a heldEvent takes besides its frame.
const heldSize = 64

// hold keeps an event for c, which lags.
func (l *lag) hold(c *conn, e heldEvent) {
	if l.size += len(e.frame) + heldSize; l.size > c.srv.cfg.maxQueue.connection {
		c.close("too much is held back for a client that lags")
		return
	}
	l.held = append(l.held, e)
}

// Lag makes the given sessions, or all that live, see the tree as it is now
// while it changes, as clients of a follower do that has fallen behind: reads
// are answered from that view, with the number of its last transaction, and no
// watch fires. It ends with [Server.CatchUp], and for a session that changes
// something or asks for a sync: ZooKeeper promises that such a client sees at
// least that. The tree is copied, which takes a while if it is large.
func (s *Server) Lag(ids ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var view *tree
	for id, ses := range s.sessions {
		if ses.lag.Load() != nil || len(ids) > 0 && !slices.Contains(ids, id) {
			continue
		}
		if view == nil {
			view = s.tree.clone()
		}
		ses.lag.Store(&lag{tree: view, zxid: s.zxid})
	}
}

// CatchUp ends the lag of the given sessions, or of all. Watches fire that
// would have fired meanwhile, also those that were left on the lagging view;
// a persistent one of these tells of its own node only.
func (s *Server) CatchUp(ids ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.sessionIDs() {
		if len(ids) == 0 || slices.Contains(ids, id) {
			s.catchUp(s.sessions[id])
		}
	}
}

// catchUp ends a session's lag. Caller holds s.mu exclusively.
func (s *Server) catchUp(ses *session) {
	l := ses.lag.Swap(nil)
	if l == nil || ses.conn == nil {
		return
	}
	for _, e := range l.held {
		mode, there := e.table.byPath[e.path][ses.conn]
		if !there {
			continue // used up, or removed
		}
		if e.frame != nil {
			ses.conn.send(e.frame)
		}
		if mode == oneShot {
			e.table.remove(e.path, ses.conn)
		}
	}
}

// missed returns the event of what has happened to a node since the transaction
// that a lagging view ends with, 0 if nothing has that a watch tells of.
func missed(then, now *node, zxid int64, data bool) int32 {
	switch {
	case then == nil && now == nil:
		return 0
	case then == nil:
		return wire.EventNodeCreated
	case now == nil || now.czxid != then.czxid:
		return wire.EventNodeDeleted
	case data && now.mzxid > zxid:
		return wire.EventNodeDataChanged
	case !data && now.pzxid > zxid:
		return wire.EventNodeChildrenChanged
	}
	return 0
}

// treeOf returns the tree that c sees.
func (s *Server) treeOf(c *conn) *tree {
	if l := c.session.lag.Load(); l != nil {
		return l.tree
	}
	return s.tree
}

// zxidOf returns the last transaction that c sees.
func (s *Server) zxidOf(c *conn) int64 {
	if l := c.session.lag.Load(); l != nil {
		return l.zxid
	}
	return s.zxid
}

// watch leaves a watch of c. If c lags, the watch will tell of what it has missed
// already. Caller holds s.mu exclusively.
func (s *Server) watch(table *watchTable, path string, c *conn, mode watchMode) {
	added := table.add(path, c, mode)
	l := c.session.lag.Load()
	if !added || l == nil {
		return
	}
	if event := missed(l.tree.get(path), s.tree.get(path), l.zxid, table == &s.dataWatches); event != 0 {
		l.hold(c, heldEvent{eventFrame(event, path), table, path})
	}
}

// clone copies a tree. Data and ACLs are shared: they are never changed.
func (t *tree) clone() *tree {
	c := &tree{nodes: make(map[string]*node, len(t.nodes)), reap: map[string]*node{}, seq: t.seq, size: t.size, aclSize: t.aclSize, quotas: maps.Clone(t.quotas)}
	root := t.nodes["/"].clone(c, "")
	c.nodes["/"], c.nodes[""] = root, root
	return c
}

// clone copies the node at path, and all below it into t.
func (n *node) clone(t *tree, path string) *node {
	c := &node{record: n.record, seq: n.seq, data: n.data}
	t.nodes[path] = c
	if n.children == nil {
		return c
	}
	c.children = &children{nodes: make(map[string]*node, len(n.children.nodes)), set: n.children.set}
	for name, child := range n.children.nodes {
		c.children.nodes[name] = child.clone(t, path+"/"+name)
	}
	return c
}
