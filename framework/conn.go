package framework

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// firstXid is the lowest xid of Baton's own requests. The driver counts its
// own up from 1 and sends one request, closeSession, per session.
const firstXid int32 = 1 << 30

// maxPassword is how many bytes of a session's password the driver can send
// again. Servers give 16.
const maxPassword = 128

var errConnClosed = errors.New("connection closed")

// A conn is one connection to one server, and the seam between Baton and the
// driver. To the driver it is a [net.Conn] over which it shakes hands, sends
// pings and closes the session. Baton puts its own requests between the
// driver's frames and takes their replies, and all watch events, out of the
// stream again, so that the driver neither queues nor watches anything.
//
// Both the driver's reader and its handshake call Read, one at a time: that
// goroutine is the receive path. It runs no user code and never waits for
// anything but the socket.
type conn struct {
	net.Conn
	session *Session
	address string

	// The following belong to the receive path.
	in      *bufio.Reader
	frame   []byte // the last frame read
	rest    []byte // what the driver has still to read of it
	vouches bool   // an answer on this connection shows that the session lives

	hello    *wire.ConnectResponse // once it has come
	accepted int                   // how many credentials

	broken   chan struct{} // closed when err is set
	farewell atomic.Int32  // xid of the driver's request to close the session, 0 before

	mu        sync.Mutex
	writable  sync.Cond // out is not empty, or err is set
	out       []byte    // frames that the writer has still to write
	pending   map[int32]*call
	pings     []int64 // sending times of the pings not answered yet
	xid       int32
	greeted   bool  // the connect request is sent
	helloSent int64 // when
	ready     bool  // the handshake is over
	refusal   error // why nothing more is to be sent, if err is not set
	err       error
}

// newConn wraps raw and starts its writer, which ends when the conn fails.
func newConn(s *Session, raw net.Conn, address string) *conn {
	c := &conn{
		Conn:    raw,
		session: s,
		address: address,
		in:      bufio.NewReaderSize(raw, 64<<10),
		broken:  make(chan struct{}),
		pending: make(map[int32]*call),
		xid:     firstXid,
	}
	c.writable.L = &c.mu
	return c
}

// Write takes one whole frame from the driver.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	now := c.session.core.now()
	if !c.greeted {
		return len(p), c.writeHello(p, now)
	}
	if len(p) < 12 {
		return 0, fmt.Errorf("%w: a request of %d bytes", wire.ErrMalformed, len(p))
	}
	switch xid := int32(binary.BigEndian.Uint32(p[4:])); xid {
	case wire.XidPing:
		c.pings = append(c.pings, now)
	default: // it has no other request to make
		c.farewell.Store(xid)
	}
	c.out = append(c.out, p...)
	c.writable.Signal()
	return len(p), nil
}

// writeHello amends the driver's connect request: the driver has not seen the
// replies that Baton took out of the stream, so the last zxid is put in here,
// by which a server that lags behind what the session saw turns it away.
func (c *conn) writeHello(p []byte, now int64) error {
	if len(p) < 4 {
		return fmt.Errorf("%w: a connect request of %d bytes", wire.ErrMalformed, len(p))
	}
	var hello wire.ConnectRequest
	if err := wire.NewDecoder(p[4:]).Decode(&hello); err != nil {
		return err
	}
	hello.LastZxidSeen = c.session.zxid.Load()
	hello.ReadOnly, hello.HasReadOnly = c.session.core.readOnly, true
	c.greeted, c.helloSent = true, now
	c.out = wire.AppendFrame(c.out, &hello)
	c.writable.Signal()
	return c.Conn.SetReadDeadline(time.Now().Add(c.session.patience()))
}

// SetReadDeadline is the driver's, renewed at each of its own frames, a ping
// or more each third of the session timeout. The handshake has a deadline of
// its own, and the pauses between frames keep the last one.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if !ready || t.IsZero() {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing. A write that blocks ends with the connection,
// which the read deadline ends when the server does not answer pings.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Close ends the connection.
func (c *conn) Close() error {
	c.fail(errConnClosed)
	return nil
}

// submit queues calls to be sent, in order and with nothing between them. It
// does not block. After an error none of them will be sent.
func (c *conn) submit(calls ...*call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.lossLocked()
	}
	if c.refusal != nil {
		return c.refusal
	}
	now, at, xid := c.session.core.now(), len(c.out), c.xid
	for _, call := range calls {
		start := len(c.out)
		h := wire.RequestHeader{Xid: c.xid, Op: call.op}
		c.out = wire.AppendFrame(c.out, &h, call.request)
		if n := len(c.out) - start - 4; n > c.session.core.maxRequest {
			c.out, c.xid = c.out[:at], xid
			return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, n, c.session.core.maxRequest)
		}
		call.xid, call.sent = c.xid, now
		c.xid = max(c.xid+1, firstXid) // wraps around to firstXid
	}
	for _, call := range calls {
		c.pending[call.xid] = call
	}
	c.writable.Signal()
	return nil
}

// writeLoop writes what has gathered since the last write, in one go.
func (c *conn) writeLoop() {
	var spare []byte
	for {
		c.mu.Lock()
		for len(c.out) == 0 && c.err == nil {
			c.writable.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		batch := c.out
		c.out = spare[:0]
		c.mu.Unlock()

		if _, err := c.Conn.Write(batch); err != nil {
			c.fail(err)
			return
		}
		spare = batch
		if cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// refuse lets nothing more be sent but what the driver sends.
func (c *conn) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = err
}

func (c *conn) loss() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lossLocked()
}

func (c *conn) lossLocked() error { return connectionLoss(c.err) }

// fail ends the connection for the first reason it is given: the session is
// detached, whatever awaits a reply hears of it, and the socket is closed, in
// the background: fail does not block.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.broken)
	pending := c.pending
	c.pending = nil
	c.writable.Broadcast()
	c.mu.Unlock()

	c.session.detach(c, err)
	for _, call := range pending {
		call.fail(err)
	}
	hangUp := func() { _ = c.Conn.Close() } // that of TLS may block for seconds
	if !c.session.core.spawn(hangUp) {
		hangUp()
	}
}
