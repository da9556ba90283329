package embedded

import (
	"fmt"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// A handler carries out one operation.
type handler struct {
	record func() wire.Record // a new record for the request
	change bool               // takes a transaction number, also if it fails
	nulls  bool               // strings may be null
	run    func(s *Server, c *conn, r wire.Record) (wire.Record, wire.Code)
}

// on makes a handler from a function of one type of record.
func on[T any, P interface {
	*T
	wire.Record
}](run func(s *Server, c *conn, r P) (wire.Record, wire.Code),
) handler {
	return handler{
		record: func() wire.Record { return P(new(T)) },
		run: func(s *Server, c *conn, r wire.Record) (wire.Record, wire.Code) {
			return run(s, c, r.(P))
		},
	}
}

// orNull lets the strings of a request be null.
func (h handler) orNull() handler {
	h.nulls = true
	return h
}

// changing makes the handler of an operation that changes one node.
func changing[T any, P interface {
	*T
	wire.Record
}](op wire.OpCode) handler {
	h := on(func(s *Server, c *conn, r P) (wire.Record, wire.Code) { return s.change(c, op, r) })
	h.change = true
	return h
}

var handlers = pointers(map[wire.OpCode]handler{
	wire.OpCreate:          changing[wire.CreateRequest](wire.OpCreate),
	wire.OpCreate2:         changing[wire.CreateRequest](wire.OpCreate2),
	wire.OpCreateContainer: changing[wire.CreateRequest](wire.OpCreateContainer),
	wire.OpCreateTTL:       changing[wire.CreateTTLRequest](wire.OpCreateTTL),
	wire.OpDelete:          changing[wire.PathVersionRequest](wire.OpDelete),
	wire.OpCheck:           changing[wire.PathVersionRequest](wire.OpCheck).orNull(),
	wire.OpSetData:         changing[wire.SetDataRequest](wire.OpSetData),
	wire.OpSetACL:          changing[wire.SetACLRequest](wire.OpSetACL),
	wire.OpMulti:           {record: newMulti, change: true, run: (*Server).multi},
	wire.OpReconfig:        {record: newReconfig, change: true, nulls: true, run: on((*Server).reconfig).run},
	wire.OpDeleteContainer: {record: newEmpty, change: true, run: (*Server).deleteContainer},
	wire.OpCreateSession:   {record: newEmpty, change: true, run: (*Server).createSession},
	wire.OpCloseSession:    {record: newEmpty, run: (*Server).closeSession},

	wire.OpExists:               on((*Server).exists),
	wire.OpGetData:              on((*Server).getData),
	wire.OpGetACL:               on((*Server).getACL),
	wire.OpGetChildren:          on((*Server).getChildren),
	wire.OpGetChildren2:         on((*Server).getChildren2),
	wire.OpGetAllChildrenNumber: on((*Server).getAllChildrenNumber),
	wire.OpGetEphemerals:        on((*Server).getEphemerals).orNull(),
	wire.OpMultiRead:            {record: newMulti, run: (*Server).multiRead},
	wire.OpSync:                 on((*Server).sync).orNull(),
	wire.OpPing:                 on((*Server).ping),
	wire.OpAuth:                 on((*Server).auth).orNull(),
	wire.OpWhoAmI:               on((*Server).whoAmI),

	wire.OpSetWatches:    on((*Server).setWatches),
	wire.OpSetWatches2:   on((*Server).setWatches2),
	wire.OpAddWatch:      on((*Server).addWatch).orNull(),
	wire.OpRemoveWatches: on((*Server).removeWatches),
	wire.OpCheckWatches:  on((*Server).checkWatches),
})

func pointers(byCode map[wire.OpCode]handler) map[wire.OpCode]*handler {
	m := make(map[wire.OpCode]*handler, len(byCode))
	for code, h := range byCode {
		m[code] = &h
	}
	return m
}

func newMulti() wire.Record    { return new(wire.MultiRequest) }
func newEmpty() wire.Record    { return new(wire.Empty) }
func newReconfig() wire.Record { return new(wire.ReconfigRequest) }

// handle carries out the request in frame. It reports whether the connection
// goes on; if not, a nil error says that what is queued is still to be sent.
func (c *conn) handle(frame []byte, start time.Duration) (more bool, err error) {
	d, h := &c.decoder, &c.header
	d.Reset(frame)
	if err := d.Decode(h); err != nil {
		return false, err
	}
	op, known := handlers[h.Op]
	if !known {
		return c.unimplemented(h)
	}
	record := op.record()
	malformed := d.Decode(record) != nil || d.Nulls() && !op.nulls
	before, after := c.srv.hooks.request.get(), c.srv.hooks.reply.get()
	var shown Request
	if len(before)+len(after) > 0 {
		c.flush() // a hook may hold the request
		shown = c.describe(h, record)
	}
	switch v := ask(before, shown); {
	case v == Cut:
		return false, errCut
	case v == Drop:
		return true, nil
	case v < 0:
		return c.answer(h, wire.Code(v))
	}
	x := execution{conn: c, header: h, handler: op, record: record, malformed: malformed, hold: len(after) > 0}
	if !x.run() {
		return false, errSession
	}
	if x.hold {
		v := ask(after, shown)
		if v == Cut {
			return false, errCut
		}
		c.out.fill(x.slot, x.judged(v))
	}
	c.answered(h, x.zxid, start)
	return h.Op != wire.OpCloseSession && x.code != wire.CodeAuthFailed, nil
}

// unimplemented answers an operation that there is not. As a real server does,
// it then closes the connection.
func (c *conn) unimplemented(h *wire.RequestHeader) (bool, error) {
	c.srv.mu.RLock()
	defer c.srv.mu.RUnlock()
	c.send(wire.AppendFrame(nil, &wire.ReplyHeader{Xid: h.Xid, Zxid: -1, Err: wire.CodeUnimplemented}))
	c.srv.cfg.logger.Warn("connection is closed", "session", hex(c.sid.Load()), "reason", fmt.Sprintf("no such operation: %d", h.Op))
	return false, nil
}

// answer sends an error in the place of a reply. The session lives on: a client
// may count on that when it is answered.
func (c *conn) answer(h *wire.RequestHeader, code wire.Code) (bool, error) {
	s := c.srv
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c.ended() {
		return false, errSession
	}
	s.touch(c.session)
	c.send(wire.AppendFrame(nil, &wire.ReplyHeader{Xid: h.Xid, Zxid: s.zxidOf(c), Err: code}))
	return true, nil
}

// An execution is one request while it is carried out.
type execution struct {
	conn      *conn
	header    *wire.RequestHeader
	handler   *handler
	record    wire.Record
	malformed bool
	hold      bool // hooks shall see the reply before it goes

	zxid  int64
	code  wire.Code
	frame []byte
	slot  *slot
}

// run carries the request out and queues the reply, or reserves its place. It
// reports false if the connection has lost its session, and nothing was done.
func (x *execution) run() bool {
	s, c := x.conn.srv, x.conn
	exclusive := x.exclusive()
	if exclusive {
		s.mu.Lock()
		defer s.mu.Unlock()
	} else {
		s.mu.RLock()
		defer s.mu.RUnlock()
	}
	if c.ended() {
		return false
	}
	s.touch(c.session)
	if exclusive && (x.handler.change || x.header.Op == wire.OpSync || x.header.Op == wire.OpCloseSession) {
		s.catchUp(c.session)
	}
	if x.handler.change {
		s.zxid++
	}
	var reply wire.Record
	x.code = wire.CodeMarshallingError
	if !x.malformed {
		reply, x.code = x.handler.run(s, c, x.record)
	}
	x.reply(reply)
	if x.hold {
		x.slot = c.out.reserve()
		c.sent()
		return true
	}
	c.reply(x.frame)
	return true
}

// exclusive reports whether the request changes what the server knows.
func (x *execution) exclusive() bool {
	if x.handler.change || x.conn.session.lag.Load() != nil {
		return true
	}
	switch x.header.Op {
	case wire.OpAuth, wire.OpCloseSession, wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch, wire.OpRemoveWatches, wire.OpMultiRead:
		return true
	}
	read, ok := x.record.(*wire.PathWatchRequest)
	return ok && read.Watch
}

// reply makes the frame of the reply. Caller holds the server's lock.
func (x *execution) reply(record wire.Record) {
	h := wire.ReplyHeader{Xid: x.header.Xid, Zxid: x.conn.srv.zxidOf(x.conn), Err: x.code}
	switch x.header.Op {
	case wire.OpPing:
		h.Xid = wire.XidPing
	case wire.OpAuth:
		h.Zxid = 0
	}
	x.zxid = h.Zxid
	if record == nil {
		record = &wire.Empty{}
	}
	if x.hold { // it has to last
		x.frame = wire.AppendFrame(nil, &h, record)
		return
	}
	c := x.conn
	c.replyHeader = h
	c.scratch = c.encoder.AppendFrame(c.scratch[:0], &c.replyHeader, record)
	x.frame = c.scratch
	if cap(c.scratch) > keptFrame {
		c.scratch = nil
	}
}

// judged returns what is sent after hooks have seen the reply: the reply, an
// error instead, or nothing.
func (x *execution) judged(v Verdict) []byte {
	switch {
	case v == Drop:
		return nil
	case v < 0:
		return wire.AppendFrame(nil, &wire.ReplyHeader{Xid: x.header.Xid, Zxid: x.zxid, Err: wire.Code(v)})
	}
	return x.frame
}
