package embedded

import "github.com/batonzk/baton/internal/wire"

// The handlers in this file run with s.mu held exclusively and with s.zxid
// already the number of their transaction.

func (s *Server) view() *view {
	return &view{tree: s.tree, zxid: s.zxid, now: s.clock.millis()}
}

func (s *Server) caller(c *conn) *caller {
	return &caller{session: c.session.id, ids: c.ids, withoutContainers: s.cfg.withoutContainers}
}

// change carries out one change of one node.
func (s *Server) change(c *conn, op wire.OpCode, r wire.Record) (wire.Record, wire.Code) {
	v := s.view()
	t, code := v.check(s.caller(c), op, r)
	if code != wire.CodeOK {
		return nil, code
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
		var code wire.Code
		if txns[i], code = v.check(caller, op.Code, op.Request); code != wire.CodeOK {
			return refused(len(ops), i, code), wire.CodeOK
		}
	}
	response := new(wire.MultiResponse)
	for i := range txns {
		t := &txns[i]
		reply := s.apply(v, t)
		response.Results = append(response.Results, result(t.reply, reply, wire.CodeOK))
	}
	return response, wire.CodeOK
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
