package embedded

import (
	"fmt"
	"strconv"
	"time"
)

// ExpireSession ends a session now, as if its client had been silent for the
// timeout: its ephemeral nodes are deleted, its connection is closed without
// a word, and resuming it fails. The error says that there is no such session.
func (s *Server) ExpireSession(id int64) error {
	s.mu.Lock()
	ses := s.sessions[id]
	if ses == nil {
		s.mu.Unlock()
		return fmt.Errorf("embedded: no session %s", hex(id))
	}
	conns := s.kill(ses, nil)
	s.mu.Unlock()
	s.closeExpired(conns)
	return nil
}

// DropConnections closes the connections of the given sessions, all
// connections if none is given. The sessions live on until they expire.
func (s *Server) DropConnections(ids ...int64) {
	for _, c := range s.connections(ids) {
		c.close("dropped by a test")
	}
}

// Refuse makes new connections fail, or no longer: DialContext with
// ECONNREFUSED, over TCP by closing what was accepted. Connections that exist
// are left alone.
func (s *Server) Refuse(on bool) { s.refused.Store(on) }

// Silence makes the server fall silent towards the given sessions, as if the
// network swallowed all packets: their requests are not carried out, nothing
// is sent to them, and their connections stay open even when they expire.
// Later connections that resume them are silent too. Without ids that holds
// for all connections, and new ones are accepted and never answered. What is
// being carried out when Silence is called may still be answered.
func (s *Server) Silence(ids ...int64) { s.gate.silence(ids) }

// Unsilence ends all silence. Requests that have arrived meanwhile are carried
// out, and connections whose session has expired are closed.
func (s *Server) Unsilence() {
	s.gate.open()
	s.closeOrphans()
}

// closeOrphans closes the connections whose session has expired while they were
// held up, unless they still are.
func (s *Server) closeOrphans() {
	for _, c := range s.connections(nil) {
		if !s.gate.silent(c) && s.orphaned(c) {
			c.close("session expired")
		}
	}
}

// orphaned reports whether c had a session and has it no longer.
func (s *Server) orphaned(c *conn) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return c.session != nil && c.ended()
}

// Advance moves the server's clock forward by d and does what falls due:
// sessions expire that the clients had no time to keep alive, connected ones
// too, and if a container interval has passed, nodes are reaped. It panics if
// d is negative.
func (s *Server) Advance(d time.Duration) {
	if d < 0 {
		panic("embedded: Advance by " + d.String())
	}
	s.clock.ahead.Add(int64(d))
	s.runDue()
	s.due.kick()
}

// ReapContainers deletes the containers that have lost their last child and
// the TTL nodes that are overdue, now, as the server itself does once in a
// container interval.
func (s *Server) ReapContainers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
}

// SetSequence sets the number that the next sequential node below parent gets,
// a signed 32-bit number that each creation below parent moves on. After the
// largest the counter sticks, or wraps: see [WithWrappingSequence]. The error
// says that there is no such node.
func (s *Server) SetSequence(parent string, next int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.get(parent)
	if n == nil {
		return fmt.Errorf("embedded: no node %s", strconv.Quote(parent))
	}
	n.cversion = next
	return nil
}

// hex returns an id as ZooKeeper's tools and logs show it.
func hex(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }
