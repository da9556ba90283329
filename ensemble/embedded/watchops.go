package embedded

import "github.com/batonzk/baton/internal/wire"

// The handlers in this file run with s.mu held, exclusively if they change
// watches.

// setWatches leaves a client's watches again after it has reconnected, and
// sends the events that it has missed since the transaction it saw last.
func (s *Server) setWatches(c *conn, r *wire.SetWatchesRequest) (wire.Record, wire.Code) {
	tree := s.treeOf(c)
	missed := func(event int32, path string) { c.send(eventFrame(event, path)) }
	for _, path := range r.Data {
		switch n := tree.get(path); {
		case n == nil:
			missed(wire.EventNodeDeleted, path)
		case n.mzxid > r.RelativeZxid:
			missed(wire.EventNodeDataChanged, path)
		default:
			s.watch(&s.dataWatches, path, c, oneShot)
		}
	}
	for _, path := range r.Exist {
		if tree.get(path) != nil {
			missed(wire.EventNodeCreated, path)
			continue
		}
		s.watch(&s.dataWatches, path, c, oneShot)
	}
	for _, path := range r.Child {
		switch n := tree.get(path); {
		case n == nil:
			missed(wire.EventNodeDeleted, path)
		case n.pzxid > r.RelativeZxid:
			missed(wire.EventNodeChildrenChanged, path)
		default:
			s.watch(&s.childWatches, path, c, oneShot)
		}
	}
	return nil, wire.CodeOK
}

// setWatches2 also leaves the watches of addWatch again. What they missed is
// not sent.
func (s *Server) setWatches2(c *conn, r *wire.SetWatches2Request) (wire.Record, wire.Code) {
	_, _ = s.setWatches(c, &r.SetWatchesRequest)
	for _, path := range r.Persistent {
		s.watchBoth(c, path, lasting)
	}
	for _, path := range r.PersistentRecursive {
		s.watchBoth(c, path, recursive)
	}
	return nil, wire.CodeOK
}

func (s *Server) watchBoth(c *conn, path string, mode watchMode) {
	s.watch(&s.dataWatches, path, c, mode)
	s.watch(&s.childWatches, path, c, mode)
}

func (s *Server) addWatch(c *conn, r *wire.WatchTypeRequest) (wire.Record, wire.Code) {
	switch r.Type {
	case wire.AddWatchPersistent:
		s.watchBoth(c, r.Path, lasting)
	case wire.AddWatchPersistentRecursive:
		s.watchBoth(c, r.Path, recursive)
	default:
		return nil, wire.CodeMarshallingError
	}
	return &wire.ErrorResponse{}, wire.CodeOK
}

// removeWatches takes the client's own watches on a path away. No event tells
// it: the client's library makes that up.
func (s *Server) removeWatches(c *conn, r *wire.WatchTypeRequest) (wire.Record, wire.Code) {
	var removed bool
	switch r.Type {
	case wire.WatcherChildren:
		removed = s.childWatches.remove(r.Path, c)
	case wire.WatcherData:
		removed = s.dataWatches.remove(r.Path, c)
	case wire.WatcherAny:
		child, data := s.childWatches.remove(r.Path, c), s.dataWatches.remove(r.Path, c)
		removed = child || data
	default:
		return nil, wire.CodeMarshallingError
	}
	if !removed {
		return nil, wire.CodeNoWatcher
	}
	return nil, wire.CodeOK
}

func (s *Server) checkWatches(_ *conn, r *wire.WatchTypeRequest) (wire.Record, wire.Code) {
	var found bool
	switch r.Type {
	case wire.WatcherChildren:
		found = s.childWatches.contains(r.Path)
	case wire.WatcherData:
		found = s.dataWatches.contains(r.Path)
	case wire.WatcherAny:
		found = s.childWatches.contains(r.Path) || s.dataWatches.contains(r.Path)
	default:
		return nil, wire.CodeMarshallingError
	}
	if !found {
		return nil, wire.CodeNoWatcher
	}
	return nil, wire.CodeOK
}
