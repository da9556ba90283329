//go:build linux

package interop_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/batonzk/baton/framework"
)

var semaphoreMutexes = &family{name: "semaphore mutex", verb: "semaphoremutex", label: "lease-", waiters: "/locks"}

// semaphores is the family with a limit: a number, or a shared count's path.
func semaphores(limit string) *family {
	return &family{name: "semaphore", verb: "semaphore", args: []string{limit}, label: "lease-", waiters: "/locks"}
}

// leases returns how many nodes there are for permits.
func (w *world) leases(t *testing.T, u *user) int {
	t.Helper()
	return len(w.children(t, u.root+"/leases"))
}

// permits: what one side has taken is missing to the other, and comes back by a
// release.
func (s *sides) permits(t *testing.T) {
	s.eachWay(t, func(t *testing.T, one, other *session) {
		f := semaphores("3")
		a, b, c := one.user(t, f, "a", root(t)), other.user(t, f, "b", root(t)), one.user(t, f, "c", root(t))
		first := granted(t, a.attemptMany(forever, 2))
		if len(first.nodes) != 2 || s.leases(t, a) != 2 {
			t.Errorf("two permits are %q, and %d nodes", first.nodes, s.leases(t, a))
		}
		second := b.acquire(t)
		if second.token <= first.token {
			t.Errorf("token %#x after %#x", second.token, first.token)
		}
		fails(t, c.attempt(try), "held")
		waiting := c.attempt(forever)
		s.waitWaiting(t, c, 1)
		released := b.release(t)
		if g := granted(t, waiting); g.at < released {
			t.Errorf("granted %v before a permit came back", released-g.at)
		}
		fails(t, b.attempt(briefly), "timeout")
		a.release(t)
		granted(t, b.attemptMany(forever, 2))
		b.release(t)
		c.release(t)
		s.waitEmpty(t, a.root)
	})
}

// allOrNone: Baton takes no permit before it can have all that it wants, and
// nobody behind it takes one first.
func (s *sides) allOrNone(t *testing.T) {
	f := semaphores("3")
	a, b := s.java.user(t, f, "a", root(t)), s.java.user(t, f, "b", root(t))
	many, behind := s.golang.user(t, f, "many", root(t)), s.java.user(t, f, "behind", root(t))
	a.acquire(t)
	b.acquire(t)
	waiting := many.attemptMany(forever, 3)
	s.waitWaiting(t, many, 1)
	next := behind.attempt(forever)
	s.waitWaiting(t, many, 2)
	a.release(t)
	select {
	case <-waiting.Done():
		t.Error("three permits were given, of which one was out")
	case <-next.Done():
		t.Error("a contender was overtaken who wants more")
	default:
	}
	b.release(t)
	if g := granted(t, waiting); len(g.nodes) != 3 {
		t.Errorf("three permits are %q", g.nodes)
	}
	many.release(t)
	granted(t, next)
	behind.release(t)
	s.waitEmpty(t, many.root)
}

// holdAndWait: Curator 5.4 takes permits one by one, and keeps those it has
// while it waits behind others for the rest. If one of these wants more than
// are left, neither goes on. It is a known limit: this test says when it goes.
func (s *sides) holdAndWait(t *testing.T) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		f := semaphores("2")
		holds := holder.user(t, f, "holds", root(t))
		curator, behind := s.java.user(t, f, "curator", root(t)), next.user(t, f, "behind", root(t))
		granted(t, holds.attemptMany(forever, 2))
		stuck := curator.attemptMany(lasting/10, 2)
		s.waitWaiting(t, curator, 1)
		waiting := behind.attemptMany(forever, 2)
		s.waitWaiting(t, curator, 2)
		holds.release(t)
		// Nobody has a permit now but these two.
		fails(t, stuck, "timeout")
		granted(t, waiting)
		behind.release(t)
		s.waitEmpty(t, holds.root)
	})
}

// sharedLimit: both sides follow a limit that lies in a shared count. More
// permits wake who waits; fewer take none away.
func (s *sides) sharedLimit(t *testing.T) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		limit := "/limits" + strings.TrimPrefix(root(t), "/locks")
		s.setCount(t, limit, 1)
		f := semaphores(limit)
		a, b, c := holder.user(t, f, "a", root(t)), next.user(t, f, "b", root(t)), next.user(t, f, "c", root(t))
		a.acquire(t)
		fails(t, b.attempt(try), "held")
		waiting := b.attempt(forever)
		s.waitWaiting(t, b, 1)
		s.setCount(t, limit, 2)
		granted(t, waiting)
		s.setCount(t, limit, 1)
		last := c.attempt(forever)
		s.waitWaiting(t, c, 1)
		a.release(t) // there are as many out as there may be
		s.wait(t, func() (bool, any) {
			n := len(s.ephemerals(t, b.root))
			return n == 2 || n == 3, n // Curator's waiter has a lease's node, too
		})
		select {
		case <-last.Done():
			t.Error("a second permit was given after the limit had become one")
		default:
		}
		released := b.release(t)
		if g := granted(t, last); g.at < released {
			t.Errorf("granted %v before a permit came back", released-g.at)
		}
		c.release(t)
		s.waitEmpty(t, a.root)
	})
}

// setCount writes what Curator's SharedCount reads.
func (w *world) setCount(t *testing.T, path string, n uint32) {
	t.Helper()
	_, err := w.observer.Create(within(t), path, binary.BigEndian.AppendUint32(nil, n),
		framework.WithParents(), framework.OrSet())
	must(t, err)
}

// foreignLease: whatever lies among the leases is a permit to Curator, though
// nobody holds it. It is a known limit: this test says when it goes.
func (s *sides) foreignLease(t *testing.T) {
	f := semaphores("1")
	a, b := s.golang.user(t, f, "a", root(t)), s.java.user(t, f, "b", root(t))
	s.blocksOnly(t, a, b, framework.JoinPath(a.root, "leases/0"))
}
