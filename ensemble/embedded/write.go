package embedded

import "github.com/batonzk/baton/internal/wire"

// The handlers in this file run with s.mu held exclusively and with s.zxid
// already the number of their transaction.

func (s *Server) view() *view {
	return &view{tree: s.tree, zxid: s.zxid, now: s.clock.millis()}
}

func (s *Server) caller(c *conn) *caller {
	return &caller{
		session: c.session.id, ids: c.ids, limits: s.cfg.maxTree,
		withoutContainers: s.cfg.withoutContainers, enforceQuota: s.cfg.enforceQuota,
	}
}

// change carries out one change of one node.
func (s *Server) change(c *conn, op wire.OpCode, r wire.Record) (wire.Record, wire.Code) {
	v := s.view()
	t, code := v.check(s.caller(c), op, r)
	if code != wire.CodeOK {
		return nil, code
	}
	if op == wire.OpCheck {
		// ZooKeeper means to send this but fails, and never answers.
		return &wire.StatResponse{Stat: s.tree.get(t.path).stat()}, wire.CodeOK
	}
	return s.apply(v, &t), wire.CodeOK
}

// multi carries out several changes as one transaction, or none. If one is
// refused, its result is the error, those before it have 0 as their error and
// those after it have -2.
func (s *Server) multi(c *conn, r wire.Record) (wire.Record, wire.Code) {
	ops := r.(*wire.MultiRequest).Ops
	v, caller := s.view(), s.caller(c)
	v.changed = make(map[string]*record)
	txns := make([]txn, len(ops))
	for i, op := range ops {
		if op.Code == wire.OpGetData || op.Code == wire.OpGetChildren {
			return nil, wire.CodeMarshallingError
		}
		var code wire.Code
		if txns[i], code = v.check(caller, op.Code, op.Request); code != wire.CodeOK {
			return refused(len(ops), i, code), wire.CodeOK
		}
	}
	response := new(wire.MultiResponse)
	for i := range txns {
		t := &txns[i]
		t.reply = multiReply(t.reply)
		reply := s.apply(v, t)
		response.Results = append(response.Results, result(t.reply, reply, wire.CodeOK))
	}
	return response, wire.CodeOK
}

// multiReply says as what kind of operation a part of a multi is answered:
// ZooKeeper takes create2 there for create, and answers for the others that
// create as for create2.
func multiReply(op wire.OpCode) wire.OpCode {
	switch op {
	case wire.OpCreate2:
		return wire.OpCreate
	case wire.OpCreateContainer, wire.OpCreateTTL:
		return wire.OpCreate2
	}
	return op
}

// reconfig is never enabled on a server that stands alone.
func (s *Server) reconfig(*conn, *wire.ReconfigRequest) (wire.Record, wire.Code) {
	return nil, wire.CodeReconfigDisabled
}

// deleteContainer is the server's own operation. What a client sends is taken
// for a path that cannot be.
func (s *Server) deleteContainer(*conn, wire.Record) (wire.Record, wire.Code) {
	return nil, wire.CodeBadArguments
}

// createSession is the server's own too, and not readable when a client sends
// it.
func (s *Server) createSession(*conn, wire.Record) (wire.Record, wire.Code) {
	return nil, wire.CodeMarshallingError
}

// refused returns the results of a multi of n parts of which part i failed.
func refused(n, i int, code wire.Code) *wire.MultiResponse {
	response := &wire.MultiResponse{Results: make([]wire.OpResult, n)}
	for j := range response.Results {
		err := wire.CodeRuntimeInconsistency
		switch {
		case j < i:
			err = wire.CodeOK
		case j == i:
			err = code
		}
		response.Results[j] = wire.OpResult{Code: wire.OpError, Err: err, Reply: &wire.ErrorResponse{Err: err}}
	}
	return response
}

// closeSession ends the client's session. The reply still goes to it, then
// the connection is closed.
func (s *Server) closeSession(c *conn, _ wire.Record) (wire.Record, wire.Code) {
	s.endSession(c.session)
	s.detach(c)
	return nil, wire.CodeOK
}
