package embedded

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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
	// keptFrame is the size of a request up to which its buffer is kept.
	keptFrame = 64 << 10
)

// A conn is one client connection. Its reader (run) takes requests, carries
// them out and queues the replies; its writer sends what is queued. Both are
// waited for by the server's Close.
type conn struct {
	srv   *Server
	nc    net.Conn
	in    *bufio.Reader
	frame []byte // of readFrame
	out   *queue
	done  chan struct{} // closed when the connection is

	closing sync.Once
	reason  string       // why the server closed it; to be read when done is closed
	sid     atomic.Int64 // the session's id, or the one that is to be resumed

	number  int64 // grows with each connection
	since   time.Time
	began   time.Duration // on the server's clock
	traffic traffic
	last    last

	// srv.mu guards these.
	session *session
	ids     []identity
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, in: bufio.NewReaderSize(nc, 16<<10), out: newQueue(s.cfg.maxQueue), done: make(chan struct{})}
	c.ids = []identity{{"ip", clientIP(nc)}}
	c.number, c.since, c.began = s.connected.Add(1), time.Now(), s.clock.elapsed()
	c.last.reset()
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
// than once, with any lock held; the first reason counts. The writer closes
// the socket, since closing one that is not a plain one may block.
func (c *conn) close(reason string) {
	c.closing.Do(func() {
		c.reason = reason
		close(c.done)
		c.out.close()
		_ = c.nc.SetDeadline(time.Unix(1, 0))
	})
}

// ended reports whether c is no longer its session's connection. Caller holds
// srv.mu, in either mode.
func (c *conn) ended() bool { return c.session == nil || c.session.conn != c }

// send queues a frame; a client that lets too much pile up is cut off. Caller
// holds srv.mu.
func (c *conn) send(frame []byte) {
	c.sent()
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
		c.nc.Close()
	}()
	err := c.serve()
	c.srv.mu.Lock()
	c.srv.detach(c)
	c.srv.mu.Unlock()
	if err == nil { // what is queued is still to be sent
		_ = c.nc.SetWriteDeadline(time.Now().Add(finishTimeout))
		c.out.finish()
		<-writing
		err = errFinished
	}
	c.close(err.Error())
	<-writing
	c.srv.cfg.logger.Info("connection closed", "session", hex(c.sid.Load()), "reason", c.reason)
	c.srv.forget(c)
}

var (
	errFinished = errors.New("last reply sent")
	errCut      = errors.New("cut by a hook")
	errSession  = errors.New("session ended or moved")
)

// serve takes requests until the connection ends. A nil error says that the
// server ends it, with a last reply.
func (c *conn) serve() error {
	if err := c.srv.gate.wait(c); err != nil {
		return err
	}
	more, err := c.handshake()
	for more && err == nil {
		c.out.drain()
		var frame []byte
		if frame, err = c.readFrame(); err != nil {
			return err
		}
		start := c.srv.clock.elapsed()
		c.received()
		if err = c.srv.gate.wait(c); err != nil {
			return err
		}
		more, err = c.handle(frame, start)
	}
	return err
}

// handshake takes the first frame and answers it. It reports whether the
// client now has a session.
func (c *conn) handshake() (bool, error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(handshakeTimeout))
	if c.word() {
		return false, nil
	}
	frame, err := c.readFrame()
	if err != nil {
		return false, fmt.Errorf("no connect request: %w", err)
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	c.received()
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

// readFrame returns the body of the next frame, which is valid until the next
// call.
func (c *conn) readFrame() ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(header[:]))
	if n < 0 || int(n) > c.srv.cfg.maxBuffer {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	if cap(c.frame) > keptFrame {
		c.frame = nil
	}
	frame := c.frame[:0]
	for len(frame) < int(n) { // the length is only a promise: room is made as the bytes come
		at, step := len(frame), min(int(n)-len(frame), keptFrame)
		frame = slices.Grow(frame, step)[:at+step]
		if _, err := io.ReadFull(c.in, frame[at:]); err != nil {
			return nil, err
		}
	}
	c.frame = frame
	return frame, nil
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
			c.close("write: " + err.Error())
			return
		}
		if cap(buf) > 4*batchLimit {
			buf = nil
		}
	}
}
