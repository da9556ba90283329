package embedded

import (
	"slices"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// The handlers in this file run with s.mu held, exclusively if they leave a
// watch.

// exists looks for a node. It needs no permission, and leaves a watch also if
// there is no node.
func (s *Server) exists(c *conn, r *wire.PathWatchRequest) (wire.Record, wire.Code) {
	if strings.IndexByte(r.Path, 0) >= 0 {
		return nil, wire.CodeBadArguments
	}
	if r.Watch {
		s.watch(&s.dataWatches, r.Path, c, oneShot)
	}
	n := s.treeOf(c).get(r.Path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	return &wire.StatResponse{Stat: n.stat()}, wire.CodeOK
}

// readable returns the node at path if the client has one of perms.
func (s *Server) readable(c *conn, path string, perms int32) (*node, wire.Code) {
	n := s.treeOf(c).get(path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	if !allowed(n.acl, perms, c.ids) {
		return nil, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}

func (s *Server) getData(c *conn, r *wire.PathWatchRequest) (wire.Record, wire.Code) {
	n, code := s.readable(c, r.Path, wire.PermRead)
	if code != wire.CodeOK {
		return nil, code
	}
	if r.Watch {
		s.watch(&s.dataWatches, r.Path, c, oneShot)
	}
	return &wire.GetDataResponse{Data: n.data, Stat: n.stat()}, wire.CodeOK
}

func (s *Server) getChildren(c *conn, r *wire.PathWatchRequest) (wire.Record, wire.Code) {
	n, code := s.watchedChildren(c, r)
	if code != wire.CodeOK {
		return nil, code
	}
	return &wire.StringsResponse{Names: n.names()}, wire.CodeOK
}

func (s *Server) getChildren2(c *conn, r *wire.PathWatchRequest) (wire.Record, wire.Code) {
	n, code := s.watchedChildren(c, r)
	if code != wire.CodeOK {
		return nil, code
	}
	return &wire.GetChildren2Response{Children: n.names(), Stat: n.stat()}, wire.CodeOK
}

func (s *Server) watchedChildren(c *conn, r *wire.PathWatchRequest) (*node, wire.Code) {
	n, code := s.readable(c, r.Path, wire.PermRead)
	if code == wire.CodeOK && r.Watch {
		s.watch(&s.childWatches, r.Path, c, oneShot)
	}
	return n, code
}

func (s *Server) getAllChildrenNumber(c *conn, r *wire.PathRequest) (wire.Record, wire.Code) {
	n, code := s.readable(c, r.Path, wire.PermRead)
	if code != wire.CodeOK {
		return nil, code
	}
	return &wire.CountResponse{Count: int32(n.count())}, wire.CodeOK
}

// getACL shows the ACL to who may read or administer the node, digests only
// to the latter.
func (s *Server) getACL(c *conn, r *wire.PathRequest) (wire.Record, wire.Code) {
	n, code := s.readable(c, r.Path, wire.PermRead|wire.PermAdmin)
	if code != wire.CodeOK {
		return nil, code
	}
	acl := n.acl
	if !allowed(acl, wire.PermAdmin, c.ids) {
		acl = hideDigests(acl)
	}
	return &wire.GetACLResponse{ACL: acl, Stat: n.stat()}, wire.CodeOK
}

// getEphemerals lists the ephemeral nodes of the session whose path begins
// with the given one.
func (s *Server) getEphemerals(c *conn, r *wire.PathRequest) (wire.Record, wire.Code) {
	prefix := r.Path
	if trimmed := strings.TrimSpace(prefix); trimmed == "" || trimmed == "/" {
		prefix = ""
	}
	names := slices.DeleteFunc(c.session.listed(), func(path string) bool {
		return !strings.HasPrefix(path, prefix)
	})
	return &wire.StringsResponse{Names: names}, wire.CodeOK
}

// listed returns the paths of the session's ephemeral nodes, in the order in
// which a real server lists and deletes them.
func (ses *session) listed() []string {
	elements := make([]element, 0, len(ses.ephemerals))
	for path, n := range ses.ephemerals {
		elements = append(elements, element{path, hashOf(path), n.seq})
	}
	ses.set.copied(elements)
	return values(elements)
}

// kept returns the same in the order of the set itself.
func (ses *session) kept() []string {
	elements := make([]element, 0, len(ses.ephemerals))
	for path, n := range ses.ephemerals {
		elements = append(elements, element{path, hashOf(path), n.seq})
	}
	ses.set.list(elements)
	return values(elements)
}

// sync has nothing to wait for: there is one server.
func (s *Server) sync(_ *conn, r *wire.PathRequest) (wire.Record, wire.Code) {
	return r, wire.CodeOK
}

func (s *Server) ping(*conn, *wire.Empty) (wire.Record, wire.Code) { return nil, wire.CodeOK }

// multiRead carries out several reads; each has a result of its own. A small
// request can ask for a lot: what no queue would take is refused.
func (s *Server) multiRead(c *conn, r wire.Record) (wire.Record, wire.Code) {
	response := new(wire.MultiResponse)
	size := 0
	for _, op := range r.(*wire.MultiRequest).Ops {
		var reply wire.Record
		var code wire.Code
		switch op.Code {
		case wire.OpGetData:
			reply, code = s.getData(c, op.Request.(*wire.PathWatchRequest))
		case wire.OpGetChildren:
			reply, code = s.getChildren(c, op.Request.(*wire.PathWatchRequest))
		default: // ZooKeeper sends what it has so far behind the error
			return response, wire.CodeMarshallingError
		}
		response.Results = append(response.Results, result(op.Code, reply, code))
		if size += weight(reply); size > s.cfg.maxQueue.connection {
			return nil, wire.CodeSystemError
		}
	}
	return response, wire.CodeOK
}

// weight returns about how many bytes a read's reply takes.
func weight(reply wire.Record) int {
	switch r := reply.(type) {
	case *wire.GetDataResponse:
		return len(r.Data)
	case *wire.StringsResponse:
		n := 0
		for _, name := range r.Names {
			n += len(name)
		}
		return n
	}
	return 0
}

// result makes the result of one part of a multi.
func result(op wire.OpCode, reply wire.Record, code wire.Code) wire.OpResult {
	if code != wire.CodeOK {
		return wire.OpResult{Code: wire.OpError, Err: code, Reply: &wire.ErrorResponse{Err: code}}
	}
	return wire.OpResult{Code: op, Reply: reply}
}
