package embedded

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

const (
	// handshakeTimeout is how long a connection may be without a session.
	handshakeTimeout = 10 * time.Second
	// finishTimeout is how long the last reply may take to be written.
	finishTimeout = 2 * time.Second
)

// A conn is one client connection. Its reader (run) takes requests, carries
// them out and queues the replies; its writer sends what is queued. Both are
// waited for by the server's Close.
type conn struct {
	srv  *Server
	nc   net.Conn
	in   *bufio.Reader
	out  *queue
	done chan struct{} // closed when the connection is

	closing sync.Once
	reason  atomic.Pointer[string] // why the server closed it
	sid     atomic.Int64           // the session's id, or the one that is to be resumed

	session *session   // guarded by srv.mu
	ids     []identity // of the reader alone
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, in: bufio.NewReaderSize(nc, 16<<10), out: newQueue(), done: make(chan struct{})}
	c.ids = []identity{{"ip", clientIP(nc)}}
	return c
}

// clientIP returns where a connection comes from. A pipe comes from this host.
func clientIP(nc net.Conn) string {
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return addr.AddrPort().Addr().Unmap().WithZone("").String()
	}
	return "127.0.0.1"
}

// close ends the connection at once. It does not block and may be called more
// than once, with any lock held; the first reason counts.
func (c *conn) close(reason string) {
	c.closing.Do(func() {
		c.reason.Store(&reason)
		close(c.done)
		c.out.close()
		c.nc.Close()
	})
}

// ended reports whether c is no longer its session's connection. Caller holds
// srv.mu, in either mode.
func (c *conn) ended() bool { return c.session == nil || c.session.conn != c }

// send queues a frame; a client that lets too much pile up is cut off. Caller
// holds srv.mu.
func (c *conn) send(frame []byte) {
	if !c.out.push(frame) {
		c.close("client does not read")
	}
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.srv.wg.Done()
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		c.write()
	}()
	err := c.serve()
	c.srv.mu.Lock()
	c.srv.detach(c)
	c.srv.mu.Unlock()
	if err == nil { // what is queued is still to be sent
		_ = c.nc.SetWriteDeadline(time.Now().Add(finishTimeout))
		c.out.finish()
		<-writing
	}
	c.close("")
	<-writing
	c.log(err)
	c.srv.forget(c)
}

// errCut ends a connection without what is queued for it.
var errCut = errors.New("cut by a test")

func (c *conn) log(err error) {
	reason := *c.reason.Load()
	if reason == "" && err != nil && !errors.Is(err, io.EOF) {
		reason = err.Error()
	}
	if reason != "" {
		c.srv.cfg.logger.Warn("connection closed", "session", hex(c.sid.Load()), "reason", reason)
	}
}

// serve takes requests until the connection ends. A nil error says that the
// server ends it, with a last reply.
func (c *conn) serve() error {
	if c.srv.gate.wait(c) != nil {
		return errCut
	}
	more, err := c.handshake()
	for more && err == nil {
		c.out.drain()
		var frame []byte
		if frame, err = c.readFrame(); err != nil {
			return err
		}
		if err = c.srv.gate.wait(c); err != nil {
			return err
		}
		more, err = c.handle(frame)
	}
	return err
}

// handshake takes the first frame and answers it. It reports whether the
// client now has a session.
func (c *conn) handshake() (bool, error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(handshakeTimeout))
	frame, err := c.readFrame()
	if err != nil {
		return false, err
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	var r wire.ConnectRequest
	if err := wire.NewDecoder(frame).Decode(&r); err != nil {
		return false, err
	}
	c.sid.Store(r.SessionID)
	if err := c.srv.gate.wait(c); err != nil {
		return false, err
	}
	return c.srv.connect(c, &r)
}

// readFrame returns the body of the next frame.
func (c *conn) readFrame() ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(header[:]))
	if n < 0 || int(n) > c.srv.cfg.maxBuffer {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(c.in, frame)
	return frame, err
}

// write sends what is queued until the queue ends.
func (c *conn) write() {
	var buf []byte
	for {
		var ok bool
		if buf, ok = c.out.take(buf[:0]); !ok {
			return
		}
		if c.srv.gate.wait(c) != nil {
			return
		}
		if _, err := c.nc.Write(buf); err != nil {
			c.close("")
			return
		}
		if cap(buf) > 4*batchLimit {
			buf = nil
		}
	}
}
