package embedded

import (
	"slices"
	"time"
)

// Freeze makes the whole server stand still, like a process that was stopped:
// connections stay open and new ones are accepted, nothing is answered, and no
// session expires. The clock goes on. It ends with [Server.Unfreeze].
func (s *Server) Freeze() {
	s.frozen.Store(true)
	s.gate.freeze(true)
}

// Unfreeze lets the server go on. Sessions whose time has passed meanwhile
// expire first; then what was sent meanwhile is carried out. What was silenced
// stays so.
func (s *Server) Unfreeze() {
	if s.frozen.Swap(false) {
		s.runDue()
		s.gate.freeze(false)
		s.closeOrphans()
		s.due.kick()
	}
}

// Delay makes each request of the given sessions, or of all, take longer by d:
// it is carried out so much later, and those behind it wait. It ends when stop
// is called; what is delayed then stays so.
func (s *Server) Delay(d time.Duration, ids ...int64) (stop func()) {
	return s.OnRequest(func(r Request) Verdict {
		if len(ids) > 0 && !slices.Contains(ids, r.Session) {
			return Pass
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Done:
		}
		return Pass
	})
}
