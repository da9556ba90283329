//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/faultproxy"
	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/wire"
)

// A family is a kind of lock that both sides have, on the same nodes.
type family struct {
	name string
	verb string // that makes one, with what follows ID and path
	args []string
	side string // what the ID of the lock ends with, if there is more than one

	label        string // of the nodes that holders have
	waiters      string // where those who wait stand, below the lock's path
	holderInLine bool   // so does the holder
	revocable    bool   // in Curator
}

var mutexes = &family{name: "mutex", verb: "mutex", label: "lock-", holderInLine: true, revocable: true}

// exclusive are the families with one holder.
var exclusive = []*family{mutexes, writers, semaphoreMutexes}

// locks makes one lock for each of two sessions.
func (f *family) locks(t *testing.T, one, other *session) (*user, *user) {
	t.Helper()
	return one.user(t, f, t.Name(), root(t)), other.user(t, f, t.Name(), root(t))
}

// exclusion: one holds, the other does not get it; one releases, the other
// gets it.
func (s *sides) exclusion(t *testing.T, f *family) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		a, b := f.locks(t, holder, next)
		first := a.acquire(t)
		err := fails(t, b.attempt(try), "held")
		if f.holderInLine && next == s.golang && !strings.Contains(err.Error(), first.path) {
			t.Errorf("%v: want the holder %s in it", err, first.path)
		}
		fails(t, b.attempt(briefly), "timeout")
		s.waitWaiting(t, a, 0)

		waiting := b.attempt(forever)
		s.waitWaiting(t, a, 1)
		released := a.release(t)
		second := granted(t, waiting)
		if second.at < released {
			t.Errorf("granted %v before the release began", released-second.at)
		}
		if second.token <= first.token {
			t.Errorf("token %#x after %#x", second.token, first.token)
		}
		fails(t, a.attempt(try), "held")
		b.release(t)
		s.waitEmpty(t, a.root)
	})
}

// order: contenders of both sides are granted in the order in which they came.
func (s *sides) order(t *testing.T, f *family) {
	const waiters = 6
	last := s.golang.user(t, f, "holder", root(t))
	held := last.acquire(t)
	var queue []*user
	var waiting []*interop.Call
	for i := range waiters {
		who := s.golang
		if i%2 == 1 {
			who = s.java
		}
		u := who.user(t, f, fmt.Sprintf("waiter %d", i), last.root)
		queue = append(queue, u)
		waiting = append(waiting, u.attempt(forever))
		s.waitWaiting(t, last, i+1)
	}
	var line []string
	if f.holderInLine {
		line = participants(t, queue[0])
		if theirs := participants(t, queue[1]); !slices.Equal(line, theirs) {
			t.Errorf("Go sees in line\n%q, Java\n%q", line, theirs)
		}
	}
	for i, u := range queue {
		released := last.release(t)
		g := granted(t, waiting[i])
		if g.at < released {
			t.Errorf("waiter %d was granted %v before the one ahead released", i, released-g.at)
		}
		if g.token <= held.token {
			t.Errorf("waiter %d has the token %#x after %#x", i, g.token, held.token)
		}
		if line != nil && g.path != line[i+1] {
			t.Errorf("waiter %d has %s, want place %d of %q", i, g.path, i+1, line)
		}
		for _, later := range waiting[i+1:] {
			select {
			case <-later.Done():
				t.Errorf("a later waiter was granted while %d holds", i)
			default:
			}
		}
		last, held = u, g
	}
	last.release(t)
	s.waitEmpty(t, last.root)
}

func participants(t *testing.T, u *user) []string {
	t.Helper()
	m, err := u.Do(within(t), "participants", u.lock)
	must(t, err)
	return m.Words
}

// lostReplies: one side does not hear that its node was created, nor that it was
// deleted. It finds out, and the other never notices.
func (s *sides) lostReplies(t *testing.T, f *family) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		if holder == s.java && f != mutexes {
			t.Skip("to Curator it is the same as in a mutex, and takes seconds to connect again")
		}
		a, b := f.locks(t, holder, next)
		b.acquire(t) // so that the root is there
		b.release(t)
		of := func(ops ...wire.OpCode) func(faultproxy.Request) bool {
			return func(r faultproxy.Request) bool {
				return slices.Contains(ops, r.Op) && strings.HasPrefix(r.Path, a.root+"/")
			}
		}
		steps := []func(faultproxy.Request) bool{of(wire.OpCreate, wire.OpCreate2)}
		if holder == s.golang && f.waiters != "" { // the permit comes by a step of its own
			steps = append(steps, func(r faultproxy.Request) bool { return r.Op == wire.OpMulti })
		}
		for _, step := range steps {
			created := a.network.DropReply(step)
			first := a.acquire(t)
			<-created
			if left := s.ephemerals(t, a.root); len(left) != 1 || left[first.path] == 0 {
				t.Errorf("there are %v, want %s alone", left, first.path)
			}
			fails(t, b.attempt(try), "held")

			waiting := b.attempt(forever)
			s.waitWaiting(t, a, 1)
			deleted := a.network.DropReply(of(wire.OpDelete))
			a.release(t)
			<-deleted
			if second := granted(t, waiting); second.token <= first.token {
				t.Errorf("token %#x after %#x", second.token, first.token)
			}
			b.release(t)
			s.waitEmpty(t, a.root)
		}
	})
}

// protected is the form of the names that Curator gives nodes.
var protected = regexp.MustCompile(`^_c_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-((.*)\d{10})$`)

// names: each side understands the other's nodes, byte by byte.
func (s *sides) names(t *testing.T, f *family) {
	for _, who := range []*session{s.golang, s.java} {
		u := who.user(t, f, t.Name(), root(t))
		name := path.Base(u.acquire(t).path)
		match := protected.FindStringSubmatch(name)
		if match == nil || match[3] != f.label {
			t.Fatalf("%s makes a node %q, want %v with %s", who, name, protected, f.label)
		}
		m, err := s.java.Do(within(t), "name", name)
		must(t, err)
		if want := []string{"true", match[2], match[1]}; !slices.Equal(m.Words, want) {
			t.Errorf("Curator makes %q of %q, want %q", m.Words, name, want)
		}
		u.release(t)
	}
}

// revocation: the side that waits asks, the side that holds hears it. Curator's
// semaphores have no ear for it.
func (s *sides) revocation(t *testing.T, f *family) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		if holder == s.java && !f.revocable {
			t.Skip("Curator does not have it")
		}
		a, b := f.locks(t, holder, next)
		for range 2 {
			// Curator forgets the listener with each release.
			_, err := a.Do(within(t), "revocable", a.lock)
			must(t, err)
			g := a.acquire(t)
			waiting := b.attempt(forever)
			s.waitWaiting(t, a, 1)
			_, err = b.Do(within(t), "revoke", g.path)
			must(t, err)
			_, err = a.Event(within(t), "revoke", a.lock)
			must(t, err)
			select {
			case <-waiting.Done():
				t.Error("a request for revocation took the lock away by itself")
			default:
			}
			a.release(t)
			granted(t, waiting)
			b.release(t)
		}
		s.waitEmpty(t, a.root)
	})
}

// force: Baton takes the lock from a holder who does not give it up. Baton's
// hears of that; Curator's does not, and hears no request with a reason either.
// It is a known limit of mixed use: this test says when it goes.
func (s *sides) force(t *testing.T, f *family) {
	s.eachWay(t, func(t *testing.T, holder, next *session) {
		const reason = "the disk is full"
		a, b := f.locks(t, holder, next)
		if holder == s.golang || f.revocable {
			_, err := a.Do(within(t), "revocable", a.lock)
			must(t, err)
		}
		first := a.acquire(t)
		waiting := b.attempt(forever)
		s.waitWaiting(t, a, 1)
		_, err := s.golang.Do(within(t), "revoke", first.path, reason)
		must(t, err)
		if holder == s.golang {
			_, err := a.Event(within(t), "revoke", a.lock, reason)
			must(t, err)
		}
		_, err = s.golang.Do(within(t), "revoke", first.path, reason, "10")
		must(t, err)
		if second := granted(t, waiting); second.token <= first.token {
			t.Errorf("token %#x after %#x", second.token, first.token)
		}
		if holder == s.golang {
			_, err := a.Event(within(t), "ended", a.lock, "lost")
			must(t, err)
			_, err = a.Do(within(t), "release", a.lock)
			wantErr(t, "releasing what was taken", err, kind("lost"))
		} else {
			a.release(t)
			done, cancel := context.WithCancel(within(t))
			cancel()
			if m, err := a.Event(done, "revoke", a.lock); err == nil {
				t.Errorf("Curator heard of the request after all: %q", m.Words)
			}
		}
		b.release(t)
		s.waitEmpty(t, a.root)
	})
}

// foreignChild: a child that sorts first and is no contender blocks Curator 5.4
// and not Baton. It is a known limit of mixed use: this test says when it goes.
func (s *sides) foreignChild(t *testing.T, f *family) {
	if !f.holderInLine {
		t.Skip("has a line of its own")
	}
	a, b := f.locks(t, s.golang, s.java)
	s.blocksOnly(t, a, b, framework.JoinPath(a.root, "0"))
}

// blocksOnly checks that a foreign child keeps the lock from b and not from a,
// for as long as it is there.
func (s *sides) blocksOnly(t *testing.T, a, b *user, child string) {
	t.Helper()
	_, err := s.observer.Create(within(t), child, nil, framework.WithParents())
	must(t, err)
	fails(t, b.attempt(briefly), "timeout")
	a.acquire(t)
	a.release(t)
	must(t, s.observer.Delete(within(t), child, framework.AnyVersion))
	b.acquire(t)
	b.release(t)
	s.waitEmpty(t, a.root)
}
