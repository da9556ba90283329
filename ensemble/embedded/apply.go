package embedded

import "github.com/batonzk/baton/internal/wire"

// apply makes the change t, sends the watch events that it causes and returns
// the reply to the client. Caller holds s.mu exclusively.
func (s *Server) apply(v *view, t *txn) wire.Record {
	switch t.op {
	case wire.OpCreate:
		return s.applyCreate(v, t)
	case wire.OpDelete:
		s.applyDelete(t.path, v.zxid)
		return &wire.Empty{}
	case wire.OpSetData:
		n := s.tree.get(t.path)
		s.tree.changed(t.path, len(t.data)-len(n.data))
		n.data, n.version, n.mzxid, n.mtime = t.data, t.version, v.zxid, v.now
		s.dataWatches.trigger(t.path, wire.EventNodeDataChanged, n.acl, nil)
		return &wire.StatResponse{Stat: n.stat()}
	case wire.OpSetACL:
		n := s.tree.get(t.path)
		s.tree.aclSize += aclSize(t.acl) - aclSize(n.acl)
		n.acl, n.aversion = t.acl, t.version
		return &wire.StatResponse{Stat: n.stat()}
	}
	return &wire.Empty{}
}

func (s *Server) applyCreate(v *view, t *txn) wire.Record {
	parentPath, _, _ := split(t.path)
	parent := s.tree.get(parentPath)
	n := &node{record: *v.created(t), data: t.data}
	if t.version > parent.cversion || s.cfg.wrapping {
		parent.cversion, parent.pzxid = t.version, v.zxid
	}
	s.tree.add(t.path, n)
	if t.kind == ephemeral {
		if owner := s.sessions[t.owner]; owner != nil {
			owner.ephemerals[t.path] = n
			owner.owner = true
			owner.set.added(len(owner.ephemerals))
		}
	}
	stat := n.stat()
	s.dataWatches.trigger(t.path, wire.EventNodeCreated, n.acl, nil)
	s.childWatches.trigger(watchedParent(parentPath), wire.EventNodeChildrenChanged, parent.acl, nil)
	if t.reply == wire.OpCreate {
		return &wire.CreateResponse{Path: t.path}
	}
	return &wire.Create2Response{Path: t.path, Stat: stat}
}

// applyDelete deletes the node at path.
func (s *Server) applyDelete(path string, zxid int64) {
	parentPath, _, _ := split(path)
	parent := s.tree.get(parentPath)
	parent.pzxid = zxid
	n := s.tree.remove(path)
	if n.kind == ephemeral {
		if owner := s.sessions[n.owner]; owner != nil {
			delete(owner.ephemerals, path)
		}
	}
	told := s.dataWatches.trigger(path, wire.EventNodeDeleted, n.acl, nil)
	s.childWatches.trigger(path, wire.EventNodeDeleted, n.acl, told)
	s.childWatches.trigger(watchedParent(parentPath), wire.EventNodeChildrenChanged, parent.acl, nil)
}

// watchedParent returns the path under which children of parent are watched.
func watchedParent(parent string) string {
	if parent == "" {
		return "/"
	}
	return parent
}
