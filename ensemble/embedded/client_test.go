package embedded_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

var openACL = []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}

// start returns a server that the test closes.
func start(t testing.TB, opts ...embedded.Option) *embedded.Server {
	t.Helper()
	srv, err := embedded.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv
}

// A client speaks raw frames. It belongs to one goroutine.
type client struct {
	t        testing.TB
	nc       net.Conn
	in       *bufio.Reader
	xid      int32
	session  wire.ConnectResponse
	zxid     int64 // of the last reply
	events   []wire.WatcherEvent
	deadline time.Duration // of one call
	extra    int           // bytes behind the header of the last error
	corked   bool          // send keeps frames in unsent
	unsent   []byte
	careless bool // that nothing can be written shows when there is no answer
}

// dial opens a connection without a session.
func dial(t testing.TB, srv *embedded.Server) *client {
	t.Helper()
	nc, err := srv.DialContext(context.Background(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, nc)
}

func wrap(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc, in: bufio.NewReader(nc), deadline: 10 * time.Second}
}

// connect opens a connection with a new session.
func connect(t testing.TB, srv *embedded.Server) *client {
	t.Helper()
	return dial(t, srv).open(&wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16), HasReadOnly: true})
}

// open sends a connect request and takes the response.
func (c *client) open(r *wire.ConnectRequest) *client {
	c.t.Helper()
	c.write(wire.AppendFrame(nil, r))
	frame, err := c.frame()
	if err != nil {
		c.t.Fatalf("no connect response: %v", err)
	}
	if err := wire.NewDecoder(frame).Decode(&c.session); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// resume opens a connection that resumes c's session.
func (c *client) resume(nc net.Conn) *client {
	c.t.Helper()
	return wrap(c.t, nc).open(&wire.ConnectRequest{
		LastZxidSeen: c.zxid, TimeoutMillis: c.session.TimeoutMillis, SessionID: c.session.SessionID,
		Password: c.session.Password, HasReadOnly: true,
	})
}

func (c *client) write(frame []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(frame); err != nil && !c.careless {
		c.t.Fatalf("write: %v", err)
	}
}

// frame returns the next frame's body.
func (c *client) frame() ([]byte, error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.deadline))
	var header [4]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(header[:]))
	_, err := io.ReadFull(c.in, frame)
	return frame, err
}

// send sends a request without waiting for the reply.
func (c *client) send(op wire.OpCode, r wire.Record) int32 {
	c.t.Helper()
	c.xid++
	xid := c.xid
	switch op {
	case wire.OpPing:
		xid = wire.XidPing
	case wire.OpAuth:
		xid = wire.XidAuth
	case wire.OpSetWatches, wire.OpSetWatches2:
		xid = wire.XidSetWatches
	}
	c.unsent = wire.AppendFrame(c.unsent, &wire.RequestHeader{Xid: xid, Op: op}, r)
	if !c.corked {
		c.uncork()
	}
	return xid
}

// uncork sends what is unsent.
func (c *client) uncork() {
	c.t.Helper()
	c.corked = false
	c.write(c.unsent)
	c.unsent = c.unsent[:0]
}

// receive takes frames until the reply to xid, keeping events. It returns an
// error if the connection ends first.
func (c *client) receive(xid int32, reply wire.Record) (wire.Code, error) {
	c.t.Helper()
	for {
		frame, err := c.frame()
		if err != nil {
			return 0, err
		}
		d := wire.NewDecoder(frame)
		var h wire.ReplyHeader
		if err := d.Decode(&h); err != nil {
			c.t.Fatal(err)
		}
		if h.Xid == wire.XidNotify {
			var e wire.WatcherEvent
			if err := d.Decode(&e); err != nil {
				c.t.Fatal(err)
			}
			if h.Zxid != -1 || h.Err != 0 || e.State != wire.StateSyncConnected {
				c.t.Errorf("event header %+v, state %d", h, e.State)
			}
			c.events = append(c.events, e)
			continue
		}
		if h.Xid != xid {
			c.t.Fatalf("reply to xid %d, expected %d", h.Xid, xid)
		}
		c.zxid = h.Zxid
		if h.Err != wire.CodeOK {
			c.extra = d.Len()
			return h.Err, nil
		}
		if reply == nil {
			reply = new(wire.Empty)
		}
		if err := d.Decode(reply); err != nil || d.Len() > 0 {
			c.t.Fatalf("reply %T: %v, %d bytes left", reply, err, d.Len())
		}
		return wire.CodeOK, nil
	}
}

// event returns the next event, those that came with replies first. It is not
// ok if the connection has ended.
func (c *client) event() (e wire.WatcherEvent, ok bool) {
	c.t.Helper()
	for len(c.events) == 0 {
		frame, err := c.frame()
		if ended(err) {
			return e, false
		}
		var h wire.ReplyHeader
		if err != nil {
			c.t.Fatalf("no event: %v", err)
		}
		if err := wire.NewDecoder(frame).Decode(&h, &e); err != nil || h.Xid != wire.XidNotify {
			c.t.Fatalf("not an event: %+v, %v", h, err)
		}
		c.events = append(c.events, e)
	}
	e, c.events = c.events[0], c.events[1:]
	return e, true
}

// frameOf puts the length before a frame's body.
func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// call sends a request and takes the reply.
func (c *client) call(op wire.OpCode, r, reply wire.Record) wire.Code {
	c.t.Helper()
	code, err := c.receive(c.send(op, r), reply)
	if err != nil {
		c.t.Fatalf("%v: %v", op, err)
	}
	return code
}

// ok is call for what must succeed.
func (c *client) ok(op wire.OpCode, r, reply wire.Record) {
	c.t.Helper()
	if code := c.call(op, r, reply); code != wire.CodeOK {
		c.t.Fatalf("%v %+v: %v", op, r, code)
	}
}

// fails is call for what must be refused with want.
func (c *client) fails(want wire.Code, op wire.OpCode, r wire.Record) {
	c.t.Helper()
	if code := c.call(op, r, new(anything)); code != want {
		c.t.Errorf("%v %+v: %v, expected %v", op, r, code, want)
	}
}

// anything stands for a reply that should not come.
type anything = wire.Empty

// gone checks that the server closes the connection, and takes the events
// that come before.
func (c *client) gone() {
	c.t.Helper()
	if _, err := c.receive(-99, nil); err == nil {
		c.t.Fatal("a reply, expected the connection to end")
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(c.deadline))
	if _, err := c.in.Read(make([]byte, 1)); !ended(err) {
		c.t.Fatalf("%v, expected the connection to end", err)
	}
}

func ended(err error) bool {
	ne, isNet := err.(net.Error)
	return err != nil && !(isNet && ne.Timeout())
}

// sync waits until the server has nothing under way for this client, and
// returns the events that have come.
func (c *client) sync() []wire.WatcherEvent {
	c.t.Helper()
	c.ok(wire.OpSync, &wire.PathRequest{Path: "/"}, new(wire.PathRequest))
	return c.take()
}

// take returns the events that came with earlier replies.
func (c *client) take() []wire.WatcherEvent {
	events := c.events
	c.events = nil
	return events
}

// The most used operations, for what must succeed.

func (c *client) create(path, data string, mode int32) string {
	c.t.Helper()
	var r wire.CreateResponse
	c.ok(wire.OpCreate, &wire.CreateRequest{Path: path, Data: []byte(data), ACL: openACL, Flags: mode}, &r)
	return r.Path
}

func (c *client) delete(path string) {
	c.t.Helper()
	c.ok(wire.OpDelete, &wire.PathVersionRequest{Path: path, Version: -1}, nil)
}

func (c *client) set(path, data string) wire.Stat {
	c.t.Helper()
	var r wire.StatResponse
	c.ok(wire.OpSetData, &wire.SetDataRequest{Path: path, Data: []byte(data), Version: -1}, &r)
	return r.Stat
}

func (c *client) get(path string, watch bool) (string, wire.Stat) {
	c.t.Helper()
	var r wire.GetDataResponse
	c.ok(wire.OpGetData, &wire.PathWatchRequest{Path: path, Watch: watch}, &r)
	return string(r.Data), r.Stat
}

func (c *client) children(path string, watch bool) []string {
	c.t.Helper()
	var r wire.StringsResponse
	c.ok(wire.OpGetChildren, &wire.PathWatchRequest{Path: path, Watch: watch}, &r)
	return r.Names
}

func (c *client) stat(path string) wire.Stat {
	c.t.Helper()
	var r wire.StatResponse
	c.ok(wire.OpExists, &wire.PathWatchRequest{Path: path}, &r)
	return r.Stat
}

// show writes events in a form that tests can compare.
func show(events []wire.WatcherEvent) string {
	names := map[int32]string{1: "created", 2: "deleted", 3: "changed", 4: "children"}
	var s string
	for _, e := range events {
		s += fmt.Sprintf("%s %s;", names[e.Type], e.Path)
	}
	return s
}
