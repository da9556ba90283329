package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/batonzk/baton/retry"
)

// A driver is one [zk.Conn], which serves one session: it walks the list of
// servers, shakes hands, sends pings and resumes the session after a broken
// connection. Everything else goes past it, see [conn]. This file is the only
// one that names the package.
//
// A zk.Conn whose session has expired goes on with a new one. This one does
// not: it is never told of an expiry, and once its session is over it cannot
// dial.
type driver struct {
	session *Session
	zk      *zk.Conn
	events  <-chan zk.Event // closed when the driver's goroutines have ended

	// The following belong to the driver's manager goroutine.
	round  []net.Addr
	next   net.Addr
	pauses *retry.Schedule
	rounds int   // begun since the start, or since a connection that lasted
	wasUp  bool  // the last try has established a connection
	upAt   int64 // when, see core.now
}

var errSessionOver = errors.New("framework: the session is over")

func startDriver(s *Session) (*driver, error) {
	d := &driver{session: s, pauses: s.core.reconnect.Schedule()}
	s.allow(0)
	zkConn, events, err := zk.Connect([]string{"ensemble"}, s.core.sessionTimeout,
		zk.WithDialer(d.dial),
		zk.WithHostProvider(d),
		zk.WithLogger(driverLog{s.core.logger}),
		zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(4096), // it sends nothing but the connect request, pings and farewell
		zk.WithMaxBufferSize(4096),     // and gets the answers to these
	)
	if err != nil {
		return nil, err
	}
	d.zk, d.events = zkConn, events
	return d, nil
}

// stop ends the driver, in the background unless the client is closing. If
// the session is still open on the server and connected, it is closed there,
// which removes its ephemeral nodes at once.
func (d *driver) stop() {
	if !d.session.core.spawn(d.end) {
		d.end()
	}
}

func (d *driver) end() {
	d.zk.Close() // waits for the server's answer, for a second
	d.session.hangUp()
	for range d.events { // of which nothing is to be learned but their end
	}
}

// Init, Len, Next and Connected make a driver its own [zk.HostProvider].
func (d *driver) Init([]string) error { return nil }

// Len is never 1, which the driver would treat specially.
func (d *driver) Len() int { return 2 }

// Next picks the server to try, after a pause if all have been tried. With
// its second result it sends the driver to look whether it should quit.
func (d *driver) Next() (string, bool) {
	s := d.session
	if d.wasUp && s.core.now()-d.upAt > int64(s.patience()) { // not after a connection that fell at once
		d.round, d.rounds = nil, 0 // the addresses may be old
		d.pauses.Reset()
	}
	d.wasUp = false
	for len(d.round) == 0 {
		if s.ctx.Err() != nil {
			return "", true
		}
		if err := d.newRound(); err != nil && s.ctx.Err() == nil {
			s.core.connectionStep(ConnectionInfo{Err: fmt.Errorf("no server to try: %w", err)})
		}
	}
	if s.ctx.Err() != nil {
		return "", true
	}
	d.next = d.round[0]
	d.round = d.round[1:]
	return d.next.String(), false
}

func (d *driver) newRound() error {
	s := d.session
	k := s.core
	if d.rounds++; d.rounds > 1 {
		wait := min(nextPause(d.pauses), s.longestPause())
		s.allow(wait)
		sleep(s.ctx, wait)
	}
	s.allow(k.connectionTimeout)
	ctx, cancel := context.WithTimeout(s.ctx, k.connectionTimeout)
	defer cancel()
	var err error
	d.round, err = k.ensemble.Servers(ctx)
	if err == nil && len(d.round) == 0 {
		err = errors.New("the ensemble has no server")
	}
	return err
}

// Connected is called after each handshake.
func (d *driver) Connected() { d.wasUp, d.upAt = true, d.session.core.now() }

// dial opens a connection to the server that Next has picked.
func (d *driver) dial(string, string, time.Duration) (net.Conn, error) {
	s := d.session
	k := s.core
	if s.ctx.Err() != nil {
		return nil, errSessionOver
	}
	timeout := min(k.dialTimeout, s.patience())
	s.allow(timeout)
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	raw, err := k.dialServer(ctx, d.next)
	if err != nil {
		k.connectionStep(ConnectionInfo{Address: d.next.String(), Err: err})
		return nil, err
	}
	c := newConn(s, raw, d.next.String())
	if err := s.greet(c); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if !k.spawn(c.writeLoop) {
		_ = raw.Close()
		return nil, ErrClosed
	}
	s.allow(s.patience())
	return c, nil
}

func (k *core) dialServer(ctx context.Context, addr net.Addr) (net.Conn, error) {
	dial := k.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
		if own, ok := k.ensemble.(interface {
			DialContext(ctx context.Context, network, address string) (net.Conn, error)
		}); ok {
			dial = own.DialContext
		}
	}
	raw, err := dial(ctx, addr.Network(), addr.String())
	if err == nil && raw == nil {
		err = errors.New("the dialer returned neither a connection nor an error")
	}
	if err != nil || k.tls == nil {
		return raw, err
	}
	cfg := k.tls
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = serverName(addr)
	}
	encrypted := tls.Client(raw, cfg)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return encrypted, nil
}

func serverName(addr net.Addr) string {
	if named, ok := addr.(interface{ ServerName() string }); ok {
		return named.ServerName()
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}

// driverLog passes on what the driver says; Baton reports by itself whatever
// of it matters.
type driverLog struct{ l *slog.Logger }

func (d driverLog) Printf(format string, args ...any) {
	d.l.Debug("driver: " + fmt.Sprintf(format, args...))
}
