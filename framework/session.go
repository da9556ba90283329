package framework

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// A Session is one session with the ensemble: what ephemeral nodes, and so
// all that is held, live and die with. A client has at most one at a time and
// gets a new one after the old is lost. Its methods are safe for concurrent
// use and do not block.
type Session struct {
	core *core
	hub  *hub

	ctx    context.Context
	cancel context.CancelCauseFunc

	confirmed atomic.Int64 // when the last request that was answered was sent, see core.now
	zxid      atomic.Int64 // the highest transaction that the session saw
	stuckAt   atomic.Int64 // when the driver must have made its next step, see core.now

	timeout atomic.Int64 // what the server granted last, 0 before that

	writable bool // was connected to a server with a quorum; only the receive path uses it

	id int64 // set once, before anybody outside learns of the session

	// The following are guarded by core.mu.
	established bool
	over        bool
	greeting    *conn // in its handshake
	conn        *conn
	connCtx     context.Context // ends with conn
	connCancel  context.CancelCauseFunc
	expiry      *time.Timer
}

func newSession(c *core) *Session {
	s := &Session{core: c, connCtx: disconnected}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.hub = newHub(s)
	return s
}

// disconnected is the connection context of a session without a connection.
var disconnected = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrConnectionLoss)
	return ctx
}()

// ID returns the session's number, the EphemeralOwner of its nodes.
func (s *Session) ID() int64 { return s.id }

// Timeout returns the session timeout that the server granted.
func (s *Session) Timeout() time.Duration { return time.Duration(s.timeout.Load()) }

// patience bounds each step that needs no more than one answer of a server: so
// several servers can be tried before a session is lost.
func (s *Session) patience() time.Duration {
	if granted := s.Timeout(); granted > 0 {
		return granted / 3
	}
	return s.core.sessionTimeout / 3
}

// longestPause bounds a pause between attempts to connect: while there is a
// session to be saved, by a third of the time that is left for it.
func (s *Session) longestPause() time.Duration {
	s.core.mu.Lock()
	established := s.established
	s.core.mu.Unlock()
	if !established {
		return time.Duration(math.MaxInt64)
	}
	return max(s.timeUntilDeadline()/3, s.Timeout()/50)
}

// Deadline returns when the session counts as lost unless a server answers
// before: the timeout after the last answered request was sent, less a
// margin. The server counts from when that request arrived, which was later,
// so that it cannot have given up the session before the deadline.
func (s *Session) Deadline() time.Time {
	return s.core.epoch.Add(time.Duration(s.deadline()))
}

func (s *Session) deadline() int64 {
	timeout := s.Timeout()
	return s.confirmed.Load() + int64(timeout-margin(timeout))
}

// margin is by how much a session's holder stops before the server may.
func margin(timeout time.Duration) time.Duration {
	return min(timeout/20, time.Second)
}

// Err returns nil while the session lives, also while it is suspended, and
// then an error that wraps [ErrSessionLost] or [ErrClosed]. It compares the
// deadline with the clock: in a process that was stopped for longer than the
// session timeout, the first call after it finds, and declares, the session
// lost, whether or not a timer had the time to fire.
func (s *Session) Err() error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	if s.core.now() < s.deadline() {
		return nil
	}
	s.endAtDeadline()
	return context.Cause(s.ctx)
}

// Context returns a context that ends with the session. Its cause is then
// what [Session.Err] returns.
func (s *Session) Context() context.Context { return s.ctx }

// Connected reports whether the session has a connection. When it has none
// and still lives, whether it will survive is not known.
func (s *Session) Connected() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.conn != nil
}

// ConnectionContext returns a context that ends with the present connection,
// or with the session. If there is no connection it has ended already.
func (s *Session) ConnectionContext() context.Context {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.connCtx
}

// confirm says that a request sent at the given time was answered.
func (s *Session) confirm(sent int64) {
	for {
		old := s.confirmed.Load()
		if sent <= old || s.confirmed.CompareAndSwap(old, sent) {
			return
		}
	}
}

func (s *Session) sawZxid(zxid int64) {
	if zxid > s.zxid.Load() { // only the receive path writes it
		s.zxid.Store(zxid)
	}
}

// attach is called in the receive path of a connection whose handshake is
// done.
func (s *Session) attach(c *conn, hello *wire.ConnectResponse, readOnly bool, sent int64) error {
	k := s.core
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closing:
		return ErrClosed
	case s.over:
		return context.Cause(s.ctx)
	case s.established && hello.SessionID != s.id:
		return fmt.Errorf("the server resumes session %#x, asked for %#x", hello.SessionID, s.id)
	}
	s.detachLocked(errConnClosed) // the end of the last one may still be on its way
	s.greeting, s.conn = nil, c
	s.connCtx, s.connCancel = context.WithCancelCause(s.ctx)
	// A server without a quorum cannot keep alive what the quorum may expire.
	c.vouches = !readOnly || !s.writable
	s.writable = s.writable || !readOnly
	c.confirm(sent) // first: with a smaller timeout the old deadline may have passed
	timeout := time.Duration(hello.TimeoutMillis) * time.Millisecond
	if !c.vouches {
		timeout = min(timeout, s.Timeout())
	}
	s.timeout.Store(int64(timeout))
	resumed := s.established
	if !resumed {
		s.established = true
		s.id = hello.SessionID
		s.expiry = time.AfterFunc(s.timeUntilDeadline(), s.checkDeadline)
	}
	s.expiry.Reset(s.timeUntilDeadline()) // another server may grant another timeout
	k.sessionUp(s, readOnly)
	if resumed {
		k.goLocked(func() { s.hub.rearm(c) })
	}
	return nil
}

// detach is called when a connection has failed, be it in its handshake.
func (s *Session) detach(c *conn, err error) {
	k := s.core
	k.mu.Lock()
	defer k.mu.Unlock()
	switch c {
	case s.conn:
		s.detachLocked(err)
	case s.greeting:
		s.greeting = nil
		k.connectionStepLocked(ConnectionInfo{Address: c.address, Err: err})
	}
}

func (s *Session) detachLocked(err error) {
	if s.conn == nil {
		return
	}
	k := s.core
	k.connectionStepLocked(ConnectionInfo{Address: s.conn.address, Session: s.id, Err: err})
	s.conn = nil
	s.connCancel(connectionLoss(err))
	s.connCtx = disconnected
	if !s.over {
		k.publish(StateChange{State: Suspended, Session: s.id, Err: err})
	}
}

// checkDeadline is run by a timer that is set to the deadline as it stood
// when it was set; the deadline moves on with each answer.
func (s *Session) checkDeadline() {
	if s.core.now() >= s.deadline() {
		s.endAtDeadline()
		return
	}
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if !s.over {
		s.expiry.Reset(s.timeUntilDeadline())
	}
}

func (s *Session) timeUntilDeadline() time.Duration {
	return time.Duration(s.deadline() - s.core.now())
}

func (s *Session) endAtDeadline() {
	s.end(fmt.Errorf("%w: no server has answered anything sent in the last %v of its timeout of %v",
		ErrSessionLost, time.Duration(s.core.now()-s.confirmed.Load()).Round(time.Millisecond), s.Timeout()))
}

// end declares the session over, for the first cause it is given. When it
// returns, the session's context has ended and nothing more can be sent in
// the session.
func (s *Session) end(cause error) {
	k := s.core
	k.mu.Lock()
	if s.over {
		k.mu.Unlock()
		return
	}
	s.over = true
	s.cancel(cause)
	if s.expiry != nil {
		s.expiry.Stop()
	}
	c, greeting, closing := s.conn, s.greeting, errors.Is(cause, ErrClosed)
	if s.established && !closing {
		k.publish(StateChange{State: Lost, Session: s.id, Err: cause})
	}
	k.mu.Unlock()

	s.hub.end(cause)
	if greeting != nil {
		greeting.fail(cause)
	}
	switch {
	case c == nil:
	case closing: // the driver has a farewell to send
		c.refuse(cause)
	default:
		c.fail(cause)
	}
}

// greet says that c is about to shake hands. It fails once the session is over.
func (s *Session) greet(c *conn) error {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.over {
		return errSessionOver
	}
	s.greeting = c
	return nil
}

// hangUp ends the connection of a session that is over.
func (s *Session) hangUp() {
	s.core.mu.Lock()
	c := s.conn
	s.core.mu.Unlock()
	if c != nil {
		c.fail(errConnClosed)
	}
}
