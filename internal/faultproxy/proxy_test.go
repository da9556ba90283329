package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/faultproxy"
	"github.com/batonzk/baton/internal/leak"
	"github.com/batonzk/baton/internal/wire"
)

// moment is for what must not happen: long enough to see it on a loaded
// machine.
const moment = 50 * time.Millisecond

// A server answers each frame with its header's xid, the first with xid 0. It
// hands its connections and the requests it has seen to the test.
type server struct {
	addr  string
	conns chan net.Conn
	seen  chan int32
}

func startServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &server{addr: l.Addr().String(), conns: make(chan net.Conn, 10), seen: make(chan int32, 1000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns <- c
			go s.serve(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return s
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	for n := 0; ; n++ {
		frame, err := readFrame(c)
		if err != nil {
			return
		}
		var h wire.RequestHeader
		if n > 0 {
			_ = wire.NewDecoder(frame).Decode(&h)
		}
		s.seen <- h.Xid
		if _, err := c.Write(wire.AppendFrame(nil, &wire.ReplyHeader{Xid: h.Xid})); err != nil {
			return
		}
	}
}

func readFrame(c net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, length[3]) // they are short here
	_, err := io.ReadFull(c, frame)
	return frame, err
}

func start(t *testing.T) (*faultproxy.Proxy, *server) {
	t.Helper()
	leak.Check(t)
	s := startServer(t)
	p, err := faultproxy.Start(s.addr)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p, s
}

// dial returns a connection through p.
func dial(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// connect is dial with the handshake done.
func connect(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	c := dial(t, p)
	send(t, c, 0)
	wantReply(t, c, 0)
	return c
}

func send(t *testing.T, c net.Conn, xid int32) {
	t.Helper()
	_, err := c.Write(wire.AppendFrame(nil, &wire.RequestHeader{Xid: xid, Op: wire.OpGetData}, &wire.PathRequest{Path: "/a"}))
	must(t, err)
}

func wantReply(t *testing.T, c net.Conn, xid int32) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	frame, err := readFrame(c)
	must(t, err)
	var h wire.ReplyHeader
	must(t, wire.NewDecoder(frame).Decode(&h))
	if h.Xid != xid {
		t.Fatalf("reply to %d, want %d", h.Xid, xid)
	}
}

// wantNothing checks that c neither gets a frame nor ends.
func wantNothing(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(moment)))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v; want nothing to happen", n, err)
	}
}

func wantError(t *testing.T, c net.Conn, want error) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.ReadFull(c, make([]byte, 1)); !errors.Is(err, want) {
		t.Fatalf("the connection ended with %v, want %v", err, want)
	}
}

// wantRefused checks that a new connection is reset, while it is made or after.
func wantRefused(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v, want %v", err, syscall.ECONNRESET)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestForward(t *testing.T) {
	p, s := start(t)
	c := connect(t, p)
	for xid := range int32(100) {
		send(t, c, xid)
	}
	for xid := range int32(100) {
		wantReply(t, c, xid)
	}
	// What the client has sent before it closes still arrives.
	send(t, c, 4711)
	must(t, c.(*net.TCPConn).CloseWrite())
	wantReply(t, c, 4711)
	wantError(t, c, io.EOF)
	for len(s.seen) > 1 {
		<-s.seen
	}
	if last := <-s.seen; last != 4711 {
		t.Errorf("the last request seen is %d", last)
	}
}

func TestServerCloses(t *testing.T) {
	p, s := start(t)
	c := connect(t, p)
	must(t, (<-s.conns).(*net.TCPConn).CloseWrite())
	wantError(t, c, io.EOF)
}

func TestNoServer(t *testing.T) {
	leak.Check(t)
	p, err := faultproxy.Start("127.0.0.1:1")
	must(t, err)
	defer p.Close()
	wantRefused(t, p)
}

func TestCut(t *testing.T) {
	p, s := start(t)
	c := connect(t, p)
	p.Cut()
	wantError(t, c, syscall.ECONNRESET)
	// The server's own reader may have taken the error; a write finds the
	// connection dead in any case.
	far := <-s.conns
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := far.Write([]byte{0}); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server's side was not cut")
		}
	}
	connect(t, p) // the next one is served
}

func TestRefuse(t *testing.T) {
	p, _ := start(t)
	old := connect(t, p)
	p.Refuse(true)
	wantRefused(t, p)
	send(t, old, 1)
	wantReply(t, old, 1)
	p.Refuse(false)
	connect(t, p)
}

func TestSilence(t *testing.T) {
	p, s := start(t)
	asking, leaving := connect(t, p), connect(t, p)
	p.Silence()
	for len(s.seen) > 0 {
		<-s.seen
	}
	send(t, asking, 1)
	must(t, leaving.Close())
	fresh := dial(t, p)
	send(t, fresh, 0)
	wantNothing(t, asking)
	wantNothing(t, fresh)
	if len(s.seen) > 0 {
		t.Error("a request came through")
	}
	if len(s.conns) > 2 {
		t.Error("the server saw a new connection")
	}
	for range 2 {
		wantOpen(t, <-s.conns)
	}

	p.Resume()
	wantReply(t, asking, 1)
	wantReply(t, fresh, 0)
}

// wantOpen checks that the server's side of a connection is not closed, by its
// own reader, which owns the reading side.
func wantOpen(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Errorf("the server's side of a connection: %v", err)
	}
}

func TestSilenceOfReplies(t *testing.T) {
	p, s := start(t)
	c := connect(t, p)
	far := <-s.conns
	p.Silence()
	_, err := far.Write(wire.AppendFrame(nil, &wire.ReplyHeader{Xid: wire.XidNotify}))
	must(t, err)
	wantNothing(t, c)
	p.Resume()
	wantReply(t, c, wire.XidNotify)
}

func TestCloseEndsSilence(t *testing.T) {
	p, _ := start(t)
	c := connect(t, p)
	p.Silence()
	send(t, c, 1)
	fresh := dial(t, p)
	must(t, p.Close())
	wantError(t, c, syscall.ECONNRESET)
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("the proxy still listens")
	}
	fresh.Close()
	must(t, p.Close())
}

func TestDelay(t *testing.T) {
	p, _ := start(t)
	c := connect(t, p)
	p.Delay(moment)
	began := time.Now()
	for xid := range int32(10) {
		send(t, c, xid)
	}
	for xid := range int32(10) {
		wantReply(t, c, xid)
	}
	// Request and reply are delayed once each, and ten at a time.
	if took := time.Since(began); took < 2*moment || took > 10*moment {
		t.Errorf("ten requests took %v with a delay of %v", took, moment)
	}
	p.Delay(0)
	send(t, c, 1)
	wantReply(t, c, 1)
}

func TestDropReply(t *testing.T) {
	p, s := start(t)
	c := connect(t, p)
	<-s.seen
	var shown []faultproxy.Request
	lost := p.DropReply(func(r faultproxy.Request) bool {
		shown = append(shown, r) // read after lost is closed
		return r.Xid == 2
	})
	for xid := range int32(4) {
		send(t, c, xid)
	}
	wantReply(t, c, 0)
	wantReply(t, c, 1)
	wantEnd(t, c)
	<-lost
	for xid := range int32(3) {
		if got := <-s.seen; got != xid {
			t.Errorf("the server has seen request %d, want %d", got, xid)
		}
	}
	if want := (faultproxy.Request{Xid: 2, Op: wire.OpGetData, Path: "/a"}); shown[len(shown)-1] != want {
		t.Errorf("shown %+v, want %+v", shown[len(shown)-1], want)
	}

	c = connect(t, p) // the order is spent
	send(t, c, 2)
	wantReply(t, c, 2)
}

// wantEnd waits for the end of a connection, of whatever kind.
func wantEnd(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v; want the end of the connection", n, err)
	}
}

func TestDropReplyToHandshake(t *testing.T) {
	p, _ := start(t)
	lost := p.DropReply(func(r faultproxy.Request) bool { return r.Op == wire.OpCreateSession })
	c := dial(t, p)
	send(t, c, 0)
	wantEnd(t, c)
	<-lost
	connect(t, p)
}
