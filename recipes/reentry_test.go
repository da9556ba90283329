package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/recipes"
)

// Contexts of a lease re-enter, without I/O, with the same token; the
// lock goes with the last release, in any order.
func TestReentry(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				m := recipes.NewInterProcessMutex(c, root)
				first := w.acquire(m)
				w.settle()
				waiting := w.queue(w.mutex())[0]
				log := w.requests(of(c, isWork))
				ctx := first.Context(w.ctx)
				second, err := m.Acquire(ctx)
				if err != nil {
					t.Fatal(err)
				}
				// Another handle of the same lock, and a context made from that
				// of a re-entry.
				type key struct{}
				ctx3, cancel := context.WithCancel(context.WithValue(second.Context(ctx), key{}, 1))
				defer cancel()
				third, err := recipes.NewInterProcessMutex(c, root).TryAcquire(ctx3)
				if err != nil {
					t.Fatal(err)
				}
				leases := []*recipes.Lease{first, second, third}
				for _, l := range leases {
					if l.Token() != first.Token() || l.Path() != first.Path() {
						t.Errorf("a re-entry has token %#x of %s", l.Token(), l.Path())
					}
				}
				if ops := log.ops(); len(ops) > 0 {
					t.Errorf("re-entry sent %v", ops)
				}
				for n, i := range order {
					if ctx.Err() != nil {
						t.Errorf("the context ended after %d releases of 3", n)
					}
					if waiting.returned() {
						t.Errorf("another was granted after %d releases of 3", n)
					}
					w.returned(leases[i])
					if err := leases[i].Release(); err != nil {
						t.Error(err)
					}
					if err := leases[i].Release(); err != nil {
						t.Errorf("a second release: %v", err)
					}
					wantErr(t, "a released lease", leases[i].Err(), recipes.ErrReleased)
					w.settle()
				}
				wantErr(t, "the context's cause", context.Cause(ctx), recipes.ErrReleased)
				w.release(w.wait(waiting))
			})
		})
	}
}

// A context of a lease that is over never re-enters, and never gets a lock of
// its own: not even past its own end.
func TestReentryWithDeadLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(w *world, lease *recipes.Lease)
		want error
	}{
		"released": {func(w *world, l *recipes.Lease) { w.release(l) }, recipes.ErrReleased},
		"lost": {func(w *world, l *recipes.Lease) {
			w.returned(l)
			w.remove(w.client(), l.Path())
			w.settle()
		}, recipes.ErrLost},
		"expired, and not yet heard of it": {func(w *world, l *recipes.Lease) {
			w.returned(l)
			for _, link := range w.links {
				link.refuse(true)
				link.drop()
			}
			time.Sleep(time.Until(l.Session().Deadline()))
		}, recipes.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				m := recipes.NewInterProcessMutex(c, root)
				lease := w.acquire(m)
				w.settle()
				ctx := lease.Context(w.ctx)
				tc.end(w, lease)
				log := w.requests(isWork)
				for what, ctx := range map[string]context.Context{
					"its context":                 ctx,
					"its context, without cancel": context.WithoutCancel(ctx),
					"a context made afterwards":   context.WithoutCancel(lease.Context(w.ctx)),
				} {
					_, err := m.Acquire(ctx)
					wantErr(t, "Acquire with "+what, err, tc.want)
					_, err = m.TryAcquire(ctx)
					wantErr(t, "TryAcquire with "+what, err, tc.want)
					err = m.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
					wantErr(t, "Do with "+what, err, tc.want)
				}
				_, err := m.Acquire(ctx)
				wantErr(t, "Acquire with a done context", err, context.Canceled)
				if ops := log.ops(); len(ops) > 0 {
					t.Errorf("requests were sent: %v", ops)
				}
				for _, link := range w.links {
					link.refuse(false)
				}
				w.release(w.acquire(m)) // with a plain context
			})
		})
	}
}

// A context made by a lease that was released, while the hold goes on.
func TestContextOfReleasedLeaseOfLivingHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		m := w.mutex()
		first := w.acquire(m)
		before := first.Context(w.ctx)
		second, err := m.Acquire(before)
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		after := first.Context(w.ctx)
		if !isDone(after) {
			t.Error("a released lease made a context that goes on")
		}
		_, err = m.Acquire(context.WithoutCancel(after))
		wantErr(t, "Acquire", err, recipes.ErrReleased)
		third, err := m.Acquire(before) // the hold is what counts
		if err != nil {
			t.Errorf("Acquire with a context of the hold: %v", err)
		} else if err := third.Release(); err != nil {
			t.Error(err)
		}
		w.returned(first)
		w.release(second)
	})
}

// A plain context is a new contender; so is one of another lock's lease, and
// one of the same path in another client.
func TestNoReentry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m, other := recipes.NewInterProcessMutex(c, root), recipes.NewInterProcessMutex(c, root+"-2")
		lease := w.acquire(m)
		otherLease, err := other.Acquire(lease.Context(w.ctx)) // no re-entry: another lock
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.TryAcquire(w.ctx)
		wantErr(t, "TryAcquire with a plain context", err, recipes.ErrHeld)
		_, err = m.TryAcquire(otherLease.Context(w.ctx))
		wantErr(t, "TryAcquire with another lock's context", err, recipes.ErrHeld)
		_, err = w.mutex().TryAcquire(lease.Context(w.ctx))
		wantErr(t, "TryAcquire through another client", err, recipes.ErrHeld)
		// A context of both re-enters both, and a dead one of the two does not
		// stand in the way of the other.
		both := otherLease.Context(lease.Context(w.ctx))
		again, err := m.TryAcquire(both)
		if err != nil {
			t.Errorf("TryAcquire with both locks' context: %v", err)
		} else {
			w.release(again)
		}
		outer := lease.Context(otherLease.Context(w.ctx))
		w.release(otherLease)
		again, err = m.TryAcquire(context.WithoutCancel(outer))
		if err != nil {
			t.Errorf("TryAcquire with a context of a dead lease of another lock: %v", err)
		} else {
			w.release(again)
		}
		w.release(lease)
	})
}

// Re-entry counts while others release and re-enter.
func TestReentryConcurrently(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		m := w.mutex()
		for range 20 {
			lease := w.acquire(m)
			ctx := lease.Context(w.ctx)
			done := make(chan struct{})
			for range 8 {
				go func() {
					defer func() { done <- struct{}{} }()
					for range 10 {
						again, err := m.Acquire(ctx)
						if err != nil {
							wantErr(t, "Acquire", err, recipes.ErrReleased)
							return
						}
						if again.Token() != lease.Token() {
							t.Errorf("token %#x, want %#x", again.Token(), lease.Token())
						}
						if err := again.Release(); err != nil {
							t.Error(err)
						}
					}
				}()
			}
			w.release(lease)
			for range 8 {
				<-done
			}
			wantErr(t, "the lease", lease.Err(), recipes.ErrReleased)
		}
	})
}

// Who waits for a lock of his own client is told, in the log and in the error:
// it may be that the lease's context was not passed on. It is no error, since
// two goroutines may well exclude each other.
func TestWaitForOwnClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		const told = "waiting for a lock that this client holds"
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		lease := w.acquire(m)
		try := func(m *recipes.InterProcessMutex) error {
			ctx, cancel := context.WithTimeout(w.ctx, soon)
			defer cancel()
			_, err := m.Acquire(ctx) // not the lease's context
			wantErr(t, "Acquire", err, context.DeadlineExceeded)
			return err
		}
		if err := try(w.mutex()); strings.Contains(err.Error(), "this client") || strings.Contains(w.log.String(), told) {
			t.Errorf("another client is told that it holds the lock: %v\n%s", err, w.log.String())
		}
		for range 3 {
			if err := try(m); !strings.Contains(err.Error(), "(held by this client)") {
				t.Errorf("the error does not say who holds: %v", err)
			}
		}
		if n := strings.Count(w.log.String(), told); n != 1 {
			t.Errorf("the log tells it %d times, want once:\n%s", n, w.log.String())
		}
		w.settle() // the last one has left
		_, err := m.TryAcquire(w.ctx)
		wantErr(t, "TryAcquire", err, recipes.ErrHeld)
		if !strings.Contains(err.Error(), "(held by this client)") {
			t.Errorf("the error does not say who holds: %v", err)
		}
		w.settle()
		// One who waits behind another's waiter waits for that one first.
		between := w.queue(w.mutex())[0]
		if err := try(m); strings.Contains(err.Error(), "held by this client") {
			t.Errorf("the one before does not hold: %v", err)
		}
		waiting := w.queue(m)[0]
		w.release(lease)
		w.release(w.wait(between))
		w.release(w.wait(waiting))
	})
}

// A lease is at home in the view that it was asked of.
func TestReentryThroughAnotherView(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		view, err := c.Namespace("ns")
		if err != nil {
			w.Fatal(err)
		}
		lease := w.acquire(recipes.NewInterProcessMutex(c, "/ns/lock"))
		again, err := recipes.NewInterProcessMutex(view, "/lock").Acquire(lease.Context(w.ctx))
		if err != nil {
			w.Fatal(err)
		}
		if _, _, err := view.Get(w.ctx, again.Path()); err != nil {
			w.Errorf("the node by its path in the view: %v", err)
		}
		if _, _, err := c.Get(w.ctx, lease.Path()); err != nil {
			w.Errorf("the node by its path without one: %v", err)
		}
		if _, err := view.Multi(w.ctx, again.Check()); err != nil {
			w.Errorf("Check: %v", err)
		}
		w.release(again)
		w.release(lease)
	})
}
