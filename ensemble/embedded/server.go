package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrClosed is returned by what is asked of a closed server.
var ErrClosed = errors.New("embedded: server closed")

// A Server is a ZooKeeper server in this process. Its methods may be called
// from any goroutine at any time. None blocks for longer than it takes to
// change memory, except where the comment says otherwise.
//
// A Server has what package framework asks of an ensemble: Servers, Chroot
// and DialContext.
type Server struct {
	cfg     config
	clock   *clock
	gate    *gate
	hooks   hooks
	due     due
	backlog *backlog
	refused atomic.Bool
	frozen  atomic.Bool

	traffic   traffic
	connected atomic.Int64 // connections so far

	closing chan struct{}
	wg      sync.WaitGroup // every goroutine of the server

	// net guards what Close has to close. It is never held together with mu.
	net       sync.Mutex
	closed    bool
	conns     map[*conn]struct{}
	listeners map[*net.Listener]struct{} // by address: a value may not be comparable

	// mu guards what the server knows. Frames are queued with it held, so that
	// each client sees replies and events in the order of the transactions.
	mu           sync.RWMutex
	tree         *tree
	zxid         int64 // the last transaction
	sessions     map[int64]*session
	nextSession  int64
	dataWatches  watchTable
	childWatches watchTable
	nextReap     time.Duration // on the server's clock
}

// Start returns a running server that holds an empty tree. It is reachable by
// [Server.DialContext] at once, and over TCP after [Server.Listen]. The caller
// owns it and must Close it. An error names the option that makes no sense.
func Start(opts ...Option) (*Server, error) {
	cfg := defaults()
	for _, opt := range opts {
		opt(&cfg)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:          cfg,
		clock:        newClock(),
		gate:         newGate(),
		backlog:      newBacklog(cfg.maxQueue.total),
		closing:      make(chan struct{}),
		conns:        make(map[*conn]struct{}),
		listeners:    make(map[*net.Listener]struct{}),
		tree:         newTree(),
		sessions:     make(map[int64]*session),
		nextSession:  firstSessionID(),
		dataWatches:  newWatchTable(cfg.maxWatches),
		childWatches: newWatchTable(cfg.maxWatches),
		nextReap:     cfg.containerInterval,
	}
	s.due.wake = make(chan struct{}, 1)
	s.due.set(s.nextReap)
	s.wg.Add(1)
	go s.background()
	return s, nil
}

// Close ends the server: listeners and connections are closed, and all its
// goroutines have ended when it returns. Hooks that hold a request must let go
// first. Later calls wait likewise and return nil too.
func (s *Server) Close() error {
	s.net.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	for l := range s.listeners {
		(*l).Close()
	}
	for c := range s.conns {
		c.close("server closed")
	}
	s.net.Unlock()
	s.wg.Wait()
	return nil
}

// Servers returns the one address of the server: network "pipe", to be dialled
// by [Server.DialContext]. It fails if ctx is done.
func (s *Server) Servers(ctx context.Context) ([]net.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return []net.Addr{pipeAddr{}}, nil
}

// Chroot returns "": the whole tree is the client's.
func (s *Server) Chroot() string { return "" }

// DialContext connects to the server through memory. The connection is
// buffered, its deadlines work, and blocking in it is durable in the sense of
// testing/synctest. Network and address do not matter. It fails if ctx is
// done, with [ErrClosed] if the server is closed, and with ECONNREFUSED while
// connections are refused.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.refused.Load() {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr{}, Err: syscall.ECONNREFUSED}
	}
	client, server := newPipe()
	if err := s.accept(server); err != nil {
		return nil, err
	}
	return client, nil
}

// Listen makes the server reachable over TCP at addr, "127.0.0.1:0" for any
// free port of the loopback interface, and returns the address that it got.
func (s *Server) Listen(addr string) (net.Addr, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	if err := s.own(&l); err != nil {
		return nil, err
	}
	go func() {
		defer s.wg.Done()
		if err := s.acceptAll(&l); !errors.Is(err, ErrClosed) {
			s.cfg.logger.Error("no more connections are accepted", "address", l.Addr(), "error", err)
		}
	}()
	return l.Addr(), nil
}

// Serve accepts connections from l until the server or l is closed. It closes
// l. It blocks meanwhile; the error is [ErrClosed] if the server was closed.
func (s *Server) Serve(l net.Listener) error {
	if err := s.own(&l); err != nil {
		return err
	}
	defer s.wg.Done()
	return s.acceptAll(&l)
}

// Serve starts a server and has it serve l, for a process that is nothing else,
// such as the one that tests in another language talk to. It blocks until l is
// closed, and returns why; then nothing is left of the server. An error names
// the option that makes no sense.
func Serve(l net.Listener, opts ...Option) error {
	s, err := Start(opts...)
	if err != nil {
		l.Close()
		return err
	}
	defer s.Close()
	return s.Serve(l)
}

// own takes l over and counts the goroutine that will accept from it.
func (s *Server) own(l *net.Listener) error {
	s.net.Lock()
	defer s.net.Unlock()
	if s.closed {
		(*l).Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.wg.Add(1)
	return nil
}

func (s *Server) acceptAll(l *net.Listener) error {
	defer func() {
		(*l).Close()
		s.net.Lock()
		delete(s.listeners, l)
		s.net.Unlock()
	}()
	for {
		nc, err := (*l).Accept()
		switch {
		case err != nil && s.isClosed():
			return ErrClosed
		case passing(err):
			s.cfg.logger.Warn("no connection is accepted for a while", "address", (*l).Addr(), "error", err)
			s.pause(acceptPause)
		case err != nil:
			return err
		case s.refused.Load():
			nc.Close()
		default:
			_ = s.accept(nc) // if closed, so is l
		}
	}
}

// acceptPause is how long the server waits for what it lacks to accept a
// connection.
const acceptPause = 100 * time.Millisecond

// passing reports whether accepting a connection may succeed later: the peer
// has gone, or there are too many open files, which clients can bring about.
func passing(err error) bool {
	for _, e := range []error{
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits for d, or until the server closes.
func (s *Server) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
	}
}

func (s *Server) isClosed() bool {
	s.net.Lock()
	defer s.net.Unlock()
	return s.closed
}

// accept serves nc in goroutines of its own.
func (s *Server) accept(nc net.Conn) error {
	c := newConn(s, nc)
	s.net.Lock()
	defer s.net.Unlock()
	if s.closed {
		nc.Close()
		return ErrClosed
	}
	if len(s.conns) >= s.cfg.maxConnections {
		nc.Close()
		s.cfg.logger.Warn("connection refused", "address", nc.RemoteAddr(), "reason", "too many connections")
		return nil
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	go c.run()
	return nil
}

// forget takes an ended connection off the books.
func (s *Server) forget(c *conn) {
	s.net.Lock()
	defer s.net.Unlock()
	delete(s.conns, c)
}

// connections returns those of the given sessions, or all.
func (s *Server) connections(ids []int64) []*conn {
	s.net.Lock()
	defer s.net.Unlock()
	var conns []*conn
	for c := range s.conns {
		if len(ids) == 0 || slices.Contains(ids, c.sid.Load()) {
			conns = append(conns, c)
		}
	}
	return conns
}
