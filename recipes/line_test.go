package recipes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
	"github.com/batonzk/baton/retry"
)

// Rule 1: a node that is gone is never granted.

func TestOwnNodeDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	for ahead := 1; ahead <= 2; ahead++ {
		t.Run(fmt.Sprintf("%d ahead", ahead), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				outsider := w.client()
				lease := w.acquire(w.mutex())
				var between []*attempt
				for range ahead - 1 {
					between = append(between, w.queue(w.mutex())...)
				}
				waiting := w.queue(w.mutex())[0]
				mine := w.last(outsider)
				w.remove(outsider, mine)
				w.settle()
				if waiting.returned() {
					t.Fatalf("Acquire returned %v, %v", waiting.lease, waiting.err)
				}
				w.release(lease)
				for _, a := range between {
					w.release(w.wait(a))
				}
				next := w.wait(waiting)
				if next.Path() == mine {
					t.Error("the deleted node was granted")
				}
				if _, ok := w.srv.Node(next.Path()); !ok {
					t.Error("a node was granted that does not exist")
				}
				w.release(next)
			})
		})
	}
}

// The waiter's own node goes first, then its predecessor: at no time is it
// its turn.
func TestOwnNodeDeletedBeforePredecessor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		lease := w.acquire(w.mutex())
		waiting := w.queue(w.mutex())[0]
		mine := w.last(outsider)
		w.returned(lease) // the outsider ends it
		// Both are deleted in one transaction, so that no step lies between.
		if _, err := outsider.Multi(w.ctx,
			framework.DeleteOp(mine, framework.AnyVersion),
			framework.DeleteOp(lease.Path(), framework.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		next := w.wait(waiting)
		if next.Path() == mine {
			t.Error("the deleted node was granted")
		}
		w.release(next)
	})
}

// The same while the waiter has no connection, so that it hears of both only
// when it looks again, in no order.
func TestBothDeletedWhileDisconnected(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"own", "predecessor"} {
		t.Run(late+" node read late", func(t *testing.T) {
			t.Parallel()
			for range 10 { // which is read first is chance
				inBubble(t, func(w *world) { w.bothDeleted(late == "own") })
			}
		})
	}
}

func (w *world) bothDeleted(ownLate bool) {
	outsider, c := w.client(), w.client()
	lease := w.acquire(w.mutex())
	waiting := w.queue(recipes.NewInterProcessMutex(c, root))[0]
	mine := w.last(outsider)
	w.link(c).refuse(true)
	w.link(c).drop()
	w.settle()
	w.returned(lease)
	w.remove(outsider, mine)
	w.remove(outsider, lease.Path())
	late := lease.Path()
	if ownLate {
		late = mine
	}
	defer w.srv.OnRequest(of(c, func(r embedded.Request) bool {
		return r.Path == late && !waiting.returned()
	}).then(func() { time.Sleep(soon) }))()
	w.link(c).refuse(false)
	next := w.wait(waiting)
	if next.Path() == mine {
		w.Error("the deleted node was granted")
	}
	w.release(next)
}

// Rule 1: a session that is over has no turn. The waiter joins anew in the
// next one, and the old node, while the server still has it, is not its own.
func TestSessionLostWhileWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquire(w.mutex())
		waiting := w.queue(recipes.NewInterProcessMutex(c, root))[0]
		old := c.Session().ID()
		if err := w.srv.ExpireSession(old); err != nil {
			t.Fatal(err)
		}
		w.eventually("the waiter joins again", func() bool { return len(w.ephemerals()) == 2 })
		if waiting.returned() {
			t.Fatalf("Acquire returned %v, %v", waiting.lease, waiting.err)
		}
		w.release(lease)
		next := w.wait(waiting)
		if next.Session().ID() == old {
			t.Error("the lease is in the session that expired")
		}
		w.release(next)
	})
}

// A lease is looked at last thing before it is returned: the session is made
// to expire whenever Acquire, or what it calls, looks at its context.
func TestSessionLostInsideAcquire(t *testing.T) {
	t.Parallel()
	for n, used := 1, true; used; n++ {
		inBubble(t, func(w *world) {
			c := w.client()
			m := recipes.NewInterProcessMutex(c, root)
			w.acquireAndRelease(m)
			ctx := &lookedAt{Context: w.ctx, at: n, f: func() {
				if err := w.srv.ExpireSession(c.Session().ID()); err != nil {
					t.Error(err)
				}
				time.Sleep(soon) // until the client has heard
			}}
			lease, err := m.Acquire(ctx)
			used = ctx.looks >= n
			if err != nil {
				t.Fatalf("look %d: %v", n, err)
			}
			if err := lease.Err(); err != nil {
				t.Errorf("look %d: a lease was granted that is lost: %v", n, err)
			}
			w.release(lease)
		})
	}
}

// lookedAt is a context that calls f when its Err is called for the at'th time.
type lookedAt struct {
	context.Context
	f     func()
	at    int
	looks int
}

func (c *lookedAt) Err() error {
	if c.looks++; c.looks == c.at {
		c.f()
	}
	return c.Context.Err()
}

func (w *world) acquireAndRelease(m *recipes.InterProcessMutex) {
	w.Helper()
	w.release(w.acquire(m))
}

// Rule 2: what is no contender is ignored or passed over, and named.
func TestForeignAndDeadChildren(t *testing.T) {
	t.Parallel()
	const uuid = "_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-"
	for _, name := range []string{
		"0", "0000000000", "workid", "-lock-", "_c_x-lock-0000000000", "lock-0000000000", "zzz",
		uuid + "lock-0000000000", uuid + "lock-", "lock-99999999999", "x__lock__0000000000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.put(w.client(), root+"/"+name)
				a, b := w.mutex(), w.mutex()
				lease, err := a.TryAcquire(w.ctx)
				if err != nil {
					t.Fatalf("TryAcquire: %v", err)
				}
				w.granted(root, lease)
				as := w.queue(b, a)
				w.release(lease)
				w.release(w.wait(as[0]))
				w.release(w.wait(as[1]))
				if !strings.Contains(w.log.String(), "child="+root+"/"+name) &&
					!strings.Contains(w.log.String(), `child="`+root+"/"+name) {
					t.Errorf("the log does not name the child:\n%s", w.log.String())
				}
				if n := strings.Count(w.log.String(), "level=WARN"); n > 2 {
					t.Errorf("it is logged %d times, want once for each handle:\n%s", n, w.log.String())
				}
				if node, ok := w.srv.Node(root + "/" + name); !ok || node.Version != 0 {
					t.Error("the child was touched")
				}
			})
		})
	}
}

// Several dead contenders, between living ones too.
func TestDeadContendersAmongLiving(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		dead := func() {
			w.put(c, root+"/_c_dead-lock-", framework.WithMode(framework.PersistentSequential))
		}
		dead()
		lease := w.acquire(w.mutex())
		dead()
		dead()
		as := w.queue(w.mutex())
		dead()
		as = append(as, w.queue(w.mutex())...)
		w.release(lease)
		for _, a := range as {
			w.release(w.wait(a))
		}
	})
}

// A contender made by hand counts as long as its session lives.
func TestLivingContenderOfAnotherForm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock-", "_c_4d1cbd505fd84d219a565a07f4e4b0e5-lock-"} {
		inBubble(t, func(w *world) {
			other := w.client()
			made, err := other.Create(w.ctx, root+"/"+name, nil,
				framework.WithMode(framework.EphemeralSequential), framework.WithParents())
			if err != nil {
				t.Fatal(err)
			}
			m := w.mutex()
			_, err = m.TryAcquire(w.ctx)
			wantErr(t, "TryAcquire", err, recipes.ErrHeld)
			waiting := w.queue(m)[0]
			w.remove(other, made.Path)
			w.release(w.wait(waiting))
		})
	}
}

// Rule 3, on servers whose counter wraps.
func TestOrderAcrossTheWrap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.passAlong(2147483645, "2147483646", "2147483647", "-2147483648", "-2147483647")
	}, embedded.WithWrappingSequence())
}

// Rule 3, on servers whose counter sticks at its end: since ZooKeeper 3.6.
// By the numbers alone, or by number and name, two would hold the lock.
func TestOrderAtTheEndOfTheCounter(t *testing.T) {
	t.Parallel()
	for range 5 { // names are random
		inBubble(t, func(w *world) {
			const end = "2147483647"
			w.passAlong(2147483646, end, end, end, end, end)
			if !strings.Contains(w.log.String(), "counter is at its end") {
				t.Error("the log does not tell")
			}
		})
	}
}

// passAlong starts at a number, makes a line of contenders, and checks that
// the lock is passed along in the order in which they joined.
func (w *world) passAlong(first int32, numbers ...string) {
	w.Helper()
	w.put(w.client(), root)
	if err := w.srv.SetSequence(root, first); err != nil {
		w.Fatal(err)
	}
	lease := w.acquire(w.mutex())
	var ms []recipes.InterProcessLock
	for range numbers {
		ms = append(ms, w.mutex())
	}
	as := w.queue(ms...)
	if got, want := w.srv.WatchCount(), len(ms)+2; got != want {
		w.Errorf("%d watches for %d waiters, want %d: %v", got, len(ms), want, w.srv.Watches())
	}
	for i, a := range as {
		_, err := w.mutex().TryAcquire(w.ctx)
		wantErr(w, "TryAcquire", err, recipes.ErrHeld)
		w.release(lease)
		lease = w.wait(a)
		if !strings.HasSuffix(lease.Path(), "lock-"+numbers[i]) {
			w.Errorf("the holder is %s, want number %s", lease.Path(), numbers[i])
		}
		w.settle()
		for _, later := range as[i+1:] {
			if later.returned() {
				w.Error("a later one was granted")
			}
		}
		ps, err := w.mutex().Participants(w.ctx)
		if err != nil || len(ps) != len(as)-i || ps[0].Path != lease.Path() || !ps[0].Holder {
			w.Errorf("Participants: %v, %v, want %s and %d behind it", ps, err, lease.Path(), len(as)-i-1)
		}
	}
	w.release(lease)
}

// Rule 4: one watch per waiter, on the one before it, set by a get; the next
// in line has a second one on its own node, as the holder has.
func TestOneWatchPerWaiter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		log := w.requests(func(r embedded.Request) bool { return r.Watch })
		lease := w.acquire(w.mutex())
		const waiters = 5
		var ms []recipes.InterProcessLock
		for range waiters {
			ms = append(ms, w.mutex())
		}
		as := w.queue(ms...)
		if got, want := w.srv.WatchCount(), waiters+2; got != want {
			t.Errorf("%d watches for %d waiters, want %d: %v", got, waiters, want, w.srv.Watches())
		}
		for _, op := range log.ops() {
			if op != "getData" {
				t.Errorf("a watch was set by %s", op)
			}
		}
		w.release(lease)
		for _, a := range as {
			w.release(w.wait(a))
		}
	})
}

// Rule 4: one release wakes one waiter, which reads the line once at most.
func TestOneReleaseWakesOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		releaser := w.client()
		lease := w.acquire(recipes.NewInterProcessMutex(releaser, root))
		as := w.queue(w.mutex(), w.mutex(), w.mutex(), w.mutex())
		for _, a := range as {
			session := lease.Session().ID()
			log := w.requests(func(r embedded.Request) bool { return isWork(r) && r.Session != session })
			w.release(lease)
			lease = w.wait(a)
			w.settle()
			log.stop()
			for _, r := range log.list {
				if r.Session != lease.Session().ID() {
					t.Errorf("%s %s by one whose turn it is not", r.Op, r.Path)
				}
			}
			if ops := log.ops(); len(ops) > 2 || slices.Contains(ops, "exists") {
				t.Errorf("the new holder sent %v", ops)
			}
		}
		w.release(lease)
	})
}

// A change of the predecessor's data is no reason to move.
func TestPredecessorsDataChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		other := w.client()
		lease := w.acquire(w.mutex())
		waiting := w.queue(w.mutex())[0]
		for range 3 {
			if _, err := other.Set(w.ctx, lease.Path(), []byte("busy"), framework.AnyVersion); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		if waiting.returned() {
			t.Fatal("Acquire returned while the lock is held")
		}
		if err := lease.Err(); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		w.release(lease)
		w.release(w.wait(waiting))
	})
}

// One in the middle gives up: the one behind moves to the next predecessor.
func TestMiddleOfTheLineGivesUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		as := w.queue(w.mutex(), w.mutex(), w.mutex())
		as[1].cancel()
		<-as[1].done
		w.settle()
		as[0].cancel()
		<-as[0].done
		w.settle()
		if as[2].returned() {
			t.Fatal("granted while the lock is held")
		}
		if n := w.srv.WatchCount(); n != 3 {
			t.Errorf("%d watches, want the holder's own and the waiter's two", n)
		}
		w.release(lease)
		w.release(w.wait(as[2]))
	})
}

// The place lasts as long as the session, however little patience the
// client's retry policy has.
func TestImpatientClientKeepsItsPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		ahead := w.queue(w.mutex())[0]
		c := w.client(framework.WithRetry(retry.NTimes(1, 10*time.Millisecond)), framework.WithConnectionTimeout(50*time.Millisecond))
		waiting := w.queue(recipes.NewInterProcessMutex(c, root))[0]
		mine := w.last(w.clients[0])
		// It is woken by the one ahead, and has no connection to look again.
		defer w.srv.OnRequest(of(c, op("getChildren2")).once(func() {
			w.link(c).refuse(true)
			w.link(c).drop()
		}))()
		ahead.cancel()
		<-ahead.done
		time.Sleep(sessionTimeout / 2)
		w.link(c).refuse(false)
		time.Sleep(soon)
		if waiting.returned() {
			t.Fatalf("Acquire returned %v, %v", waiting.lease, waiting.err)
		}
		w.release(lease)
		next := w.wait(waiting)
		if next.Path() != mine {
			t.Errorf("the lease's node is %s, its place was %s", next.Path(), mine)
		}
		w.release(next)
	})
}

// Rule 6: the root, and all below it, can vanish at any moment.
func TestRootDeletedUnderWaiter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		lease := w.acquire(w.mutex())
		as := w.queue(w.mutex(), w.mutex())
		w.returned(lease) // the outsider ends it
		line, err := recipes.NewInterProcessMutex(outsider, root).Participants(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(line) // so that it is nobody's turn in between
		var ops []framework.Op
		for _, p := range line {
			ops = append(ops, framework.DeleteOp(p.Path, framework.AnyVersion))
		}
		ops = append(ops, framework.DeleteOp(root, framework.AnyVersion))
		if _, err := outsider.Multi(w.ctx, ops...); err != nil {
			t.Fatal(err)
		}
		w.settle()
		wantErr(t, "the holder's lease", lease.Err(), recipes.ErrLost)
		for range as { // who joins again first is first
			var next *recipes.Lease
			select {
			case <-as[0].done:
				next = w.wait(as[0])
				as[0].done = make(chan struct{})
			case <-as[1].done:
				next = w.wait(as[1])
				as[1].done = make(chan struct{})
			}
			w.release(next)
		}
	})
}

// The server reaps the root before each step of an acquire.
func TestRootReapedBetweenSteps(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		w.acquireAndRelease(m)
		reaped := 0
		defer w.srv.OnRequest(of(c, isWork).then(func() {
			if reaped < 4 { // more would be a livelock of the server's making
				reaped++
				w.srv.ReapContainers()
			}
		}))()
		w.acquireAndRelease(m)
		if reaped < 4 {
			t.Errorf("reaped %d times", reaped)
		}
		w.acquireAndRelease(m)
	})
}

// Rule 7: a listener that never returns stops nothing else of the client.
func TestUserCodeStopsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, outsider := w.client(), w.client()
		entered, leave := make(chan struct{}), make(chan struct{})
		m := recipes.NewInterProcessMutex(c, root, recipes.WithRevocationListener(func(*recipes.Lease) {
			close(entered)
			<-leave
		}))
		lease := w.acquire(m)
		w.settle()
		if err := recipes.Revoke(w.ctx, outsider, lease.Path()); err != nil {
			t.Fatal(err)
		}
		<-entered
		other := recipes.NewInterProcessMutex(c, root+"-2")
		lease2 := w.acquire(other)
		waiting := w.queue(other)[0]
		w.release(lease2)
		w.release(w.wait(waiting))
		w.remove(outsider, lease.Path())
		w.settle()
		wantErr(t, "the lease whose node was deleted", lease.Err(), recipes.ErrLost)
		close(leave)
	})
}

// Rule 1, when somebody else in the process watches the contender's node too,
// and that one's watch is used up by a change just before the contender sets
// its own: the contender must hear of its node's deletion all the same.
func TestGrantNeedsAWatchOfItsOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		admin, c := w.client(), w.client()
		id := c.Session().ID()
		holder := w.acquire(w.mutex())

		var own atomic.Pointer[string]
		behind, getOwn, rearm := make(chan struct{}), make(chan struct{}), make(chan struct{})
		hold := func(r embedded.Request, until <-chan struct{}) {
			select {
			case <-until:
			case <-r.Done:
			}
		}
		w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			path := own.Load()
			switch {
			case r.Session != id:
			case path == nil && r.Op == "getData":
				hold(r, behind) // what stands ahead is watched last
			case path != nil && r.Op == "getData" && r.Path == *path:
				hold(r, getOwn)
			case path != nil && r.Op == "exists" && r.Path == *path:
				select {
				case <-getOwn:
					hold(r, rearm)
				default:
				}
			}
			return embedded.Pass
		})
		waiter := w.attempt(recipes.NewInterProcessMutex(c, root))
		w.settle()
		ps, err := recipes.NewInterProcessMutex(admin, root).Participants(w.ctx)
		if err != nil || len(ps) != 2 {
			w.Fatal(ps, err)
		}
		own.Store(&ps[1].Path)
		watched := make(chan *framework.Watch, 1)
		go func() {
			_, watch, err := c.ExistsW(w.ctx, ps[1].Path)
			if err != nil {
				w.Error(err)
			}
			watched <- watch
		}()
		w.settle()
		close(behind)
		defer (<-watched).Stop()
		w.settle()
		if err := recipes.Revoke(w.ctx, admin, ps[1].Path); err != nil { // uses the other's watch up
			w.Fatal(err)
		}
		w.settle()
		close(getOwn)
		w.settle()
		third := w.attempt(w.mutex())
		w.settle()
		w.remove(admin, ps[1].Path)
		w.settle()
		w.release(holder)
		w.settle()
		if waiter.returned() && third.returned() {
			w.Error("the one whose node is gone was granted, and so was the next")
		}
		close(rearm)
		w.settle()
		w.release(w.wait(third))
		w.release(w.wait(waiter))
	})
}
