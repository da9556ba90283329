package recipes_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// roundTrip is the latency of links in tests that count round trips.
const roundTrip = 10 * time.Millisecond

func TestAcquireAndReleaseTakeOneRoundTripEach(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		w.release(w.acquire(m)) // makes the parents
		w.settle()
		w.link(c).latency.Store(int64(roundTrip))

		began := time.Now()
		lease := w.acquire(m)
		if took := time.Since(began); took != roundTrip {
			t.Errorf("an uncontended acquire took %v, want one round trip of %v", took, roundTrip)
		}
		time.Sleep(soon) // the own node's watch is set, off the critical path
		began = time.Now()
		w.release(lease)
		if took := time.Since(began); took != roundTrip {
			t.Errorf("a release took %v, want one round trip of %v", took, roundTrip)
		}
	})
}

// If the predecessor was the only one ahead, the event of its deletion is the
// grant: nothing is asked of the server between the two.
func TestHandOffIsOneMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquire(w.mutex())
		waiting := w.queue(recipes.NewInterProcessMutex(c, root))[0]
		defer w.srv.OnRequest(of(c, func(r embedded.Request) bool {
			return isWork(r) && !waiting.returned()
		}).hold())()
		began := time.Now()
		w.release(lease)
		next := w.wait(waiting)
		if took := time.Since(began); took > 0 {
			t.Errorf("the hand-off took %v", took)
		}
		w.release(next)
	})
}

// The contenders' nodes have the form of Curator's, their parents are
// containers, and their data says who they are.
func TestNodesAreCurators(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		_, name := framework.SplitPath(lease.Path())
		if len(name) != len("_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-lock-0000000000") ||
			!strings.HasPrefix(name, "_c_") || !strings.HasSuffix(name, "-lock-0000000000") {
			t.Errorf("the node is called %q", name)
		}
		node, _ := w.srv.Node(lease.Path())
		if node.Mode != "ephemeral" || node.Owner != lease.Session().ID() || node.Czxid != lease.Token() {
			t.Errorf("the node is %+v", node)
		}
		if host, pid, ok := strings.Cut(string(node.Data), ":"); !ok || host == "" || pid == "" {
			t.Errorf("the node holds %q, want host:pid", node.Data)
		}
		for _, parent := range []string{"/locks", root} {
			if node, _ := w.srv.Node(parent); node.Mode != "container" {
				t.Errorf("%s is %s, want a container", parent, node.Mode)
			}
		}
		w.release(lease)
	})
}

func TestWithData(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		data := []byte("worker 7")
		m := w.mutex(recipes.WithData(data))
		data[0] = 'W'
		lease := w.acquire(m)
		if node, _ := w.srv.Node(lease.Path()); string(node.Data) != "worker 7" || string(lease.Data()) != "worker 7" {
			t.Errorf("the node holds %q, the lease %q", node.Data, lease.Data())
		}
		w.release(lease)
	})
}

func TestDoneContextFailsBeforeAnyIO(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		m := w.mutex()
		log := w.requests(isWork)
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(w.ctx)
		cancel(why)
		_, err := m.Acquire(ctx)
		wantErr(t, "Acquire", err, context.Canceled, why)
		_, err = m.TryAcquire(ctx)
		wantErr(t, "TryAcquire", err, context.Canceled, why)
		_, err = m.Participants(ctx)
		wantErr(t, "Participants", err, context.Canceled, why)
		err = m.Do(ctx, func(context.Context, *recipes.Lease) error {
			t.Error("Do called the function")
			return nil
		})
		wantErr(t, "Do", err, context.Canceled, why)
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex(recipes.WithData([]byte("the holder"))))
		m := w.mutex()
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		_, err := m.Acquire(ctx)
		wantErr(t, "Acquire", err, context.DeadlineExceeded)
		for _, want := range []string{root, lease.Path(), `"the holder"`, "waited 3s", "1 ahead"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		w.settle()
		if n := len(w.ephemerals()); n != 1 {
			t.Errorf("%d nodes are left, want the holder's", n)
		}
		w.release(lease)
	})
}

// The end of the context is the end of the wait, however slow the servers are
// and whatever they answer: what is left to do goes on without the caller.
func TestContextBoundsTheWait(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w *world, c *framework.Client){
		"slow network":   func(w *world, c *framework.Client) { w.link(c).latency.Store(int64(soon)) },
		"silent network": func(w *world, c *framework.Client) { w.link(c).silence() },
		"no network": func(w *world, c *framework.Client) {
			w.link(c).refuse(true)
			w.link(c).drop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				lease := w.acquire(w.mutex())
				c := w.client()
				waiting := w.queue(recipes.NewInterProcessMutex(c, root))[0]
				fault(w, c)
				began := time.Now()
				waiting.cancel()
				<-waiting.done
				wantErr(t, "Acquire", waiting.err, context.Canceled)
				if late := time.Since(began); late > 0 {
					t.Errorf("Acquire returned %v after its context ended", late)
				}
				time.Sleep(3 * sessionTimeout)
				if left := w.ephemerals(); len(left) != 1 {
					t.Errorf("in line are %v, want the holder", left)
				}
				w.link(c).refuse(false)
				w.release(lease)
			})
		})
	}
}

func TestTryAcquire(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		a, b := w.mutex(recipes.WithData([]byte("the holder"))), w.mutex()
		lease, err := a.TryAcquire(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.granted(root, lease)
		began := time.Now()
		_, err = b.TryAcquire(w.ctx)
		wantErr(t, "TryAcquire of a held lock", err, recipes.ErrHeld)
		if err != nil && !strings.Contains(err.Error(), "the holder") {
			t.Errorf("the error does not say who holds: %v", err)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("TryAcquire waited %v", waited)
		}
		if n := len(w.ephemerals()); n != 1 {
			t.Errorf("%d nodes are left, want the holder's", n)
		}
		w.release(lease)
		lease, err = b.TryAcquire(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.granted(root, lease)
		w.release(lease)
	})
}

func TestMalformedPathOrOption(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		log := w.requests(isWork)
		for name, m := range map[string]*recipes.InterProcessMutex{
			`"locks"`:      recipes.NewInterProcessMutex(c, "locks"),
			`"/locks/"`:    recipes.NewInterProcessMutex(c, "/locks/"),
			`"/"`:          recipes.NewInterProcessMutex(c, "/"),
			`""`:           recipes.NewInterProcessMutex(c, ""),
			"client":       recipes.NewInterProcessMutex(nil, root),
			`"__REVOKE__"`: recipes.NewInterProcessMutex(c, root, recipes.WithData([]byte("__REVOKE__"))),
			"listener":     recipes.NewInterProcessMutex(c, root, recipes.WithRevocationListener(nil)),
			"option 1":     recipes.NewInterProcessMutex(c, root, recipes.EndWhenRevoked(), nil),
		} {
			want := framework.ErrInvalidPath
			if name[0] != '"' || strings.Contains(name, "REVOKE") {
				want = framework.ErrInvalidOption
			}
			_, err := m.Acquire(w.ctx)
			wantErr(t, name, err, want)
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name %s: %v", name, err)
			}
			_, err = m.TryAcquire(w.ctx)
			wantErr(t, name, err, want)
			_, err = m.Participants(w.ctx)
			wantErr(t, name, err, want)
			wantErr(t, name, m.Release(nil), want)
			wantErr(t, name, m.Do(w.ctx, nil), want)
			if path := m.Path(); path != root && strconv.Quote(path) != name {
				t.Errorf("%s: the mutex's path is %q", name, path)
			}
		}
		wantErr(t, "Do(nil)", recipes.NewInterProcessMutex(c, root).Do(w.ctx, nil), framework.ErrInvalidOption)
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
	})
}

func TestReleaseByMutex(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		a, b := recipes.NewInterProcessMutex(c, root), recipes.NewInterProcessMutex(c, root+"-2")
		lease := w.acquire(a)
		wantErr(t, "Release(nil)", a.Release(nil), recipes.ErrNotHeld)
		wantErr(t, "another lock's Release", b.Release(lease), recipes.ErrNotHeld)
		wantErr(t, "another client's Release", w.mutex().Release(lease), recipes.ErrNotHeld)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
		if err := a.Release(lease); err != nil {
			t.Error(err)
		}
		if err := a.Release(lease); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	inBubble(t, func(w *world) {
		m, other := w.mutex(), w.client()
		var inner context.Context
		err := m.Do(w.ctx, func(ctx context.Context, lease *recipes.Lease) error {
			inner = ctx
			if lease.State() != recipes.LeaseHeld || ctx.Err() != nil {
				t.Errorf("within Do the lease is %v, the context %v", lease.State(), ctx.Err())
			}
			return m.Do(ctx, func(ctx context.Context, again *recipes.Lease) error { // re-enters
				if again.Token() != lease.Token() {
					t.Errorf("re-entry has token %#x, want %#x", again.Token(), lease.Token())
				}
				return broken
			})
		})
		wantErr(t, "Do", err, broken)
		wantErr(t, "the cause after Do", context.Cause(inner), recipes.ErrReleased)
		if n := len(w.ephemerals()); n != 0 {
			t.Errorf("%d nodes are left", n)
		}

		err = m.Do(w.ctx, func(ctx context.Context, lease *recipes.Lease) error {
			w.remove(other, lease.Path())
			<-ctx.Done()
			return nil
		})
		wantErr(t, "Do after a loss", err, recipes.ErrLost)

		func() {
			defer func() {
				if r := recover(); r != "panic" {
					t.Errorf("Do recovered %v", r)
				}
			}()
			_ = m.Do(w.ctx, func(context.Context, *recipes.Lease) error { panic("panic") })
		}()
	})
}

func TestAcquireOnClosedOrUnstartedClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		waiting := w.queue(m)[0]
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-waiting.done
		wantErr(t, "the waiting Acquire", waiting.err, recipes.ErrClosed, framework.ErrClosed)
		if ctx.Err() == nil {
			t.Error("the lease's context goes on")
		}
		wantErr(t, "the lease", lease.Err(), recipes.ErrClosed)
		wantErr(t, "the lease's context", context.Cause(ctx), recipes.ErrClosed)
		wantErr(t, "Release", lease.Release(), recipes.ErrClosed)
		_, err := m.Acquire(w.ctx)
		wantErr(t, "Acquire", err, recipes.ErrClosed)
		if n := len(w.ephemerals()); n != 0 {
			t.Errorf("%d nodes are left", n)
		}

		idle, err := framework.New(w.servers)
		if err != nil {
			t.Fatal(err)
		}
		_, err = recipes.NewInterProcessMutex(idle, root).Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrNotStarted)
	})
}

// Views of one client are one owner, and the lock is where the namespace says.
func TestNamespace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		view, err := c.Namespace("locks")
		if err != nil {
			t.Fatal(err)
		}
		m := recipes.NewInterProcessMutex(view, "/report")
		lease := w.acquire(m)
		if !strings.HasPrefix(lease.Path(), "/report/") {
			t.Errorf("the lease's path is %s", lease.Path())
		}
		if _, ok := w.srv.Node("/locks" + lease.Path()); !ok {
			t.Errorf("there is no node /locks%s", lease.Path())
		}
		if _, err := view.Multi(w.ctx, lease.Check()); err != nil {
			t.Errorf("Check: %v", err)
		}
		_, err = w.mutex().TryAcquire(w.ctx)
		wantErr(t, "TryAcquire from outside the namespace", err, recipes.ErrHeld)
		again, err := recipes.NewInterProcessMutex(c, root).TryAcquire(lease.Context(w.ctx))
		if err != nil {
			t.Fatalf("re-entry from outside the namespace: %v", err)
		}
		w.release(again)
		w.release(lease)
	})
}

// The server's refusal is final, at once, and named.
func TestNoRights(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		w.put(c, root, framework.WithACL(framework.WorldACL(framework.PermRead)...))
		began := time.Now()
		_, err := w.mutex().Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrNoAuth)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it took %v", waited)
		}
		if err != nil && !strings.Contains(err.Error(), root) {
			t.Errorf("the error does not name the path: %v", err)
		}
	})
}

// A reader's refusal comes with the line already joined: the node must go.
func TestRefusedWhileWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		c := w.client()
		defer w.srv.OnRequest(of(c, op("getData")).answer(-102))()
		_, err := recipes.NewInterProcessMutex(c, root).Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrNoAuth)
		if n := len(w.ephemerals()); n != 1 {
			t.Errorf("%d nodes are left, want the holder's", n)
		}
		w.release(lease)
	})
}

func TestDataOverTheLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		m := w.mutex(recipes.WithData(make([]byte, 1<<20)))
		_, err := m.Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrTooLarge)
	})
}

// Whoever may create and not delete cannot leave the line: the error says so.
func TestNodeThatMayNotBeDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		acl := framework.WorldACL(framework.PermAll &^ framework.PermDelete)
		if _, err := c.Create(w.ctx, "/l", nil, framework.WithACL(acl...)); err != nil {
			w.Fatal(err)
		}
		m := recipes.NewInterProcessMutex(c, "/l")
		lease, err := m.Acquire(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		_, err = m.TryAcquire(w.ctx)
		wantErr(w, "TryAcquire", err, recipes.ErrHeld)
		wantErr(w, "TryAcquire", err, framework.ErrNoAuth)
		wantErr(w, "Release", lease.Release(), framework.ErrNoAuth)
		w.returned(lease)
		if _, err := c.SetACL(w.ctx, "/l", framework.WorldACL(framework.PermAll), framework.AnyVersion); err != nil {
			w.Fatal(err)
		}
		if err := c.Delete(w.ctx, "/l", framework.AnyVersion, framework.WithChildren()); err != nil {
			w.Fatal(err)
		}
	})
}

func TestReleaseOfTheZeroLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		wantErr(w, "Release", w.mutex().Release(new(recipes.Lease)), recipes.ErrNotHeld)
	})
}
