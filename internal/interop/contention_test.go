//go:build linux

package interop_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/interop"
)

// An arena is a lock over which Go and Java contend.
type arena struct {
	*family
	limit        int    // of permits, 0 if the lock has none
	together     int    // how many there must have been inside, for the test to be one
	golang, java string // how each takes its turns: see the verb contend
}

var arenas = []arena{
	{family: mutexes},
	{family: writers, together: 2, golang: "downgrade"}, // Curator's would break the order: see curator621
	{family: semaphoreMutexes},
	// Three users of Curator's may hold a permit and wait for one more: see
	// holdAndWait. Two have to be left for one of Baton's.
	{family: semaphores("5"), limit: 5, together: 5, golang: "2", java: "2"},
}

// A fight is what has happened in an arena.
type fight struct {
	arena
	root   string
	users  []*user
	turns  []interop.Turn
	holder *user // who is going to crash
	held   interop.Turn
	waiter *user // who crashes, too
	waits  *interop.Call
}

// contention: two users of each side take turns as fast as they can, together
// with one more process of each that ends badly: first all is well, then their
// sessions expire, and then they are killed. Each is now the holder, now one who
// waits. The histories of all locks must be those of locks.
func (s *sides) contention(t *testing.T) {
	const turns = 40
	const timeout = 4 * time.Second // for sessions that expire, but not while a loaded machine contends
	golang := s.connectThrough(t, startGo(t), timeout)
	java := s.connectThrough(t, startJava(t), timeout)
	victims := []*session{golang, java}

	var fights []*fight
	var calls []*interop.Call
	for i, a := range arenas {
		f := &fight{arena: a, root: root(t) + "-" + a.verb}
		fights = append(fights, f)
		for j, who := range []*session{s.golang, s.java, s.golang, s.java, golang, java} {
			f.users = append(f.users, who.contender(t, f, fmt.Sprint("contender ", j)))
		}
		calls = append(calls, f.contend(f.users, turns, 100*i)...)
	}
	waitAll(t, calls)

	calls = nil
	for i, f := range fights {
		f.enter(t, s.world, victims[i%2], victims[1-i%2], "expires")
		calls = append(calls, f.contend(f.users[:4], turns/2, 100*i+10)...)
	}
	silent := interop.Monotonic()
	for _, v := range victims {
		v.network.Silence()
	}
	suspended := java.suspended(t, silent)
	waitAll(t, calls)
	for _, v := range victims {
		v.network.Resume()
	}
	for _, f := range fights {
		f.expired(t, suspended)
	}

	calls = nil
	for i, f := range fights {
		f.enter(t, s.world, victims[1-i%2], victims[i%2], "is killed")
		calls = append(calls, f.contend(f.users[:4], turns/2, 100*i+20)...)
	}
	killed := interop.Monotonic()
	for _, v := range victims {
		must(t, v.Kill())
	}
	waitAll(t, calls)
	for _, f := range fights {
		f.held.Ended = killed
		f.turns = append(f.turns, f.held)
		f.check(t)
		s.waitEmpty(t, f.root)
	}
}

// suspended returns when a Java process hears that its connection is suspended,
// after a time.
func (s *session) suspended(t *testing.T, after time.Duration) time.Duration {
	t.Helper()
	for {
		m, err := s.Event(within(t), "state", "SUSPENDED")
		must(t, err)
		if m.At >= after {
			return m.At
		}
	}
}

// contender makes a user's lock, of which the verb contend takes any side.
func (s *session) contender(t *testing.T, f *fight, id string) *user {
	t.Helper()
	u := s.user(t, f.family, f.verb+" "+id, f.root)
	u.lock = f.verb + " " + id
	return u
}

// contend has users take a number of turns each.
func (f *fight) contend(users []*user, turns, seed int) []*interop.Call {
	var calls []*interop.Call
	for i, u := range users {
		args := []string{u.lock, strconv.Itoa(turns), strconv.Itoa(seed + i)}
		how := f.golang
		if u.String() == "java" {
			how = f.java
		}
		if how != "" {
			args = append(args, how)
		}
		calls = append(calls, u.Start("contend", args...))
	}
	return calls
}

func waitAll(t *testing.T, calls []*interop.Call) {
	t.Helper()
	for _, c := range calls {
		_, err := c.Wait(within(t))
		must(t, err)
	}
}

// enter has one victim hold the lock, all of it, and the other wait behind it.
func (f *fight) enter(t *testing.T, w *world, holder, waiter *session, id string) {
	t.Helper()
	f.holder = holder.user(t, f.family, f.verb+" "+id, f.root)
	f.waiter = waiter.user(t, f.family, f.verb+" "+id, f.root)
	asked := interop.Monotonic()
	g := granted(t, f.holder.attemptMany(forever, max(f.limit, 1)))
	f.held = interop.Turn{
		User: "the victim that " + id, Permits: f.limit, Path: g.path, Token: g.token,
		Asked: asked, Began: g.at,
	}
	var err error
	f.held.Seq, err = interop.Sequence(g.path)
	must(t, err)
	f.waits = f.waiter.attempt(forever)
	w.waitWaiting(t, f.holder, 1)
}

// expired ends what enter began, once the sessions of both are over. A Java
// process has to stop when it hears that the connection is suspended.
func (f *fight) expired(t *testing.T, suspended time.Duration) {
	t.Helper()
	f.held.Ended = suspended
	_, err := f.holder.Do(within(t), "release", f.holder.lock)
	if f.holder.String() == "go" {
		wantErr(t, "releasing a lost lease", err, kind("lost"))
		ended, err := f.holder.Event(within(t), "ended", f.holder.lock)
		must(t, err)
		f.held.Ended = ended.At
	}
	f.turns = append(f.turns, f.held)
	_, err = f.waits.Wait(within(t))
	switch {
	case err == nil:
		f.waiter.release(t)
	case f.waiter.String() == "go":
		t.Errorf("a wait ended with its session: %v", err)
	default:
		t.Logf("Curator's wait ended with its session: %v", err)
	}
}

// check judges the history.
func (f *fight) check(t *testing.T) {
	t.Helper()
	for _, u := range f.users {
		turns, err := u.Turns(u.lock, interop.Monotonic())
		must(t, err)
		f.turns = append(f.turns, turns...)
	}
	if err := interop.Check(f.turns, f.limit); err != nil {
		t.Errorf("%s: %v", f.name, err)
	}
	changes, most := f.measure()
	if changes < len(f.turns)/10 {
		t.Errorf("%s: the lock changed hands only %d times in %d turns", f.name, changes, len(f.turns))
	}
	if most < f.together {
		t.Errorf("%s: %d were inside together at most, which shows nothing of %d", f.name, most, f.together)
	}
	t.Logf("%s: %d turns, %d changes of hands, %d inside together", f.name, len(f.turns), changes, most)
}

// measure returns how often another came next, and how many permits were out at
// most.
func (f *fight) measure() (changes, most int) {
	slices.SortFunc(f.turns, func(a, b interop.Turn) int { return cmp.Compare(a.Began, b.Began) })
	for i, v := range f.turns {
		if i > 0 && v.User != f.turns[i-1].User {
			changes++
		}
		out := 0
		for _, u := range f.turns[:i+1] {
			if u.Ended > v.Began {
				out += u.Permits
			}
		}
		most = max(most, out)
	}
	return changes, most
}
