package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeLimit is how many bytes may be under way in one direction of a pipe
// before writes block.
const pipeLimit = 256 << 10

// pipeAddr is the address of both ends of a pipe.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "embedded:2181" }

// newPipe returns the two ends of a connection in memory. Unlike those of
// [net.Pipe] they are buffered, like a socket's. All blocking is on a
// [sync.Cond], so a goroutine that waits here is durably blocked in the sense
// of testing/synctest.
func newPipe() (client, server net.Conn) {
	up, down := newStream(), newStream()
	return &pipeConn{r: down, w: up}, &pipeConn{r: up, w: down}
}

// A pipeConn is one end of a pipe.
type pipeConn struct{ r, w *stream }

func (c *pipeConn) Read(b []byte) (int, error)  { return c.r.read(b) }
func (c *pipeConn) Write(b []byte) (int, error) { return c.w.write(b) }

func (c *pipeConn) Close() error {
	c.r.closeRead()
	c.w.closeWrite()
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.r.setDeadline(&c.r.readLimit, t)
	c.w.setDeadline(&c.w.writeLimit, t)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.r.setDeadline(&c.r.readLimit, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.w.setDeadline(&c.w.writeLimit, t)
	return nil
}

// A stream is one direction of a pipe.
type stream struct {
	mu         sync.Mutex
	changed    sync.Cond // of anything below
	buf        []byte    // written and not yet read: buf[off:]
	off        int
	readEnd    bool // the reader has closed
	writeEnd   bool // the writer has closed
	readLimit  limit
	writeLimit limit
}

// A limit is a deadline of one side of a stream.
type limit struct {
	timer  *time.Timer
	passed bool
	epoch  int // which setDeadline the timer belongs to
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readEnd:
			return 0, net.ErrClosed
		case s.readLimit.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case s.off < len(s.buf):
			n := copy(b, s.buf[s.off:])
			s.off += n
			s.compact()
			s.changed.Broadcast()
			return n, nil
		case s.writeEnd:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) compact() {
	if s.off == len(s.buf) {
		s.buf, s.off = s.buf[:0], 0
		return
	}
	if s.off > pipeLimit/2 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.off:])]
		s.off = 0
	}
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for {
		switch {
		case s.writeEnd:
			return written, net.ErrClosed
		case s.readEnd:
			return written, io.ErrClosedPipe
		case s.writeLimit.passed:
			return written, os.ErrDeadlineExceeded
		}
		if n := min(pipeLimit-(len(s.buf)-s.off), len(b)); n > 0 {
			s.buf = append(s.buf, b[:n]...)
			b, written = b[n:], written+n
			s.changed.Broadcast()
		}
		if len(b) == 0 {
			return written, nil
		}
		s.changed.Wait()
	}
}

// closeRead ends the reader's side: what was not read is lost.
func (s *stream) closeRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readEnd = true
	s.buf, s.off = nil, 0
	s.readLimit.stop()
	s.changed.Broadcast()
}

// closeWrite ends the writer's side: the reader gets what is under way, then
// the end of file.
func (s *stream) closeWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeEnd = true
	s.writeLimit.stop()
	s.changed.Broadcast()
}

func (l *limit) stop() {
	l.epoch++
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// setDeadline sets l, one of the two limits of s, to pass at t, never if t is
// zero.
func (s *stream) setDeadline(l *limit, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.stop()
	l.passed = false
	if t.IsZero() {
		return
	}
	d := time.Until(t)
	if d <= 0 {
		l.passed = true
		s.changed.Broadcast()
		return
	}
	epoch := l.epoch
	l.timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.epoch == epoch {
			l.passed = true
			s.changed.Broadcast()
		}
	})
}
