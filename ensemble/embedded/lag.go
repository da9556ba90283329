package embedded

import (
	"maps"
	"slices"

	"github.com/batonzk/baton/internal/wire"
)

// A lag is what a session sees that lags behind: the tree as it once was.
type lag struct {
	tree *tree
	zxid int64
	late []lateWatch // left meanwhile
	held [][]byte    // events that are held back
	size int         // bytes of them
}

// hold keeps an event and returns how many bytes of them there are.
func (l *lag) hold(frame []byte) int {
	l.held = append(l.held, frame)
	l.size += len(frame)
	return l.size
}

// A lateWatch is a watch that was left on what is perhaps no longer so.
type lateWatch struct {
	path string
	data bool // else on children
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
	s.deliver()
}

// catchUp ends a session's lag. Caller holds s.mu exclusively, and delivers.
func (s *Server) catchUp(ses *session) {
	l := ses.lag.Swap(nil)
	if l == nil || ses.conn == nil {
		return
	}
	for _, w := range l.late {
		s.late(ses.conn, l, w)
	}
	for _, frame := range l.held {
		ses.conn.tell(frame)
	}
}

// late fires a watch for what had changed already when it was left.
func (s *Server) late(c *conn, l *lag, w lateWatch) {
	table := &s.childWatches
	if w.data {
		table = &s.dataWatches
	}
	mode, there := table.byPath[w.path][c]
	if !there {
		return // it has fired
	}
	then, now := l.tree.get(w.path), s.tree.get(w.path)
	var event int32
	switch {
	case then == nil && now == nil:
		return
	case then == nil:
		event = wire.EventNodeCreated
	case now == nil || now.czxid != then.czxid:
		event = wire.EventNodeDeleted
	case w.data && now.mzxid > l.zxid:
		event = wire.EventNodeDataChanged
	case !w.data && now.pzxid > l.zxid:
		event = wire.EventNodeChildrenChanged
	default:
		return
	}
	c.tell(eventFrame(event, w.path))
	if mode == oneShot {
		table.remove(w.path, c)
	}
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

// watch leaves a watch of c. Caller holds s.mu exclusively.
func (s *Server) watch(table *watchTable, path string, c *conn, mode watchMode) {
	added := table.add(path, c, mode)
	if l := c.session.lag.Load(); l != nil && added {
		l.late = append(l.late, lateWatch{path, table == &s.dataWatches})
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
