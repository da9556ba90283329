package apache_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/batonzk/baton/internal/wire"
)

// client is a session on one server, just enough to make a node and to look
// for it.
type client struct {
	t    *testing.T
	conn net.Conn
	xid  int32
}

func connect(t *testing.T, ctx context.Context, addr string) *client {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	must(t, err)
	deadline, _ := ctx.Deadline()
	must(t, conn.SetDeadline(deadline))
	c := &client{t: t, conn: conn}
	var resp wire.ConnectResponse
	c.exchange(&resp, &wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16)})
	if resp.SessionID == 0 || resp.TimeoutMillis != 10_000 {
		t.Fatalf("session %#x with a timeout of %d ms, want one of 10000 ms", resp.SessionID, resp.TimeoutMillis)
	}
	return c
}

// exchange sends one frame and decodes the next.
func (c *client) exchange(reply wire.Record, request ...wire.Record) {
	c.t.Helper()
	_, err := c.conn.Write(wire.AppendFrame(nil, request...))
	must(c.t, err)
	var size [4]byte
	_, err = io.ReadFull(c.conn, size[:])
	must(c.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c.conn, frame)
	must(c.t, err)
	must(c.t, wire.NewDecoder(frame).Decode(reply))
}

// request sends one operation and returns the code of its reply.
func (c *client) request(op wire.OpCode, body wire.Record) wire.Code {
	c.t.Helper()
	c.xid++
	var header wire.ReplyHeader
	c.exchange(&header, &wire.RequestHeader{Xid: c.xid, Op: op}, body)
	return header.Err
}

func (c *client) close() {
	c.t.Helper()
	c.request(wire.OpCloseSession, &wire.Empty{})
	c.conn.Close()
}

// create makes a node with a TTL, which the server has to be set up for.
func create(t *testing.T, ctx context.Context, addr, path string) {
	t.Helper()
	c := connect(t, ctx, addr)
	defer c.close()
	code := c.request(wire.OpCreateTTL, &wire.CreateTTLRequest{
		CreateRequest: wire.CreateRequest{
			Path: path, ACL: []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}, Flags: wire.ModePersistentTTL,
		},
		TTL: 3_600_000,
	})
	if code != 0 {
		t.Fatalf("create %s: %v", path, code)
	}
}

func exists(t *testing.T, ctx context.Context, addr, path string) bool {
	t.Helper()
	c := connect(t, ctx, addr)
	defer c.close()
	code := c.request(wire.OpExists, &wire.PathWatchRequest{Path: path})
	if code != 0 && code != wire.CodeNoNode {
		t.Fatalf("exists %s: %v", path, code)
	}
	return code == 0
}
