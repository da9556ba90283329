package embedded

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// A session is a client's, across its connections. All but the atomics is
// guarded by the lock of the server.
type session struct {
	id         int64
	password   []byte
	timeout    time.Duration
	conn       *conn            // the present one; nil while there is none
	owner      bool             // it has, or had, ephemeral nodes
	ephemerals map[string]*node // by path
	set        hashSet          // of their paths
	deadline   atomic.Int64     // when it expires: a time.Duration on the server's clock

	lag atomic.Pointer[lag] // nil unless it lags; what it points to is guarded like the rest
}

const passwordLen = 16

// firstSessionID makes ids that look like a real server's: one byte of server
// number, 40 bits that differ with each start, 16 bits that count up.
func firstSessionID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return 1<<56 | int64(binary.BigEndian.Uint64(b[:])&0xff_ffff_ffff)<<16
}

// The limits of a session's timeout, in ticks.
const (
	minTicks = 2
	maxTicks = 20
)

// negotiate brings a timeout that a client asks for into the allowed range.
func (s *Server) negotiate(millis int32) time.Duration {
	d := time.Duration(millis) * time.Millisecond
	return min(max(d, minTicks*s.cfg.tick), maxTicks*s.cfg.tick)
}

// newSession starts a session. Caller holds s.mu exclusively.
func (s *Server) newSession(timeout time.Duration) *session {
	ses := &session{
		id: s.nextSession, password: make([]byte, passwordLen), timeout: timeout,
		ephemerals: make(map[string]*node), set: hashSet{16},
	}
	_, _ = rand.Read(ses.password) // never fails
	s.nextSession++
	s.sessions[ses.id] = ses
	s.zxid++
	s.touch(ses)
	s.due.alarm(time.Duration(ses.deadline.Load()))
	return ses
}

// resume returns the session id if it lives and the password is right.
// Caller holds s.mu exclusively.
func (s *Server) resume(id int64, password []byte, timeout time.Duration) *session {
	ses := s.sessions[id]
	if ses == nil || subtle.ConstantTimeCompare(ses.password, password) == 0 {
		return nil
	}
	ses.timeout = timeout
	s.touch(ses)
	s.due.alarm(time.Duration(ses.deadline.Load()))
	return ses
}

// touch gives the session its whole timeout again. As in ZooKeeper the end is
// moved up to the next tick. Caller holds s.mu, in either mode.
func (s *Server) touch(ses *session) {
	tick := s.cfg.tick
	deadline := ((s.clock.elapsed()+ses.timeout)/tick + 1) * tick
	ses.deadline.Store(int64(deadline))
}

// endSession ends a session as one transaction, in which its ephemeral nodes
// are deleted. Caller holds s.mu exclusively and closes the session's
// connection afterwards.
func (s *Server) endSession(ses *session) {
	s.zxid++
	for _, path := range ses.listed() {
		s.applyDelete(path, s.zxid)
	}
	delete(s.sessions, ses.id)
}

// expire ends the sessions whose time is over. It returns them and their
// connections, for the caller to close. Caller holds s.mu exclusively.
func (s *Server) expire(now time.Duration) (over []*session, conns []*conn) {
	for _, ses := range s.sessions {
		if time.Duration(ses.deadline.Load()) <= now {
			over = append(over, ses)
		}
	}
	slices.SortFunc(over, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.deadline.Load(), b.deadline.Load()), cmp.Compare(a.id, b.id))
	})
	for _, ses := range over {
		conns = s.kill(ses, conns)
	}
	return over, conns
}

// kill ends ses, detaches its connection, and appends that to conns. Caller
// holds s.mu exclusively.
//
// The client's own watches on its ephemeral nodes do not fire. A real server
// sends these events and closes the connection at the same time; mostly they
// do not get through.
func (s *Server) kill(ses *session, conns []*conn) []*conn {
	if c := ses.conn; c != nil {
		s.detach(c)
		conns = append(conns, c)
	}
	s.endSession(ses)
	return conns
}

// detach takes c's session away, and watches. It reports whether none is left: a
// connection can have very many, and its own goroutine takes the rest away
// when it ends. Caller holds s.mu exclusively.
func (s *Server) detach(c *conn) (done bool) {
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
		if l := c.session.lag.Load(); l != nil {
			l.held, l.size = nil, 0 // as the watches
		}
	}
	data, children := s.dataWatches.drop(c), s.childWatches.drop(c)
	return data && children
}

// errAhead closes the connection of a client that has seen what this server
// has not.
var errAhead = errors.New("client has seen a later transaction than the server's last")

// errSessions closes the connection of a client that wants one session more
// than there may be.
var errSessions = errors.New("too many sessions")

// connect answers a connect request on c: it makes a session or resumes one.
// It reports whether c now has a session.
func (s *Server) connect(c *conn, r *wire.ConnectRequest) (bool, error) {
	start := s.clock.elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.LastZxidSeen > s.zxid {
		return false, errAhead
	}
	timeout := s.negotiate(r.TimeoutMillis)
	var ses *session
	if r.SessionID == 0 {
		if len(s.sessions) >= s.cfg.maxSessions {
			return false, errSessions
		}
		ses = s.newSession(timeout)
	} else {
		// ZooKeeper closes the old connection before it looks at the password.
		if there := s.sessions[r.SessionID]; there != nil && there.conn != nil {
			old := there.conn
			s.detach(old)
			old.close("session moved to another connection")
		}
		ses = s.resume(r.SessionID, r.Password, timeout)
	}
	reply := &wire.ConnectResponse{Password: make([]byte, passwordLen), HasReadOnly: r.HasReadOnly}
	if ses != nil {
		ses.conn, c.session = c, ses
		c.sid.Store(ses.id)
		reply.SessionID, reply.Password = ses.id, ses.password
		reply.TimeoutMillis = int32(timeout / time.Millisecond)
	}
	c.send(wire.AppendFrame(nil, reply))
	if r.SessionID == 0 {
		c.answered(&wire.RequestHeader{Op: wire.OpCreateSession}, s.zxid, start)
	}
	return ses != nil, nil
}
