package framework

import "time"

// Watched returns how many nodes and kinds a session's hub knows of.
func (s *Session) Watched() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.entries)
}

// Rewind makes the last answer older by d, as if the process had been stopped
// meanwhile and no timer had run yet.
func (s *Session) Rewind(d time.Duration) { s.confirmed.Add(-int64(d)) }

// StopTimer takes from the session the timer that watches its deadline.
func (s *Session) StopTimer() {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.expiry.Stop()
}

// InFlight returns how many requests await their replies.
func (c *Client) InFlight() int { return len(c.core.slots) }

// Margin is by how much a session's holder stops before the server may.
func Margin(timeout time.Duration) time.Duration { return margin(timeout) }

// DropConnection breaks the present connection from the client's side.
func (s *Session) DropConnection() { s.hangUp() }

// TrimPrefix takes a namespace off a path.
func TrimPrefix(prefix, path string) string { return trimPrefix(prefix, path) }
