package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A SessionInfo is what the server knows of a session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // as negotiated
	Connected  bool
	Ephemerals []string // paths, in the order of their creation
}

// Sessions returns the sessions that live, in the order of their creation.
func (s *Server) Sessions() []SessionInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	infos := make([]SessionInfo, 0, len(s.sessions))
	for _, id := range s.sessionIDs() {
		ses := s.sessions[id]
		infos = append(infos, SessionInfo{
			ID: id, Timeout: ses.timeout, Connected: ses.conn != nil, Ephemerals: ses.owned(),
		})
	}
	return infos
}

// sessionIDs returns the ids of all sessions, in order. Caller holds s.mu, in
// either mode.
func (s *Server) sessionIDs() []int64 { return slices.Sorted(maps.Keys(s.sessions)) }

// owned returns the paths of the session's ephemeral nodes in the order of
// their creation.
func (ses *session) owned() []string {
	return slices.SortedFunc(maps.Keys(ses.ephemerals), func(a, b string) int {
		return cmp.Compare(ses.ephemerals[a].seq, ses.ephemerals[b].seq)
	})
}

// A NodeInfo is one node, as the server sees it.
type NodeInfo struct {
	Path     string
	Data     []byte
	Mode     string // "persistent", "ephemeral", "container" or "ttl"
	Owner    int64  // the session of an ephemeral node, else 0
	TTL      time.Duration
	Children []string // names, in order

	Czxid, Mzxid, Pzxid int64
	Version             int32
	Aversion            int32
	Sequence            int32 // the number the next sequential child gets
	Created, Modified   time.Time
}

// Node returns the node at path and whether there is one, past all ACLs. The
// caller owns the result.
func (s *Server) Node(path string) (NodeInfo, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.tree.get(path)
	if n == nil {
		return NodeInfo{}, false
	}
	info := NodeInfo{
		Path: path, Data: slices.Clone(n.data), Mode: kindNames[n.kind], Children: slices.Sorted(slices.Values(n.names())),
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Version: n.version, Aversion: n.aversion, Sequence: n.cversion,
		Created: time.UnixMilli(n.ctime), Modified: time.UnixMilli(n.mtime),
	}
	switch n.kind {
	case ephemeral:
		info.Owner = n.owner
	case timed:
		info.TTL = time.Duration(n.owner) * time.Millisecond
	}
	return info, true
}

// A WatchInfo is one watch.
type WatchInfo struct {
	Session int64
	Path    string
	Kind    string // "data" (left by exists and getData) or "children"
	Mode    string // "one-shot", "persistent" or "recursive"
}

// Watches returns all watches, ordered by path, session and kind. One addWatch
// is two watches, one of each kind.
func (s *Server) Watches() []WatchInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	infos := slices.Concat(s.dataWatches.list("data"), s.childWatches.list("children"))
	slices.SortFunc(infos, func(a, b WatchInfo) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Session, b.Session), cmp.Compare(b.Kind, a.Kind))
	})
	return infos
}

func (w *watchTable) list(kind string) []WatchInfo {
	var infos []WatchInfo
	for path, conns := range w.byPath {
		for c, mode := range conns {
			infos = append(infos, WatchInfo{c.sid.Load(), path, kind, watchModeNames[mode]})
		}
	}
	return infos
}

// WatchCount returns the number of watches: of pairs of connection and path,
// for each kind.
func (s *Server) WatchCount() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.dataWatches.size() + s.childWatches.size()
}

// Dump returns the tree as text, one node a line, in the order of the paths:
// path, length of the data, mode, and the owner or the TTL. /zookeeper is left
// out.
func (s *Server) Dump() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var b strings.Builder
	s.tree.get("/").dump(&b, "")
	return b.String()
}

func (n *node) dump(b *strings.Builder, path string) {
	fmt.Fprintf(b, "%s %d %s", cmp.Or(path, "/"), len(n.data), kindNames[n.kind])
	switch n.kind {
	case ephemeral:
		fmt.Fprintf(b, " %s", hex(n.owner))
	case timed:
		fmt.Fprintf(b, " %v", time.Duration(n.owner)*time.Millisecond)
	}
	b.WriteByte('\n')
	for _, name := range slices.Sorted(slices.Values(n.names())) {
		child := path + "/" + name
		if child != "/zookeeper" {
			n.children.nodes[name].dump(b, child)
		}
	}
}
