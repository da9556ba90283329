package framework_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// A fake is an ensemble of one server that does whatever its script says,
// where no real one can be made to misbehave so.
type fake struct {
	t *testing.T

	mu     sync.Mutex
	script func(n int, c *fakeConn) // run for each connection, n counts from 0
	dialed int
	wg     sync.WaitGroup
}

func newFake(t *testing.T, script func(n int, c *fakeConn)) *fake {
	f := &fake{t: t, script: script}
	t.Cleanup(f.wg.Wait)
	return f
}

func (f *fake) Servers(context.Context) ([]net.Addr, error) { return []net.Addr{fakeAddr{}}, nil }
func (f *fake) Chroot() string                              { return "" }

func (f *fake) DialContext(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	f.mu.Lock()
	n := f.dialed
	f.dialed++
	f.mu.Unlock()
	f.wg.Add(1)
	go func() {
		defer f.wg.Done()
		defer server.Close()
		f.script(n, &fakeConn{server})
	}()
	return client, nil
}

func (f *fake) dials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialed
}

type fakeAddr struct{}

func (fakeAddr) Network() string { return "tcp" }
func (fakeAddr) String() string  { return "fake:2181" }

// A fakeConn is the server's end. Its methods report whether the client is
// still there.
type fakeConn struct{ net.Conn }

func (c *fakeConn) frame() ([]byte, bool) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, false
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c, b)
	return b, err == nil
}

func (c *fakeConn) hello() (wire.ConnectRequest, bool) {
	var hello wire.ConnectRequest
	b, ok := c.frame()
	return hello, ok && wire.NewDecoder(b).Decode(&hello) == nil
}

func (c *fakeConn) request() (wire.RequestHeader, *wire.Decoder, bool) {
	var h wire.RequestHeader
	b, ok := c.frame()
	d := wire.NewDecoder(b)
	return h, d, ok && d.Decode(&h) == nil
}

func (c *fakeConn) send(rs ...wire.Record) bool {
	_, err := c.Write(wire.AppendFrame(nil, rs...))
	return err == nil
}

// greet shakes hands.
func (c *fakeConn) greet(reply wire.ConnectResponse) (wire.ConnectRequest, bool) {
	hello, ok := c.hello()
	if reply.Password == nil {
		reply.Password = make([]byte, 16)
	}
	if reply.TimeoutMillis == 0 {
		reply.TimeoutMillis = hello.TimeoutMillis
	}
	return hello, ok && c.send(&reply)
}

// serve answers pings, the end of a session and whatever answer knows, until
// the client is gone.
func (c *fakeConn) serve(answer func(h wire.RequestHeader, d *wire.Decoder) wire.Record) {
	for {
		h, d, ok := c.request()
		if !ok {
			return
		}
		var reply wire.Record = &wire.Empty{}
		if answer != nil && h.Op != wire.OpPing && h.Op != wire.OpCloseSession {
			reply = answer(h, d)
		}
		if reply != nil && !c.send(&wire.ReplyHeader{Xid: h.Xid, Zxid: 1}, reply) {
			return
		}
		if h.Op == wire.OpCloseSession {
			return
		}
	}
}

// drain reads until the client is gone.
func (c *fakeConn) drain() { _, _ = io.Copy(io.Discard, c) }

// fakeBubble runs f against scripted connections in virtual time.
func fakeBubble(t *testing.T, script func(n int, c *fakeConn), f func(t *testing.T, srv *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFake(t, script)) })
}

// pair is an ensemble of two embedded servers, dialled by address.
type pair struct{ a, b *embedded.Server }

func (p pair) Servers(context.Context) ([]net.Addr, error) {
	return []net.Addr{named("a"), named("b")}, nil
}
func (p pair) Chroot() string { return "" }

func (p pair) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == "a" {
		return p.a.DialContext(ctx, network, address)
	}
	return p.b.DialContext(ctx, network, address)
}

type named string

func (n named) Network() string { return "pipe" }
func (n named) String() string  { return string(n) }
