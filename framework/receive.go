package framework

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// Read yields the driver's frames, and handles all others on the way.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if err := c.receive(); err != nil {
			c.fail(err)
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// receive reads one frame and handles it, or leaves it in c.rest.
func (c *conn) receive() error {
	if err := c.readFrame(); err != nil {
		return err
	}
	body := c.frame[4:]
	if c.hello == nil {
		return c.receiveHello(body)
	}
	var h wire.ReplyHeader
	d := wire.NewDecoder(body)
	if err := d.Decode(&h); err != nil {
		return err
	}
	c.session.sawZxid(h.Zxid)
	if h.Err == wire.CodeSessionExpired || h.Err == wire.CodeSessionMoved {
		return c.disowned(&h)
	}
	switch h.Xid {
	case wire.XidNotify:
		return c.receiveEvent(d)
	case wire.XidPing:
		c.receivePong()
		c.rest = c.frame
		return nil
	case wire.XidAuth:
		return c.receiveAuth(h.Err)
	}
	if h.Xid > 0 && h.Xid == c.farewell.Load() {
		c.rest = c.frame
		return nil
	}
	return c.receiveReply(&h, d)
}

// disowned handles a reply by which the session is not this connection's any
// more, which is no sign of life. Its caller has an answer, and nobody else:
// what is watched is looked at again on the next connection.
func (c *conn) disowned(h *wire.ReplyHeader) error {
	call := c.take(h.Xid)
	err := errors.New("the session has moved to another connection")
	if h.Err == wire.CodeSessionExpired {
		err = fmt.Errorf("%w: the server says that it has expired", ErrSessionLost)
		c.session.end(err)
	}
	if call != nil {
		call.code, call.err = h.Err, codeError(h.Err)
		call.complete()
	}
	return err
}

// take returns the call that awaits the reply with the given xid, or nil.
func (c *conn) take(xid int32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[xid]
	delete(c.pending, xid)
	return call
}

func (c *conn) readFrame() error {
	if cap(c.frame) > 1<<20 {
		c.frame = nil // do not keep what one large reply needed
	}
	var length [4]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(length[:])))
	if n < 0 || n > c.session.core.maxReply {
		return fmt.Errorf("a frame of %d bytes, the limit is %d", n, c.session.core.maxReply)
	}
	if cap(c.frame) < n+4 {
		c.frame = make([]byte, n+4)
	}
	c.frame = c.frame[:n+4]
	copy(c.frame, length[:])
	_, err := io.ReadFull(c.in, c.frame[4:])
	return err
}

func (c *conn) receiveHello(body []byte) error {
	var hello wire.ConnectResponse
	if err := wire.NewDecoder(body).Decode(&hello); err != nil {
		return err
	}
	if hello.SessionID == 0 {
		// The driver never hears of it: it would go on, in a new session.
		err := fmt.Errorf("%w: the server says it has expired", ErrSessionLost)
		c.session.end(err)
		return err
	}
	if hello.ProtocolVersion != 0 || hello.TimeoutMillis <= 0 || len(hello.Password) > maxPassword {
		return fmt.Errorf("garbage for a handshake: protocol version %d, session timeout of %d ms, password of %d bytes",
			hello.ProtocolVersion, hello.TimeoutMillis, len(hello.Password))
	}
	c.hello = &hello
	auth := c.session.core.auth
	if len(auth) == 0 {
		return c.up()
	}
	c.mu.Lock()
	for _, a := range auth {
		h := wire.RequestHeader{Xid: wire.XidAuth, Op: wire.OpAuth}
		c.out = wire.AppendFrame(c.out, &h, &wire.AuthRequest{Scheme: a.scheme, Auth: a.auth})
	}
	c.writable.Signal()
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(time.Now().Add(c.session.patience()))
}

// up ends the handshake, of which the credentials are a part: only now the
// driver gets the answer to its connect request.
func (c *conn) up() error {
	c.mu.Lock()
	c.ready = true
	sent := c.helloSent
	c.mu.Unlock()
	if err := c.Conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	hello := *c.hello
	hello.HasReadOnly = false // the driver does not know the byte
	c.frame = wire.AppendFrame(c.frame[:0], &hello)
	c.rest = c.frame
	return c.session.attach(c, &hello, hello.ReadOnly, sent)
}

func (c *conn) receiveEvent(d *wire.Decoder) error {
	var ev wire.WatcherEvent
	if err := d.Decode(&ev); err != nil {
		return err
	}
	c.session.hub.dispatch(c, &ev)
	return nil
}

func (c *conn) receivePong() {
	c.mu.Lock()
	var sent int64
	if len(c.pings) > 0 {
		sent = c.pings[0]
		c.pings = c.pings[1:]
	}
	c.mu.Unlock()
	c.confirm(sent)
}

// confirm says that a request sent at the given time was answered.
func (c *conn) confirm(sent int64) {
	if c.vouches {
		c.session.confirm(sent)
	}
}

// receiveAuth takes the answers to the credentials, which come in their order.
func (c *conn) receiveAuth(code wire.Code) error {
	auth := c.session.core.auth
	if c.accepted == len(auth) {
		return errors.New("an answer to credentials that were not sent")
	}
	if code != wire.CodeOK {
		err := fmt.Errorf("%w: the server refuses the credentials of scheme %q", ErrAuthFailed, auth[c.accepted].scheme)
		c.session.core.refused(c.address, err)
		return err
	}
	if c.accepted++; c.accepted < len(auth) {
		return nil
	}
	return c.up()
}

func (c *conn) receiveReply(h *wire.ReplyHeader, d *wire.Decoder) error {
	call := c.take(h.Xid)
	if call == nil {
		return fmt.Errorf("a reply to request %d, which was not sent", h.Xid)
	}
	c.confirm(call.sent)
	call.code = h.Err
	if h.Err != wire.CodeOK {
		call.err = codeError(h.Err)
	} else if err := d.Decode(call.reply); err != nil {
		call.fail(err)
		return err
	}
	call.finish()
	return nil
}
