package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// several are the paths of the locks of a multi lock, in canonical order.
var several = []string{"/locks/a", "/locks/b", "/locks/c"}

// mutexesAt returns mutexes of a client.
func mutexesAt(c *framework.Client, paths ...string) []recipes.InterProcessLock {
	var locks []recipes.InterProcessLock
	for _, path := range paths {
		locks = append(locks, recipes.NewInterProcessMutex(c, path))
	}
	return locks
}

// multi returns the locks at the paths as one.
func multi(c *framework.Client, paths ...string) *recipes.InterProcessMultiLock {
	return recipes.NewInterProcessMultiLock(mutexesAt(c, paths...))
}

// A multiAttempt is an Acquire of several locks that is under way.
type multiAttempt struct {
	lease  *recipes.MultiLease
	err    error
	done   chan struct{}
	cancel context.CancelFunc
}

func (w *world) attemptMulti(m *recipes.InterProcessMultiLock) *multiAttempt {
	ctx, cancel := context.WithCancel(w.ctx)
	a := &multiAttempt{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		defer cancel()
		a.lease, a.err = m.Acquire(ctx)
	}()
	return a
}

func (w *world) acquireMulti(m *recipes.InterProcessMultiLock) *recipes.MultiLease {
	w.Helper()
	lease, err := m.Acquire(w.ctx)
	if err != nil {
		w.Fatalf("Acquire: %v", err)
	}
	return lease
}

// free checks that locks can be had at once.
func (w *world) free(paths ...string) {
	w.Helper()
	c := w.client()
	for _, path := range paths {
		lease, err := recipes.NewInterProcessMutex(c, path).TryAcquire(w.ctx)
		if err != nil {
			w.Errorf("%s is not free: %v", path, err)
			continue
		}
		w.release(lease)
	}
}

// held checks that locks are held.
func (w *world) isHeld(paths ...string) {
	w.Helper()
	c := w.client()
	for _, path := range paths {
		if lease, err := recipes.NewInterProcessMutex(c, path).TryAcquire(w.ctx); err == nil {
			w.Errorf("%s is free", path)
			w.release(lease)
		}
	}
}

// requested lists the names of the parents of nodes that requests were about.
func requested(log *requestLog) []string {
	log.mu.Lock()
	defer log.mu.Unlock()
	var parents []string
	for _, r := range log.list {
		parent, _ := framework.SplitPath(r.Path)
		parents = append(parents, parent)
	}
	return parents
}

// In canonical order in, in reverse order out, whatever order was given.
func TestMultiLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := multi(c, "/locks/b", "/locks/c", "/locks/a")
		creates, deletes := w.requests(of(c, op("create2"))), w.requests(of(c, op("delete")))
		lease := w.acquireMulti(m)
		w.isHeld(several...)
		var paths []string
		var tokens []int64
		for _, l := range lease.Leases() {
			parent, _ := framework.SplitPath(l.Path())
			paths, tokens = append(paths, parent), append(tokens, l.Token())
		}
		if !slices.Equal(paths, several) {
			t.Errorf("acquired %v, want %v", paths, several)
		}
		if lease.Token() != slices.Max(tokens) {
			t.Errorf("token %#x of %#x", lease.Token(), tokens)
		}
		if lease.State() != recipes.LeaseHeld || lease.Err() != nil || isDone(lease.Context(w.ctx)) {
			t.Errorf("while held: %v, %v", lease.State(), lease.Err())
		}
		ctx := lease.Context(w.ctx)
		if err := lease.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
		slices.Reverse(paths)
		if got := requested(deletes); !slices.Equal(got, paths) {
			t.Errorf("released %v, want %v", got, paths)
		}
		if len(creates.ops()) < 3 || lease.State() != recipes.LeaseReleased {
			t.Errorf("%d creates", len(creates.ops()))
		}
		wantErr(t, "the released lease", lease.Err(), recipes.ErrReleased)
		wantErr(t, "its context's cause", context.Cause(ctx), recipes.ErrReleased)
		wantErr(t, "a context made later", context.Cause(lease.Context(w.ctx)), recipes.ErrReleased)
		if lease.State() != recipes.LeaseReleased || lease.Release() != nil {
			t.Errorf("afterwards: %v, %v", lease.State(), lease.Release())
		}
		next := w.acquireMulti(m)
		if next.Token() <= lease.Token() {
			t.Errorf("the next token is %#x after %#x", next.Token(), lease.Token())
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Two that name the locks in opposite orders, of which the one is about to take
// its second lock when the other begins. In canonical order both get them; in the
// given order they wait for each other until a context ends.
func TestMultiLockInOppositeOrders(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]recipes.MultiOption{
		"canonical": nil, "kept": {recipes.KeepOrder()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c1, c2 := w.client(), w.client()
				one := recipes.NewInterProcessMultiLock(mutexesAt(c1, several[0], several[1]), opts...)
				two := recipes.NewInterProcessMultiLock(mutexesAt(c2, several[1], several[0]), opts...)
				reached, proceed := make(chan struct{}), make(chan struct{})
				defer w.srv.OnRequest(of(c1, func(r embedded.Request) bool {
					return r.Op == "create2" && strings.HasPrefix(r.Path, several[1]+"/")
				}).once(func() {
					close(reached)
					<-proceed
				}))()
				first := w.attemptMulti(one)
				<-reached
				second := w.attemptMulti(two)
				w.settle()
				close(proceed)
				time.Sleep(sessionTimeout)
				if len(opts) > 0 {
					if first.returned() || second.returned() {
						t.Fatalf("one got both locks: %v, %v", first.err, second.err)
					}
					first.cancel()
					<-first.done
					wantErr(t, "Acquire", first.err, context.Canceled)
				} else {
					if !first.returned() || first.err != nil {
						t.Fatalf("the first did not get the locks: %v", first.err)
					}
					if err := first.lease.Release(); err != nil {
						t.Error(err)
					}
				}
				<-second.done
				if second.err != nil {
					t.Fatalf("the second did not get the locks: %v", second.err)
				}
				if err := second.lease.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Paths are compared as the servers know them: below namespace and chroot.
func TestMultiLockOrderIsOfTheServers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		ns, err := c.Namespace("/x")
		if err != nil {
			t.Fatal(err)
		}
		w.put(c, "/z")
		servers := w.servers
		w.servers = below{w.srv, "/z"}
		chrooted := w.client()
		w.servers = servers
		lease := w.acquireMulti(recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{
			recipes.NewInterProcessMutex(chrooted, "/a"), // /z/a
			recipes.NewInterProcessMutex(c, "/y"),
			recipes.NewInterProcessMutex(ns, "/b"), // /x/b
			recipes.NewInterProcessMutex(c, "/x/a"),
		}))
		var parents []string
		for _, l := range lease.Leases() {
			parent, _ := framework.SplitPath(l.Path())
			parents = append(parents, parent)
		}
		if want := []string{"/x/a", "/b", "/y", "/a"}; !slices.Equal(parents, want) {
			t.Errorf("acquired %v, want %v", parents, want)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

type below struct {
	*embedded.Server
	chroot string
}

func (b below) Chroot() string { return b.chroot }

// One deadline bounds the whole, not each lock. What was got by then is given
// back, in reverse order, and what comes after is not tried.
func TestMultiLockHasOneDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		a := w.acquire(recipes.NewInterProcessMutex(w.client(), several[0]))
		b := w.acquire(recipes.NewInterProcessMutex(w.client(), several[1]))
		time.AfterFunc(8*soon, func() { w.release(a) })
		ctx, cancel := context.WithTimeout(w.ctx, 10*soon)
		defer cancel()
		c := w.client()
		log := w.requests(of(c, op("create2")))
		began := time.Now()
		lease, err := multi(c, several...).Acquire(ctx)
		wantErr(t, "Acquire", err, context.DeadlineExceeded)
		if took := time.Since(began); took != 10*soon || lease != nil {
			t.Errorf("Acquire took %v, want %v, and returned %v", took, 10*soon, lease)
		}
		if !strings.Contains(err.Error(), "lock 2 of 3") || !strings.Contains(err.Error(), b.Path()) {
			t.Errorf("the error does not say what it waited for: %v", err)
		}
		w.settle()
		w.free(several[0], several[2])
		if slices.Contains(requested(log), several[2]) {
			t.Error("it went on after the failure")
		}
		_, err = multi(c, several...).TryAcquire(w.ctx)
		wantErr(t, "TryAcquire", err, recipes.ErrHeld)
		w.free(several[0], several[2])
		w.release(b)
	})
}

// A lock that cannot be had at all ends the call, and what was got is given
// back even if the giving back of one fails.
func TestMultiLockRollsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		const noAuth = -102
		refused := func(name, path string) func() {
			return w.srv.OnRequest(matcher(func(r embedded.Request) bool {
				return r.Op == name && strings.HasPrefix(r.Path, path+"/")
			}).answer(noAuth))
		}
		last, second := refused("create2", several[2]), refused("delete", several[1])
		_, err := multi(c, several...).Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrNoAuth)
		if msg := err.Error(); !strings.Contains(msg, "lock 3 of 3") || !strings.Contains(msg, "the node stays until its session ends") {
			t.Errorf("the error does not say all: %v", err)
		}
		last()
		second()
		w.free(several[0], several[2])
		w.isHeld(several[1])
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		w.free(several...)
	})
}

// All leases are released even if the release of one fails, which is told.
func TestMultiLeaseReleaseFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquireMulti(multi(c, several...))
		defer w.srv.OnRequest(of(c, func(r embedded.Request) bool {
			return r.Op == "delete" && !strings.HasPrefix(r.Path, several[1]+"/")
		}).answer(-102))()
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { errs[i] = lease.Release() })
		}
		wg.Wait()
		for _, err := range errs {
			wantErr(t, "Release", err, framework.ErrNoAuth)
			if err != errs[0] {
				t.Errorf("another call of Release returned another error: %v", err)
			}
		}
		msg := errs[0].Error()
		if c, a := strings.Index(msg, several[2]), strings.Index(msg, several[0]); c < 0 || a < c {
			t.Errorf("the error tells of the releases in another order: %v", msg)
		}
		w.free(several[1])
		w.isHeld(several[0], several[2])
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The loss of a lease ends the wait for the locks that come after it.
func TestMultiLockLosesWhatItHas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(w *world, c *framework.Client, node string)
		want error
	}{
		"node deleted": {func(w *world, _ *framework.Client, node string) { w.remove(w.client(), node) }, recipes.ErrLost},
		"session expired": {func(w *world, c *framework.Client, _ string) {
			_ = w.srv.ExpireSession(c.Session().ID())
		}, recipes.ErrLost},
		"revoked": {func(w *world, c *framework.Client, node string) {
			if err := recipes.Revoke(w.ctx, w.client(), node); err != nil {
				w.Error(err)
			}
		}, recipes.ErrRevoked},
		"client closed": {func(w *world, c *framework.Client, _ string) { _ = c.Close() }, recipes.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c, other := w.client(), w.client()
				holder := w.acquire(recipes.NewInterProcessMutex(w.client(), several[1]))
				waiting := w.attemptMulti(recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{
					recipes.NewInterProcessMutex(other, several[1]), // not of the client that ends
					recipes.NewInterProcessMutex(c, several[0], recipes.EndWhenRevoked()),
				}))
				w.settle()
				began := time.Now()
				tc.end(w, c, several[0]+"/"+w.children(other, several[0])[0])
				<-waiting.done
				wantErr(t, "Acquire", waiting.err, tc.want)
				if errors.Is(waiting.err, context.Canceled) {
					t.Errorf("Acquire says that its context ended: %v", waiting.err)
				}
				if took := time.Since(began); took > soon {
					t.Errorf("Acquire returned after %v", took)
				}
				w.settle()
				w.free(several[0])
				w.release(holder)
				w.free(several[1])
			})
		})
	}
}

// A lease that goes with the others' context: the first loss ends all that
// depends on any, and the rest can still be released.
func TestMultiLeaseLost(t *testing.T) {
	t.Parallel()
	for lost := range several {
		t.Run(several[lost], func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				lease := w.acquireMulti(multi(w.client(), several...))
				ctx := lease.Context(w.ctx)
				w.remove(w.client(), lease.Leases()[lost].Path())
				<-ctx.Done()
				<-lease.Done()
				for what, err := range map[string]error{"Err": lease.Err(), "the cause": context.Cause(ctx)} {
					wantErr(t, what, err, recipes.ErrLost)
					if !strings.Contains(err.Error(), several[lost]) {
						t.Errorf("%s does not name %s: %v", what, several[lost], err)
					}
				}
				if lease.State() != recipes.LeaseLost {
					t.Errorf("the state is %v", lease.State())
				}
				rest := slices.Delete(slices.Clone(several), lost, lost+1)
				w.isHeld(rest...)
				wantErr(t, "Release", lease.Release(), recipes.ErrLost)
				wantErr(t, "Err after Release", lease.Err(), recipes.ErrLost)
				w.free(several...)
			})
		})
	}
}

func TestMultiLeaseUnknownAndRevoked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, other := w.client(), w.client()
		lease := w.acquireMulti(recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{
			recipes.NewInterProcessMutex(c, several[0]),
			recipes.NewInterProcessMutex(other, several[1], recipes.EndWhenRevoked()),
		}))
		w.link(c).refuse(true)
		w.link(c).drop()
		w.settle()
		if lease.State() != recipes.LeaseUnknown || lease.Err() != nil {
			t.Errorf("with one client cut off: %v, %v", lease.State(), lease.Err())
		}
		w.link(c).refuse(false)
		w.eventually("the client is back", func() bool { return lease.State() == recipes.LeaseHeld })
		if err := recipes.Revoke(w.ctx, c, lease.Leases()[1].Path()); err != nil {
			t.Fatal(err)
		}
		<-lease.Done()
		wantErr(t, "Err", lease.Err(), recipes.ErrRevoked)
		if lease.State() != recipes.LeaseRevoked {
			t.Errorf("the state is %v", lease.State())
		}
		w.isHeld(several[0], several[1])
		if err := lease.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Whoever looks at a context looks at every clock that it depends on, also if
// the lease whose deadline has passed is not the innermost.
func TestContextsLookOutward(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, other := w.client(), w.client()
		lease := w.acquireMulti(recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{
			recipes.NewInterProcessMutex(c, several[0]),
			recipes.NewInterProcessMutex(other, several[1]),
		}))
		type key struct{}
		outer, inner := lease.Leases()[0], lease.Leases()[1]
		ctx := inner.Context(context.WithValue(outer.Context(w.ctx), key{}, 1))
		l := w.link(c)
		l.refuse(true)
		l.drop()
		time.Sleep(time.Until(outer.Session().Deadline())) // this goroutine is the first to wake up
		if ctx.Err() == nil || lease.Err() == nil {
			t.Errorf("past a deadline: %v, %v", ctx.Err(), lease.Err())
		}
		wantErr(t, "the cause", context.Cause(ctx), recipes.ErrLost)
		l.refuse(false)
		wantErr(t, "Release", lease.Release(), recipes.ErrLost)
		time.Sleep(2 * sessionTimeout)
	})
}

// Locks of all kinds, of several clients, as one: all are held, and given back.
// The writer's side of a lock comes before the reader's, which takes its place
// from it.
func TestMultiLockOfAllKinds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		kinds := func() []recipes.InterProcessLock {
			c, other := w.client(), w.client()
			rw := recipes.NewInterProcessReadWriteLock(c, "/k/rw")
			return []recipes.InterProcessLock{
				recipes.NewInterProcessSemaphore(other, "/k/semaphore", recipes.FixedLimit(1)),
				rw.WriteLock(),
				recipes.NewInterProcessMutex(c, "/k/mutex"),
				rw.ReadLock(),
				recipes.NewInterProcessSemaphoreMutex(other, "/k/semaphore-mutex"),
			}
		}
		m := recipes.NewInterProcessMultiLock(kinds())
		lease := w.acquireMulti(m)
		var parents []string
		for _, l := range lease.Leases() {
			parents = append(parents, strings.Join(strings.Split(l.Path(), "/")[:3], "/"))
		}
		if want := []string{"/k/mutex", "/k/rw", "/k/rw", "/k/semaphore", "/k/semaphore-mutex"}; !slices.Equal(parents, want) {
			t.Errorf("acquired %v, want %v", parents, want)
		}
		if l := lease.Leases(); l[1].Token() != l[2].Token() || lease.Token() != l[4].Token() {
			t.Errorf("tokens %#x", lease.Token())
		}
		for _, l := range kinds() {
			_, err := l.TryAcquire(w.ctx)
			wantErr(t, "TryAcquire of "+l.Path(), err, recipes.ErrHeld)
		}
		waiting := w.attemptMulti(recipes.NewInterProcessMultiLock(kinds()))
		w.settle()
		ctx := lease.Context(w.ctx)
		w.remove(w.client(), lease.Leases()[3].Path()) // the semaphore's permit
		<-ctx.Done()
		wantErr(t, "the cause", context.Cause(ctx), recipes.ErrLost)
		if waiting.returned() {
			t.Errorf("others got the locks: %v", waiting.err)
		}
		wantErr(t, "Release", lease.Release(), recipes.ErrLost)
		<-waiting.done
		if waiting.err != nil {
			t.Fatalf("the next: %v", waiting.err)
		}
		if waiting.lease.Token() <= lease.Token() {
			t.Errorf("token %#x after %#x", waiting.lease.Token(), lease.Token())
		}
		if err := waiting.lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A reader that would write waits for itself, which is told at once.
func TestMultiLockReaderCannotWrite(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := recipes.NewInterProcessReadWriteLock(w.client(), "/k/rw")
		_, err := recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{rw.ReadLock(), rw.WriteLock()}).Acquire(w.ctx)
		wantErr(t, "Acquire", err, recipes.ErrDeadlock)
		w.settle()
		if left := w.ephemerals(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// Contexts carry all the holds, a lock in the set twice is one hold, and the
// holds last as long as their last lease.
func TestMultiLockReenters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := multi(c, several[0], several[1], several[0])
		lease := w.acquireMulti(m)
		if l := lease.Leases(); l[0].Token() != l[1].Token() {
			t.Errorf("the same lock has tokens %#x and %#x", l[0].Token(), l[1].Token())
		}
		w.settle() // each holder sets a watch on its node behind the grant
		log := w.requests(of(c, isWork))
		again, err := m.TryAcquire(lease.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("re-entry sent %v", ops)
		}
		inner := again.Context(w.ctx)
		single, err := recipes.NewInterProcessMutex(c, several[1]).TryAcquire(inner)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Release(); err != nil {
			t.Error(err)
		}
		<-again.Done()
		wantErr(t, "the released re-entry", again.Err(), recipes.ErrReleased)
		if lease.Err() != nil || isDone(inner) {
			t.Errorf("the hold ended with its re-entry: %v", lease.Err())
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		w.free(several[0])
		w.isHeld(several[1])
		w.release(single)
		w.free(several[1])
	})
}

// Inside ZooKeeper, a write depends on all the leases.
func TestMultiLeaseChecks(t *testing.T) {
	t.Parallel()
	for lost := range several {
		t.Run(several[lost], func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				lease := w.acquireMulti(multi(c, several...))
				checks := lease.Checks()
				write := func(path string) error {
					_, err := c.Multi(w.ctx, append(checks, framework.CreateOp(path, nil, framework.Persistent))...)
					return err
				}
				if err := write("/first"); err != nil {
					t.Errorf("while held: %v", err)
				}
				w.remove(w.client(), lease.Leases()[lost].Path())
				wantErr(t, "a write after a loss", write("/second"), recipes.ErrLost)
				if _, ok := w.srv.Node("/second"); ok {
					t.Error("the write took place")
				}
				wantErr(t, "Release", lease.Release(), recipes.ErrLost)
			})
		})
	}
}

func TestMultiLockDo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		m := multi(w.client(), several...)
		wrong := errors.New("wrong")
		err := m.Do(w.ctx, func(ctx context.Context, lease *recipes.MultiLease) error {
			w.isHeld(several...)
			return wrong
		})
		wantErr(t, "Do", err, wrong)
		w.free(several...)
		err = m.Do(w.ctx, func(ctx context.Context, lease *recipes.MultiLease) error {
			w.remove(w.client(), lease.Leases()[1].Path())
			<-ctx.Done()
			return nil
		})
		wantErr(t, "Do that lost a lock", err, recipes.ErrLost)
		w.free(several...)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = m.Do(w.ctx, func(context.Context, *recipes.MultiLease) error { panic("from fn") })
		}()
		w.free(several...)
	})
}

func TestMultiLockInvalid(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		good := recipes.NewInterProcessMutex(c, several[0])
		var none *recipes.InterProcessMutex
		for name, tc := range map[string]struct {
			locks []recipes.InterProcessLock
			opts  []recipes.MultiOption
			want  error
			text  string
		}{
			"empty":      {nil, nil, framework.ErrInvalidOption, "no locks"},
			"nil":        {[]recipes.InterProcessLock{good, nil}, nil, framework.ErrInvalidOption, "lock 1"},
			"typed nil":  {[]recipes.InterProcessLock{none, good}, nil, framework.ErrInvalidOption, "lock 0"},
			"bad path":   {[]recipes.InterProcessLock{good, recipes.NewInterProcessMutex(c, "x/")}, nil, framework.ErrInvalidPath, "lock 1"},
			"nil option": {[]recipes.InterProcessLock{good}, []recipes.MultiOption{nil}, framework.ErrInvalidOption, "option 0"},
		} {
			log := w.requests(isWork)
			m := recipes.NewInterProcessMultiLock(tc.locks, tc.opts...)
			_, err := m.Acquire(w.ctx)
			_, err2 := m.TryAcquire(w.ctx)
			for _, err := range []error{err, err2, m.Do(w.ctx, nil)} {
				wantErr(t, name, err, tc.want)
				if err != nil && !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%s: the error does not name %q: %v", name, tc.text, err)
				}
			}
			if ops := log.ops(); len(ops) > 0 {
				t.Errorf("%s: sent %v", name, ops)
			}
			log.stop()
		}
		_, err := new(recipes.InterProcessMultiLock).Acquire(w.ctx)
		wantErr(t, "Acquire of the zero value", err, framework.ErrInvalidOption)
		wantErr(t, "Do without a function", multi(c, several...).Do(w.ctx, nil), framework.ErrInvalidOption)
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err = multi(c, several...).Acquire(ctx)
		wantErr(t, "Acquire with a done context", err, context.Canceled)
	})
}

// A panic at any step, recovered by the caller, leaves nothing: not in the
// lines, and not of what was acquired before. Nor does it keep a release from
// releasing the rest.
func TestPanicInMultiLock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op string
		n  int // the call that panics
	}{
		"first create": {"create2", 1}, "second create": {"create2", 2}, "third create": {"create2", 3},
		"first delete": {"delete", 1}, "second delete": {"delete", 2}, "third delete": {"delete", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				for _, path := range several { // so that each create is one operation
					w.release(w.acquire(recipes.NewInterProcessMutex(w.client(), path)))
				}
				hook := &panickingAt{op: tc.op, n: tc.n}
				m := multi(w.client(framework.WithHooks(hook)), several...)
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the hook did not panic")
						}
					}()
					lease, err := m.TryAcquire(w.ctx)
					if err != nil {
						t.Error(err)
						return
					}
					_ = lease.Release()
				}()
				time.Sleep(soon)
				if left := len(w.ephemerals()); tc.op == "create2" && left > 0 {
					t.Errorf("%d nodes are left", left)
				}
				for i, path := range several {
					if tc.op != "delete" || i != len(several)-tc.n { // the deletion that panicked was carried out or not
						w.free(path)
					}
				}
			})
		})
	}
}

// A panickingAt is a hook whose n'th call for an operation panics.
type panickingAt struct {
	op string
	mu sync.Mutex
	n  int
}

func (h *panickingAt) OnOperation(_ context.Context, info framework.OperationInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if info.Op == h.op {
		if h.n--; h.n == 0 {
			panic("from a hook")
		}
	}
}

// Once its context is done, an Acquire does not wait for what it has to give
// back, with a connection or without one.
func TestMultiLockCancelledWithoutConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		holder := w.acquire(recipes.NewInterProcessMutex(w.client(), several[2]))
		c := w.client()
		waiting := w.attemptMulti(multi(c, several...))
		w.settle()
		w.link(c).refuse(true)
		w.link(c).drop()
		time.Sleep(soon)
		began := time.Now()
		waiting.cancel()
		<-waiting.done
		wantErr(t, "Acquire", waiting.err, context.Canceled)
		if took := time.Since(began); took > soon/10 {
			t.Errorf("Acquire returned %v after its context's end", took)
		}
		w.link(c).refuse(false)
		w.eventually("the nodes are gone", func() bool { return len(w.ephemerals()) == 1 })
		w.free(several[0], several[1])
		w.release(holder)
	})
}

// Many who want some of the locks, in any order, all get them.
func TestMultiLockCrowd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		paths := []string{"/l/a", "/l/b", "/l/c", "/l/d", "/l/e"}
		var mu sync.Mutex
		holders := make(map[string]int)
		var wg sync.WaitGroup
		for i := range 4 {
			c, rnd := w.client(), rand.New(rand.NewPCG(uint64(i), 4))
			for range 3 {
				order := rnd.Perm(len(paths))
				wg.Go(func() {
					for n := range 10 {
						var set []string
						for _, p := range order[:2+n%3] {
							set = append(set, paths[p])
						}
						slices.Reverse(order)
						lease, err := multi(c, set...).Acquire(w.ctx)
						if err != nil {
							t.Error(err)
							return
						}
						count := func(d int) {
							mu.Lock()
							defer mu.Unlock()
							for _, p := range set {
								if holders[p] += d; holders[p] > 1 {
									t.Errorf("%s has %d holders", p, holders[p])
								}
							}
						}
						count(1)
						time.Sleep(moment)
						count(-1)
						if err := lease.Release(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// Every fault, at every request of acquiring and releasing three locks, one of
// which somebody else holds for a while: nothing is left, all can be had
// again, and the error says what happened.
func TestMultiLockFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			atEveryStep(t, 6, func(step int) (struck bool) {
				inBubble(t, func(w *world) { struck = w.strikeMultiAt(step, f) })
				return struck
			})
		})
	}
}

func (w *world) strikeMultiAt(step int, f fault) (struck bool) {
	c, other := w.client(), w.client()
	holder := w.acquire(recipes.NewInterProcessMutex(other, several[1]))
	time.AfterFunc(soon, func() { w.release(holder) })
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	returned := make(chan struct{})
	s := &strike{world: w, cancel: cancel, returned: returned}
	disarm := w.arm(step, f, s, &struck, other.Session().ID(), isWork)

	began := time.Now()
	lease, err := multi(c, several...).Acquire(ctx)
	close(returned)
	what := fmt.Sprintf("step %d", step)
	if took := time.Since(began); f.cancels && took > 2*soon {
		w.Errorf("%s: Acquire took %v: %v", what, took, err)
	}
	switch {
	case err == nil:
		w.releaseMulti(what, f, lease)
	case f.cancels:
		wantErr(w, what, err, context.Canceled)
	case f.ends || f.deletes:
		wantErr(w, what, err, recipes.ErrLost)
	default:
		w.Errorf("%s: Acquire: %v", what, err)
	}
	time.Sleep(soon) // until the holder has released
	within := soon
	switch {
	case f.ends:
		within = 3 * sessionTimeout
	case f.outage:
		within = sessionTimeout / 2
	}
	began = time.Now()
	next, err := multi(other, several...).Acquire(w.ctx)
	if err != nil {
		w.Fatalf("%s: afterwards: %v", what, err)
	}
	if took := time.Since(began); took > within {
		w.Errorf("%s: afterwards the locks were to be had after %v", what, took)
	}
	if err := next.Release(); err != nil {
		w.Errorf("%s: afterwards: %v", what, err)
	}
	if f.ends {
		within = 2 * sessionTimeout // the old session's nodes go with it
	}
	time.Sleep(within)
	if left := w.ephemerals(); len(left) > 0 {
		w.Errorf("%s: left behind: %v", what, left)
	}
	disarm()
	w.srv.Unsilence()
	return struck
}

func (w *world) releaseMulti(what string, f fault, lease *recipes.MultiLease) {
	w.Helper()
	time.Sleep(soon / 10)
	lost := lease.Err()
	err := lease.Release()
	switch {
	case lost != nil:
		wantErr(w, what+": Release", err, recipes.ErrLost)
		if !f.ends && !f.deletes {
			w.Errorf("%s: the lease was lost: %v", what, lost)
		}
	case f.ends && (errors.Is(err, framework.ErrSessionLost) || errors.Is(err, recipes.ErrLost)):
	case f.deletes && errors.Is(err, recipes.ErrLost):
	case err != nil:
		w.Errorf("%s: Release: %v", what, err)
	}
}

func (a *multiAttempt) returned() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}
