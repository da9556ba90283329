// Package faultproxy is a bad network for tests: a TCP proxy between ZooKeeper
// clients and one server that cuts, swallows and delays when told to. It works
// with any client and any server, the real ones included, and where two
// processes are to be parted and not two goroutines.
//
//	p, err := faultproxy.Start(server)
//	defer p.Close()
//	// let the client connect to p.Addr()
//	p.Silence() // from here on nothing gets through, and nobody is told
//
// It reads the stream as frames, so it serves ZooKeeper's protocol alone, and
// not the four-letter words. It does not import testing.
package faultproxy

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// A Request is what [Proxy.DropReply] is shown of the request that a reply is
// for. The first on each connection has the operation
// [wire.OpCreateSession].
type Request struct {
	Xid  int32
	Op   wire.OpCode
	Path string // "" if the operation has none, or several
}

// A Proxy forwards connections to one server. Its methods may be called at any
// time from any goroutine, and but for Close none of them blocks.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	refuse bool
	open   chan struct{} // closed while frames may pass
	silent bool          // open is not closed
	delay  time.Duration
	drops  []*drop
}

// drop is a reply that is to be lost.
type drop struct {
	match func(Request) bool
	done  chan struct{}
}

// Start returns a proxy that listens on a free port of the loopback interface
// and forwards to target, a "host:port". It does not look whether anybody
// listens there. The caller must Close it.
func Start(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target:   target,
		listener: l,
		links:    make(map[*link]struct{}),
		open:     make(chan struct{}),
	}
	close(p.open)
	p.work.Go(p.accept)
	return p, nil
}

// Addr returns the "host:port" that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections, stops listening, and returns when the proxy's
// goroutines have ended. It may be called again.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.Cut()
	p.work.Wait()
	return err
}

// Cut resets the present connections: both sides see an error at once, and
// what is under way is lost. New connections are served; see Refuse.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Refuse makes new connections be reset as soon as they are made, or no
// longer. Present ones are left alone.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Silence makes the network a black hole: connections are accepted and stay
// open, and nothing passes in either direction, neither data nor the end of a
// connection. A frame that is being written when it is called may still
// arrive.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.silent {
		p.silent, p.open = true, make(chan struct{})
	}
}

// Resume ends the silence. What was sent meanwhile arrives now, as TCP would
// have it.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		p.silent = false
		close(p.open)
	}
}

// Delay makes each frame that is sent from now on take d, in either
// direction. Frames do not overtake one another.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// DropReply loses the reply to the next request for which match is true: the
// server has carried it out, and the connection ends where the reply would
// have come, since a stream cannot lose one message and go on. Replies before
// it do arrive. The channel is closed when that has happened. match must not
// block.
func (p *Proxy) DropReply(match func(Request) bool) <-chan struct{} {
	d := &drop{match: match, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, d)
	return d.done
}

// accept serves connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed || p.refuse {
			p.mu.Unlock()
			abort(c)
			continue
		}
		l := newLink(p, c)
		p.links[l] = struct{}{}
		p.work.Go(l.run)
		p.mu.Unlock()
	}
}

// forget takes a link out of the proxy.
func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// due returns when a frame that was read now is to be written.
func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

// pass blocks while the network is silent, and reports false if done is closed.
func (p *Proxy) pass(done <-chan struct{}) bool {
	for {
		p.mu.Lock()
		open, silent := p.open, p.silent
		p.mu.Unlock()
		if !silent {
			return true
		}
		select {
		case <-open:
		case <-done:
			return false
		}
	}
}

// lose returns the order to lose the reply to r, which is then spent, or nil.
func (p *Proxy) lose(r Request) *drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, d := range p.drops {
		if d.match(r) {
			p.drops = append(p.drops[:i:i], p.drops[i+1:]...)
			return d
		}
	}
	return nil
}

// abort closes a connection so that the other side sees a reset.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
