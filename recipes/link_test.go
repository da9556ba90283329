package recipes_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batonzk/baton/framework"
)

// A link is the network between one client and its server, with faults that
// need no help from the server.
type link struct {
	next framework.DialFunc

	latency atomic.Int64 // of a round trip
	writes  atomic.Int64 // until the connection is cut, when 1 becomes 0
	reads   atomic.Int64

	mu      sync.Mutex
	conns   map[*linked]struct{}
	refused bool
	silent  chan struct{} // closed when silent
}

func newLink(servers framework.Ensemble) *link {
	l := &link{conns: make(map[*linked]struct{}), silent: make(chan struct{})}
	l.next = new(net.Dialer).DialContext
	if d, ok := servers.(interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}); ok {
		l.next = d.DialContext
	}
	return l
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := l.next(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &linked{Conn: conn, link: l, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// refuse makes new connections fail, or no longer.
func (l *link) refuse(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = on
}

// drop resets the connections.
func (l *link) drop() {
	l.mu.Lock()
	conns := l.conns
	l.conns = make(map[*linked]struct{})
	l.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// silence makes the network swallow everything, for good.
func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.silent)
}

// cutAtWrite breaks the connection instead of its n'th write from now on.
func (l *link) cutAtWrite(n int) { l.writes.Store(int64(n)) }

// cutAtRead breaks the connection instead of its n'th read from now on.
func (l *link) cutAtRead(n int) { l.reads.Store(int64(n)) }

// linked is a connection over a link.
type linked struct {
	net.Conn
	link     *link
	once     sync.Once
	closed   chan struct{}
	deadline atomic.Int64 // of reads, Unix nanoseconds, 0 for none
	arrived  time.Time    // the last that was read
}

func (c *linked) silent() bool {
	select {
	case <-c.link.silent:
		return true
	default:
		return false
	}
}

func (c *linked) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		c.delay()
		if c.link.reads.Add(-1) == 0 {
			c.Conn.Close()
			return 0, syscall.ECONNRESET
		}
		if !c.silent() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return n, err
		}
		if err != nil {
			return 0, c.hang()
		}
	}
}

// delay makes what arrives at one instant arrive later, by the latency, and
// at one instant still. In virtual time the clock stands while the server
// works, so that it shows how many round trips something takes.
func (c *linked) delay() {
	if d := time.Duration(c.link.latency.Load()); d > 0 && !time.Now().Equal(c.arrived) {
		time.Sleep(d)
		c.arrived = time.Now()
	}
}

// hang keeps the end of the other side from being seen.
func (c *linked) hang() error {
	var deadline <-chan time.Time
	if at := c.deadline.Load(); at != 0 {
		deadline = time.After(time.Until(time.Unix(0, at)))
	}
	select {
	case <-c.closed:
		return net.ErrClosed
	case <-deadline:
		return os.ErrDeadlineExceeded
	}
}

func (c *linked) SetReadDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *linked) SetDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *linked) noteDeadline(t time.Time) {
	var at int64
	if !t.IsZero() {
		at = t.UnixNano()
	}
	c.deadline.Store(at)
}

func (c *linked) Write(p []byte) (int, error) {
	if c.silent() {
		return len(p), nil
	}
	if c.link.writes.Add(-1) == 0 {
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(p)
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
