//go:build linux

package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/testenv"
)

// kazoo's locks in their three forms: with Curator's names, as they are, and
// with nothing but Curator's contenders to wait for.
var (
	kazooMutexes = &family{name: "mutex", verb: "mutex", label: "lock-", holderInLine: true}
	kazooWriters = &family{name: "write lock", verb: "readwrite", side: ".write", label: "__WRIT__", holderInLine: true}
	kazooReaders = &family{name: "read lock", verb: "readwrite", side: ".read", label: "__READ__", holderInLine: true}
	kazooOwn     = &family{name: "kazoo's own lock", verb: "kazoo", holderInLine: true}
	kazooWaits   = &family{name: "kazoo's lock that waits", verb: "kazoowaits", holderInLine: true}
)

// startKazoo returns a kazoo peer that is closed at the end of the test.
func startKazoo(t *testing.T) *interop.Peer {
	t.Helper()
	p, err := interop.StartKazoo(within(t))
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// three are processes of Baton, of Curator and of kazoo.
type three struct {
	*sides
	kazoo *session
}

func TestKazoo(t *testing.T) {
	testenv.Apache(t)
	onEachServer(t, 500*time.Millisecond, func(t *testing.T, w *world) {
		s := &three{
			sides: &sides{
				world:  w,
				golang: connect(t, startGo(t), w.addr, lasting),
				java:   connect(t, startJava(t), w.addr, lasting),
			},
			kazoo: connect(t, startKazoo(t), w.addr, lasting),
		}
		t.Run("exclusion", func(t *testing.T) { s.eachPair(t, s.excludesKazoo) })
		t.Run("foreign child", s.kazooPassesOver)
		t.Run("killed holder", s.killedKazoo)
		t.Run("contention", s.contendWithKazoo)
		t.Run("write lock", s.kazooWrites)
		t.Run("read lock", s.kazooReads)
		t.Run("extra pattern alone", s.extraPatternAlone)
		t.Run("own names", s.kazooOwnNames)
	})
}

// eachPair runs f with kazoo's lock and each of the others, either first.
func (s *three) eachPair(t *testing.T, f func(t *testing.T, holder, next *user)) {
	for _, other := range []*session{s.golang, s.java} {
		t.Run("kazoo then "+other.String(), func(t *testing.T) {
			f(t, s.kazoo.user(t, kazooMutexes, t.Name(), root(t)), other.mutex(t, t.Name(), root(t)))
		})
		t.Run(other.String()+" then kazoo", func(t *testing.T) {
			f(t, other.mutex(t, t.Name(), root(t)), s.kazoo.user(t, kazooMutexes, t.Name(), root(t)))
		})
	}
}

func (s *three) excludesKazoo(t *testing.T, a, b *user) {
	first := a.acquire(t)
	fails(t, b.attempt(try), "held")
	fails(t, b.attempt(briefly), "timeout")
	s.waitEmptyBut(t, a.root, first.path)
	waiting := b.attempt(forever)
	s.waitWaiting(t, a, 1)
	released := a.release(t)
	second := granted(t, waiting)
	if second.at < released || second.token <= first.token {
		t.Errorf("granted %v after the release with token %#x after %#x", second.at-released, second.token, first.token)
	}
	b.release(t)
	s.waitEmpty(t, a.root)
}

// kazooPassesOver: kazoo sorts only what its patterns match.
func (s *three) kazooPassesOver(t *testing.T) {
	u := s.kazoo.user(t, kazooMutexes, t.Name(), root(t))
	for _, name := range []string{"0", "workid"} {
		_, err := s.observer.Create(within(t), framework.JoinPath(u.root, name), nil, framework.WithParents())
		must(t, err)
	}
	u.acquire(t)
	u.release(t)
}

// killedKazoo: when a holder's process is killed, kazoo's or Baton's, the other
// gets the lock once the session has expired.
func (s *three) killedKazoo(t *testing.T) {
	for _, c := range []struct {
		name   string
		holder func(t *testing.T) *user
		next   func(t *testing.T) *user
	}{
		{
			"kazoo then go",
			func(t *testing.T) *user {
				return connect(t, startKazoo(t), s.addr, short).user(t, kazooMutexes, t.Name(), root(t))
			},
			func(t *testing.T) *user { return s.golang.mutex(t, t.Name(), root(t)) },
		},
		{
			"go then kazoo",
			func(t *testing.T) *user { return connect(t, startGo(t), s.addr, short).mutex(t, t.Name(), root(t)) },
			func(t *testing.T) *user { return s.kazoo.user(t, kazooMutexes, t.Name(), root(t)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := c.holder(t), c.next(t)
			first := a.acquire(t)
			waiting := b.attempt(forever)
			s.waitWaiting(t, a, 1)
			must(t, a.Kill())
			if second := granted(t, waiting); second.token <= first.token {
				t.Errorf("token %#x after %#x", second.token, first.token)
			}
			b.release(t)
		})
	}
}

// contendWithKazoo: all three take turns, and are never inside together.
func (s *three) contendWithKazoo(t *testing.T) {
	f := &fight{arena: arena{family: mutexes}, root: root(t)}
	for _, who := range []*session{s.golang, s.java, s.kazoo, s.kazoo} {
		f.users = append(f.users, who.contender(t, f, "user"+string(rune('a'+len(f.users)))))
	}
	waitAll(t, f.contend(f.users, 60, 1))
	f.check(t)
	s.waitEmpty(t, f.root)
}

// kazooWrites: a writer of kazoo's and readers and writers of the others exclude
// each other.
func (s *three) kazooWrites(t *testing.T) {
	for _, other := range []*session{s.golang, s.java} {
		k := s.kazoo.user(t, kazooWriters, t.Name(), root(t)+other.String())
		o := other.pen(t, t.Name(), k.root)
		for _, side := range []*user{o.read, o.write} {
			k.acquire(t)
			fails(t, side.attempt(try), "held")
			waiting := side.attempt(forever)
			s.waitWaiting(t, k, 1)
			k.release(t)
			granted(t, waiting)
			fails(t, k.attempt(try), "held")
			writing := k.attempt(forever)
			s.waitWaiting(t, k, 1)
			released := side.release(t)
			if g := granted(t, writing); g.at < released {
				t.Errorf("kazoo wrote %v before the other had left", released-g.at)
			}
			k.release(t)
		}
		s.waitEmpty(t, k.root)
	}
}

// kazooReads: a reader of kazoo's keeps writers out, but up to kazoo 2.8 waits
// for writers behind it, too, which wait for it: its issue 649. It is a known
// limit: this test says when it goes.
func (s *three) kazooReads(t *testing.T) {
	k := s.kazoo.user(t, kazooReaders, t.Name(), root(t))
	a, b := s.golang.pen(t, "a", k.root), s.golang.pen(t, "b", k.root)
	k.acquire(t)
	a.read.acquire(t)
	fails(t, b.write.attempt(try), "held")
	a.read.release(t)
	fails(t, b.write.attempt(try), "held")
	k.release(t)

	a.write.acquire(t)
	reading := k.attempt(lasting / 10)
	s.waitWaiting(t, a.write, 1)
	writing := b.write.attempt(forever)
	s.waitWaiting(t, a.write, 2)
	a.write.release(t)
	fails(t, reading, "timeout")
	granted(t, writing)
	b.write.release(t)
	s.waitEmpty(t, k.root)
}

// extraPatternAlone: with nothing but the extra pattern kazoo waits for the
// others, and neither waits for kazoo. It is a known limit: this test says when
// it goes.
func (s *three) extraPatternAlone(t *testing.T) {
	for _, other := range []*session{s.golang, s.java} {
		k := s.kazoo.user(t, kazooWaits, t.Name(), root(t)+other.String())
		o := other.mutex(t, t.Name(), k.root)
		o.acquire(t)
		fails(t, k.attempt(try), "held")
		waiting := k.attempt(forever)
		s.waitWaiting(t, o, 1)
		o.release(t)
		if g := granted(t, waiting); !strings.Contains(g.path, "__lock__") {
			t.Errorf("kazoo's node is %s", g.path)
		}
		o.acquire(t) // beside kazoo
		o.release(t)
		k.release(t)
	}
}

// kazooOwnNames: kazoo's lock as it is and Curator's do not see each other.
func (s *three) kazooOwnNames(t *testing.T) {
	for _, other := range []*session{s.golang, s.java} {
		k := s.kazoo.user(t, kazooOwn, t.Name(), root(t)+other.String())
		o := other.mutex(t, t.Name(), k.root)
		o.acquire(t)
		k.acquire(t) // beside the other
		o.release(t)
		o.acquire(t) // beside kazoo
		o.release(t)
		k.release(t)
	}
}
