package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func TestLeaseContextEnds(t *testing.T) {
	t.Parallel()
	type key struct{}
	why := errors.New("the caller's reason")
	for name, tc := range map[string]struct {
		end   func(w *world, c *framework.Client, lease *recipes.Lease, cancel context.CancelCauseFunc)
		cause []error
		opts  []recipes.Option
	}{
		"release": {
			end:   func(w *world, _ *framework.Client, l *recipes.Lease, _ context.CancelCauseFunc) { w.release(l) },
			cause: []error{recipes.ErrReleased},
		},
		"parent": {
			end:   func(_ *world, _ *framework.Client, _ *recipes.Lease, cancel context.CancelCauseFunc) { cancel(why) },
			cause: []error{why},
		},
		"node deleted": {
			end: func(w *world, _ *framework.Client, l *recipes.Lease, _ context.CancelCauseFunc) {
				w.remove(w.client(), l.Path())
			},
			cause: []error{recipes.ErrLost},
		},
		"session expired": {
			end: func(w *world, _ *framework.Client, l *recipes.Lease, _ context.CancelCauseFunc) {
				if err := w.srv.ExpireSession(l.Session().ID()); err != nil {
					t.Error(err)
				}
			},
			cause: []error{recipes.ErrLost, framework.ErrSessionLost},
		},
		"client closed": {
			end:   func(_ *world, c *framework.Client, _ *recipes.Lease, _ context.CancelCauseFunc) { c.Close() },
			cause: []error{recipes.ErrClosed},
		},
		"revoked": {
			end: func(w *world, c *framework.Client, l *recipes.Lease, _ context.CancelCauseFunc) {
				if err := recipes.Revoke(w.ctx, c, l.Path()); err != nil {
					t.Error(err)
				}
			},
			cause: []error{recipes.ErrRevoked},
			opts:  []recipes.Option{recipes.EndWhenRevoked()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				lease := w.acquire(recipes.NewInterProcessMutex(c, root, tc.opts...))
				parent, cancel := context.WithCancelCause(context.WithValue(w.ctx, key{}, "value"))
				defer cancel(nil)
				ctx := lease.Context(parent)
				child, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
				if err := ctx.Err(); err != nil || isDone(ctx) || ctx.Value(key{}) != "value" {
					t.Errorf("at first the context has error %v, done %v", err, isDone(ctx))
				}
				if at, ok := child.Deadline(); !ok || time.Until(at) > time.Hour {
					t.Errorf("the child's deadline is %v, %v", at, ok)
				}
				w.settle()
				tc.end(w, c, lease, cancel)
				select {
				case <-child.Done():
				case <-time.After(soon):
					t.Fatal("the context goes on")
				}
				for _, ctx := range []context.Context{ctx, child} {
					wantErr(t, "Err", ctx.Err(), context.Canceled)
					wantErr(t, "Cause", context.Cause(ctx), tc.cause...)
				}
				if name == "parent" {
					if err := lease.Err(); err != nil {
						t.Errorf("the lease ended with a context of it: %v", err)
					}
					w.release(lease)
					return
				}
				wantErr(t, "the lease", lease.Err(), tc.cause...)
				select {
				case <-lease.Done():
				default:
					t.Error("the lease is not done")
				}
				late := lease.Context(w.ctx)
				if !isDone(late) {
					t.Error("a context made afterwards goes on")
				}
				wantErr(t, "the cause of a context made afterwards", context.Cause(late), tc.cause...)
				_ = lease.Release()
			})
		})
	}
}

// The first look at a lease whose deadline has passed ends it and all that
// depends on it before it returns, whichever look it is: no timer and no
// goroutine has a part in it. TestLease of internal/interop shows the same
// of a process that was stopped.
func TestFirstLookEndsEverything(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(m *recipes.InterProcessMutex, lease *recipes.Lease, ctx context.Context) bool{
		"Err": func(_ *recipes.InterProcessMutex, l *recipes.Lease, _ context.Context) bool { return l.Err() != nil },
		"Check": func(_ *recipes.InterProcessMutex, l *recipes.Lease, _ context.Context) bool {
			return l.Check().Err() != nil
		},
		"State": func(_ *recipes.InterProcessMutex, l *recipes.Lease, _ context.Context) bool {
			return l.State() == recipes.LeaseLost
		},
		"context's Err": func(_ *recipes.InterProcessMutex, _ *recipes.Lease, ctx context.Context) bool {
			return ctx.Err() != nil
		},
		"context's Done": func(_ *recipes.InterProcessMutex, _ *recipes.Lease, ctx context.Context) bool { return isDone(ctx) },
		"re-entry": func(m *recipes.InterProcessMutex, _ *recipes.Lease, ctx context.Context) bool {
			_, err := m.TryAcquire(context.WithoutCancel(ctx))
			return errors.Is(err, recipes.ErrLost)
		},
		"context made now": func(_ *recipes.InterProcessMutex, l *recipes.Lease, _ context.Context) bool {
			return isDone(l.Context(context.Background()))
		},
		"Release": func(_ *recipes.InterProcessMutex, l *recipes.Lease, _ context.Context) bool {
			return errors.Is(l.Release(), recipes.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				m := recipes.NewInterProcessMutex(c, root)
				lease := w.acquire(m)
				w.settle()
				ctx := lease.Context(w.ctx)
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				w.link(c).refuse(true)
				w.link(c).drop()
				// At the very instant of the deadline nobody else has run yet.
				time.Sleep(time.Until(lease.Session().Deadline()))
				if !look(m, lease, ctx) {
					t.Error("the first look says it goes on")
				}
				if child.Err() == nil {
					t.Error("the context's child goes on after the first look")
				}
				select {
				case <-lease.Done():
				default:
					t.Error("the lease is not done after the first look")
				}
				w.link(c).refuse(false)
				time.Sleep(2 * sessionTimeout) // until the server has let the session go
			})
		})
	}
}

func TestLeaseStates(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		want := func(state recipes.LeaseState) {
			t.Helper()
			if got := lease.State(); got != state {
				t.Errorf("the lease is %v, want %v", got, state)
			}
		}
		want(recipes.LeaseHeld)
		w.link(c).refuse(true)
		w.link(c).drop()
		w.settle()
		want(recipes.LeaseUnknown)
		if err := lease.Err(); err != nil {
			t.Errorf("an unknown lease has the error %v", err)
		}
		w.link(c).refuse(false)
		time.Sleep(soon)
		want(recipes.LeaseHeld)
		w.release(lease)
		want(recipes.LeaseReleased)

		lease = w.acquire(recipes.NewInterProcessMutex(c, root))
		w.settle()
		w.link(c).refuse(true)
		w.link(c).drop()
		w.settle()
		time.Sleep(time.Until(lease.Session().Deadline()))
		want(recipes.LeaseLost)
		w.link(c).refuse(false)
		time.Sleep(2 * sessionTimeout)
		want(recipes.LeaseLost)
	})
}

// The lease is unknown until its deadline, and lost then, before
// the next contender is granted: under a network that is silent, and under
// one that is reset.
func TestLostBeforeTheNextIsGranted(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(l *link){
		"silent": (*link).silence,
		"reset":  func(l *link) { l.refuse(true); l.drop() },
	} {
		for _, latency := range []time.Duration{0, sessionTimeout / 10} {
			t.Run(name+" "+latency.String(), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					c := w.client()
					w.link(c).latency.Store(int64(latency))
					lease := w.acquire(recipes.NewInterProcessMutex(c, root))
					ctx := lease.Context(w.ctx)
					waiting := w.queue(w.mutex())[0]
					time.Sleep(3 * sessionTimeout) // pings keep it
					if err := lease.Err(); err != nil {
						t.Fatalf("the lease was lost on a good network: %v", err)
					}
					began := time.Now()
					fault(w.link(c))
					<-ctx.Done()
					lost := time.Now()
					if lost.Sub(began) < sessionTimeout/3 {
						t.Errorf("the lease was given up after %v of a session timeout of %v", lost.Sub(began), sessionTimeout)
					}
					wantErr(t, "the lease", lease.Err(), recipes.ErrLost, framework.ErrSessionLost)
					next := w.wait(waiting)
					if !waiting.at.After(lost) {
						t.Errorf("the next one was granted at %v, the lease lost at %v", waiting.at, lost)
					}
					w.release(next)
				})
			})
		}
	}
}

// A process that cannot reach its server longer than the connection lasts,
// but shorter than the session, keeps the lock.
func TestHeldAcrossReconnect(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		ctx := lease.Context(w.ctx)
		waiting := w.queue(w.mutex())[0]
		for range 3 {
			w.link(c).refuse(true)
			w.link(c).drop()
			time.Sleep(sessionTimeout / 2)
			w.link(c).refuse(false)
			time.Sleep(soon)
		}
		if waiting.returned() || ctx.Err() != nil || lease.State() != recipes.LeaseHeld {
			t.Errorf("the lease is %v, its context %v", lease.State(), ctx.Err())
		}
		w.release(lease)
		w.release(w.wait(waiting))
	})
}

func TestEndWhenUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root, recipes.EndWhenUnknown())
		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		waiting := w.queue(w.mutex())[0]
		w.link(c).drop()
		w.settle()
		select {
		case <-lease.Done(): // without a look
		default:
			t.Error("the lease goes on without a connection")
		}
		if !isDone(ctx) {
			t.Error("the context goes on without a connection")
		}
		wantErr(t, "the lease", lease.Err(), recipes.ErrLost)
		time.Sleep(soon)
		if waiting.returned() {
			t.Error("another was granted before the work was done")
		}
		wantErr(t, "the release", lease.Release(), recipes.ErrLost)
		w.returned(lease)
		w.release(w.wait(waiting))

		// A turn that comes while there is no connection is taken when there
		// is one again.
		other := w.acquire(w.mutex())
		waiting = w.queue(m)[0]
		w.link(c).refuse(true)
		w.link(c).drop()
		w.release(other)
		time.Sleep(soon)
		if waiting.returned() {
			t.Error("granted without a connection")
		}
		w.link(c).refuse(false)
		w.release(w.wait(waiting))
	})
}

// The loss is told once, with its cause, to all that ask.
func TestLossIsSticky(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider, c := w.client(), w.client()
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		w.settle()
		w.remove(outsider, lease.Path())
		w.settle()
		first := lease.Err()
		wantErr(t, "the lease", first, recipes.ErrLost)
		if errors.Is(first, framework.ErrSessionLost) {
			t.Errorf("the cause is the session: %v", first)
		}
		_ = w.srv.ExpireSession(c.Session().ID())
		time.Sleep(soon)
		if again := lease.Err(); !errors.Is(again, first) {
			t.Errorf("the error changed from %v to %v", first, again)
		}
		if released := lease.Release(); !errors.Is(released, first) {
			t.Errorf("Release says %v, want %v", released, first)
		}
		if again := lease.Err(); !errors.Is(again, first) {
			t.Errorf("the error changed from %v to %v", first, again)
		}
	})
}

// To release what was lost touches no later holder, and the mutex
// can be used again.
func TestReleaseAfterLoss(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		old := w.acquire(m)
		w.settle()
		if err := w.srv.ExpireSession(c.Session().ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(soon)
		next := w.acquire(m)
		wantErr(t, "Release", old.Release(), recipes.ErrLost)
		w.settle()
		if err := next.Err(); err != nil {
			t.Errorf("the later lease ended: %v", err)
		}
		if _, ok := w.srv.Node(next.Path()); !ok {
			t.Error("the later holder's node is gone")
		}
		w.release(next)
	})
}

// An outsider's deletion that was not heard of is found by the release.
func TestReleaseFindsNodeDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, outsider := w.client(), w.client()
		defer w.srv.OnRequest(of(c, op("getData")).answer(-102))()
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		w.settle()
		if !strings.Contains(w.log.String(), "unwatched") {
			t.Error("the log does not tell that the node is not watched")
		}
		w.remove(outsider, lease.Path())
		w.settle()
		if err := lease.Err(); err != nil {
			t.Fatalf("the lease has heard of it: %v", err)
		}
		wantErr(t, "Release", lease.Release(), recipes.ErrLost)
		wantErr(t, "Release, again", lease.Release(), recipes.ErrLost)
	})
}

// A client that is closed while the guard reads its node is no reason to warn.
func TestCloseIsNoWarning(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"before the read", "after it"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				closed := make(chan struct{})
				strike := func(r embedded.Request) embedded.Verdict {
					if readsNode(r) {
						go func() { c.Close(); close(closed) }()
						time.Sleep(moment)
					}
					return embedded.Pass
				}
				if name == "before the read" {
					defer w.srv.OnRequest(strike)()
				} else {
					defer w.srv.OnReply(strike)()
				}
				lease := w.acquire(recipes.NewInterProcessMutex(c, root))
				<-closed
				wantErr(t, "the lease", lease.Err(), recipes.ErrClosed)
				_ = lease.Release()
				w.settle()
				if text := w.log.String(); strings.Contains(text, "level=WARN") {
					t.Errorf("the log warns:\n%s", text)
				}
			})
		})
	}
}

// A release needs no context, and may be called often and by many.
func TestReleaseIsIdempotent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		m := w.mutex()
		lease, err := m.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		results := make(chan error)
		for range 10 {
			go func() { results <- lease.Release() }()
		}
		for range 10 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		next := w.acquire(m)
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		if err := next.Err(); err != nil {
			t.Error(err)
		}
		w.release(next)
	})
}

// A release that finds no connection returns after about a session
// timeout, says what happens next, and the node goes when it can.
func TestReleaseWithoutConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		waiting := w.queue(w.mutex())[0]
		w.link(c).refuse(true)
		w.link(c).drop()
		began := time.Now()
		released := make(chan error)
		go func() { released <- lease.Release() }()
		w.settle()
		wantErr(t, "the context's cause, before the node is gone", context.Cause(ctx), recipes.ErrReleased)
		time.Sleep(sessionTimeout / 2)
		w.link(c).refuse(false)
		if err := <-released; err != nil {
			t.Errorf("after a reconnect: %v", err)
		}
		if took := time.Since(began); took > sessionTimeout {
			t.Errorf("the release took %v", took)
		}
		w.returned(lease)
		w.release(w.wait(waiting))

		lease = w.acquire(m)
		w.link(c).refuse(true)
		w.link(c).drop()
		began = time.Now()
		wantErr(t, "Release in a session that ends", lease.Release(), framework.ErrSessionLost)
		if took := time.Since(began); took > sessionTimeout+soon {
			t.Errorf("the release took %v", took)
		}
		wantErr(t, "the lease", lease.Err(), recipes.ErrReleased)
		w.returned(lease)
		w.link(c).refuse(false)
		next := w.acquire(m)
		w.release(next)
	})
}

// Tokens rise across holders, also when the path was removed in
// between, and a multi with Check fails once the lease is over.
func TestTokenAndCheck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, outsider := w.client(), w.client()
		m := recipes.NewInterProcessMutex(c, root)
		w.put(c, "/row")
		var last int64
		for range 3 {
			lease := w.acquire(m)
			w.settle()
			if lease.Token() <= last {
				t.Errorf("token %#x after %#x", lease.Token(), last)
			}
			last = lease.Token()
			write := framework.SetOp("/row", []byte("x"), framework.AnyVersion)
			if _, err := c.Multi(w.ctx, lease.Check(), write); err != nil {
				t.Errorf("a checked write by the holder: %v", err)
			}
			if err := recipes.Revoke(w.ctx, outsider, lease.Path()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Multi(w.ctx, lease.Check(), write); err != nil {
				t.Errorf("a checked write after a request for revocation: %v", err)
			}
			late := lease.Check() // made in time, sent too late
			w.release(lease)
			_, err := c.Multi(w.ctx, late, write)
			wantErr(t, "a checked write that comes late", err, recipes.ErrLost, framework.ErrNoNode)
			_, err = c.Multi(w.ctx, lease.Check(), write)
			wantErr(t, "a checked write after the release", err, recipes.ErrReleased)
			w.srv.ReapContainers()
			if _, ok := w.srv.Node(root); ok {
				t.Error("the root was not reaped")
			}
		}
	})
}

// A check goes with the lease, not with the path it is sent under: it holds
// through every view of the lock's client, and is nothing to another client.
func TestCheckThroughViews(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, foreign := w.client(), w.client()
		view, err := c.Namespace("locks")
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.Namespace("elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]*recipes.InterProcessMutex{
			"made with the root": recipes.NewInterProcessMutex(c, root),
			"made with a view":   recipes.NewInterProcessMutex(view, "/report"),
		} {
			lease := w.acquire(m)
			w.settle()
			check := lease.Check()
			for through, sender := range map[string]*framework.Client{"root": c, "view": view, "another view": other} {
				if _, err := sender.Multi(w.ctx, check); err != nil {
					t.Errorf("%s, through the %s: %v", name, through, err)
				}
			}
			_, err := foreign.Multi(w.ctx, check)
			wantErr(t, name+", through a foreign client", err, framework.ErrInvalidOption)
			if errors.Is(err, recipes.ErrLost) {
				t.Errorf("%s, through a foreign client: %v, but it is not lost", name, err)
			}
			if err != nil && !strings.Contains(err.Error(), lease.Path()) {
				t.Errorf("%s: the refusal does not name the lease: %v", name, err)
			}
			w.remove(foreign, c.FullPath(root)+strings.TrimPrefix(lease.Path(), m.Path()))
			for through, sender := range map[string]*framework.Client{"root": c, "view": view, "another view": other} {
				_, err := sender.Multi(w.ctx, check)
				wantErr(t, name+", the node is gone, through the "+through, err, recipes.ErrLost, framework.ErrNoNode)
			}
			_ = lease.Release()
			w.returned(lease)
		}
	})
}

// The second of two releases waits for the first, in virtual time too.
func TestConcurrentRelease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "delete" {
				time.Sleep(time.Second)
			}
			return embedded.Pass
		})
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- lease.Release() }()
		}
		for range 2 {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		w.returned(lease)
	})
}
