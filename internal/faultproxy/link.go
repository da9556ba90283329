package faultproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

const (
	maxFrame    = 64 << 20
	queueLength = 256 // frames that one direction holds before it stops reading
)

// A link is one connection through the proxy. Four goroutines carry it, a
// reader and a writer for each direction; run waits for them.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by close or reset
	once   sync.Once

	mu       sync.Mutex
	server   net.Conn // nil until it is dialled
	requests map[int32]Request
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, done: make(chan struct{}), requests: make(map[int32]Request)}
}

// end closes both sides in the given way, and whatever the link waits for.
func (l *link) end(closeConn func(net.Conn)) {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.done)
		closeConn(l.client)
		if l.server != nil {
			closeConn(l.server)
		}
	})
}

func (l *link) reset() { l.end(abort) }
func (l *link) close() { l.end(func(c net.Conn) { _ = c.Close() }) }

// run serves the link until both directions have ended.
func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.close()
	if !l.proxy.pass(l.done) || l.dial() != nil {
		l.reset()
		return
	}
	var directions sync.WaitGroup
	l.carry(&directions, l.client, l.server, l.note)
	l.carry(&directions, l.server, l.client, l.judge)
	directions.Wait()
}

// dial connects to the server.
func (l *link) dial() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.proxy.target)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done: // cut meanwhile
		abort(c)
		return net.ErrClosed
	default:
	}
	l.server = c
	return nil
}

// An item is a frame on its way, or the end of the stream if frame is nil.
type item struct {
	frame []byte
	due   time.Time
}

// carry starts one direction. see is shown each frame before it is written,
// with its number, and says whether it may be.
func (l *link) carry(wg *sync.WaitGroup, from, to net.Conn, see func(n int, frame []byte) bool) {
	queue := make(chan item, queueLength)
	wg.Go(func() {
		defer close(queue)
		for {
			frame, err := readFrame(from)
			if err != nil && !errors.Is(err, io.EOF) {
				l.afterError()
				return
			}
			select {
			case queue <- item{frame, l.proxy.due()}:
			case <-l.done:
				return
			}
			if err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		n := 0
		for it := range queue {
			if !l.wait(it.due) || !l.proxy.pass(l.done) {
				continue // until the reader has seen the end, too
			}
			if it.frame == nil {
				_ = to.(*net.TCPConn).CloseWrite()
				continue
			}
			if !see(n, it.frame) {
				l.close()
				continue
			}
			if _, err := to.Write(it.frame); err != nil {
				l.reset()
			}
			n++
		}
	})
}

// afterError passes a broken connection on, when the network lets it.
func (l *link) afterError() {
	if l.proxy.pass(l.done) {
		l.reset()
	}
}

// wait returns at the given time, or false once the link has ended.
func (l *link) wait(until time.Time) bool {
	d := time.Until(until)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// note remembers a request, so that its reply can be told.
func (l *link) note(n int, frame []byte) bool {
	r := Request{Op: wire.OpCreateSession}
	if n > 0 {
		r = parseRequest(frame[4:])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[r.Xid] = r
	return true
}

// judge reports whether a reply may pass.
func (l *link) judge(n int, frame []byte) bool {
	var xid int32 // of the handshake
	if n > 0 {
		var h wire.ReplyHeader
		if wire.NewDecoder(frame[4:]).Decode(&h) != nil {
			return true
		}
		xid = h.Xid
	}
	l.mu.Lock()
	r, ok := l.requests[xid]
	delete(l.requests, xid)
	l.mu.Unlock()
	if !ok { // a watch event
		return true
	}
	d := l.proxy.lose(r)
	if d == nil {
		return true
	}
	close(d.done)
	return false
}

func parseRequest(body []byte) Request {
	var h wire.RequestHeader
	d := wire.NewDecoder(body)
	if d.Decode(&h) != nil {
		return Request{}
	}
	r := Request{Xid: h.Xid, Op: h.Op}
	// A path is what most operations begin with.
	var p wire.PathRequest
	if d.Decode(&p) == nil && strings.HasPrefix(p.Path, "/") {
		r.Path = p.Path
	}
	return r
}

// readFrame reads a frame, its length included.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return nil, fmt.Errorf("faultproxy: a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, length[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, fmt.Errorf("faultproxy: within a frame: %v", err) // no clean end, so no io.EOF
	}
	return frame, nil
}
