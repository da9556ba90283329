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

	closing  sync.Once
	deadline sync.Mutex   // held while it is set
	reason   string       // why the server closed it; to be read when done is closed
	sid      atomic.Int64 // the session's id, or the one that is to be resumed

	// The reader's own, to be used again for each request.
	decoder     wire.Decoder
	encoder     wire.Encoder
	header      wire.RequestHeader
	replyHeader wire.ReplyHeader
	scratch     []byte

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
	c := &conn{srv: s, nc: nc, in: bufio.NewReaderSize(nc, 16<<10), out: newQueue(s.cfg.maxQueue.connection, s.backlog), done: make(chan struct{})}
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
		c.deadline.Lock()
		defer c.deadline.Unlock()
		_ = c.nc.SetDeadline(time.Unix(1, 0))
	})
}

// lastWords bounds what may still be written, unless c is closed.
func (c *conn) lastWords() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	select {
	case <-c.done:
	default:
		_ = c.nc.SetWriteDeadline(time.Now().Add(finishTimeout))
	}
}

// ended reports whether c is no longer its session's connection. Caller holds
// srv.mu, in either mode.
func (c *conn) ended() bool { return c.session == nil || c.session.conn != c }

// send queues a frame; a client that lets too much pile up is cut off. Caller
// holds srv.mu.
func (c *conn) send(frame []byte) {
	c.sent()
	if !c.out.push(frame, false) {
		c.close("client does not read")
	}
}

// reply is send for the connection's own reader, which flushes.
func (c *conn) reply(frame []byte) {
	c.sent()
	if !c.out.push(frame, true) {
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
		c.srv.forget(c) // before the client sees the end, so that it may count connections
		c.nc.Close()
	}()
	err := c.serve()
	c.lastWords()
	c.flush()
	for done := false; !done; {
		c.srv.mu.Lock()
		done = c.srv.detach(c)
		c.srv.mu.Unlock()
	}
	if err == nil { // what is queued is still to be sent
		c.out.finish()
		<-writing
		err = errFinished
	}
	c.close(err.Error())
	<-writing
	c.srv.cfg.logger.Info("connection closed", "session", hex(c.sid.Load()), "reason", c.reason)
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
		if !c.frameBuffered() || c.out.full() {
			c.flush()
		}
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

// frameBuffered reports whether the next frame can be read without waiting.
func (c *conn) frameBuffered() bool {
	if c.in.Buffered() < 4 {
		return false
	}
	header, _ := c.in.Peek(4) // is there
	return c.in.Buffered()-4 >= int(binary.BigEndian.Uint32(header))
}

// flush sends what is queued, unless the writer is at it.
func (c *conn) flush() {
	for {
		frames, ok := c.out.grab()
		if !ok || !c.writeOut(frames) {
			return
		}
	}
}

// write sends what is queued until the queue ends.
func (c *conn) write() {
	for {
		frames, ok := c.out.take()
		if !ok || !c.writeOut(frames) {
			return
		}
	}
}

// writeOut sends frames that were taken from the queue. It reports false if the
// connection has ended.
func (c *conn) writeOut(frames []byte) bool {
	defer c.out.wrote(frames)
	if c.srv.gate.wait(c) != nil {
		return false
	}
	if _, err := c.nc.Write(frames); err != nil {
		c.close("write: " + err.Error())
		return false
	}
	return true
}
