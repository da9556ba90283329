package embedded

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A due keeps what [Server.background] waits for: the server's own work that
// falls due at a time on its clock.
type due struct {
	wake chan struct{}
	mu   sync.Mutex
	next time.Duration // when background will look next
}

// never is later than anything.
const never = time.Duration(1<<63 - 1)

// alarm makes the background look no later than at t.
func (d *due) alarm(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t < d.next {
		d.next = t
		d.kick()
	}
}

// kick makes the background look how long it has to wait.
func (d *due) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *due) set(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = t
}

func (d *due) get() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// background expires sessions, reaps nodes and sheds load until the server closes. It
// ends with s.closing, and s.wg waits for it.
func (s *Server) background() {
	defer s.wg.Done()
	timer := time.NewTimer(s.due.get() - s.clock.elapsed())
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.backlog.crowded:
			s.shed()
		case <-s.due.wake:
		case <-timer.C:
		}
		if s.clock.elapsed() >= s.due.get() {
			s.runDue()
		}
		timer.Reset(s.due.get() - s.clock.elapsed())
	}
}

// runDue does all that is due by now: sessions expire, and once in a
// container interval nodes are reaped.
func (s *Server) runDue() {
	s.mu.Lock()
	if s.frozen.Load() {
		s.due.set(never)
		s.mu.Unlock()
		return
	}
	now := s.clock.elapsed()
	over, conns := s.expire(now)
	if now >= s.nextReap {
		s.reap()
		s.nextReap = now + s.cfg.containerInterval
	}
	next := s.nextReap
	for _, ses := range s.sessions {
		next = min(next, time.Duration(ses.deadline.Load()))
	}
	s.due.set(next)
	s.mu.Unlock()
	for _, ses := range over {
		s.cfg.logger.Info("session expired", "session", hex(ses.id))
	}
	s.closeExpired(conns)
}

// shed closes the connections for which most is waiting until no more waits in
// all than may.
func (s *Server) shed() {
	conns := s.connections(nil)
	waiting := make(map[*conn]int, len(conns))
	for _, c := range conns {
		waiting[c] = c.out.waiting()
	}
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(waiting[b], waiting[a]) })
	for _, c := range conns {
		if !s.backlog.over() {
			return
		}
		c.close("too much waits for clients that do not read")
	}
}

// closeExpired closes the connections of sessions that are gone. Those that
// are silenced stay open: their client shall not notice.
func (s *Server) closeExpired(conns []*conn) {
	for _, c := range conns {
		if !s.gate.silent(c) {
			c.close("session expired")
		}
	}
}

// reap deletes containers that have lost their last child and TTL nodes that
// are overdue, each as a transaction, in the order of their paths. What becomes
// empty by that is left for the next time. Caller holds s.mu exclusively.
func (s *Server) reap() {
	now := s.clock.millis()
	var over []string
	for path, n := range s.tree.reap {
		used := n.kind == container && n.cversion > 0
		overdue := n.kind == timed && now-n.mtime > n.owner
		if n.childCount == 0 && (used || overdue) {
			over = append(over, path)
		}
	}
	slices.Sort(over)
	for _, path := range over {
		s.zxid++
		s.applyDelete(path, s.zxid)
	}
}
