package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// heardOf returns a mutex whose listener sends the leases it is called with.
func (w *world) heardOf(c *framework.Client) (*recipes.InterProcessMutex, chan *recipes.Lease) {
	heard := make(chan *recipes.Lease, 100)
	return recipes.NewInterProcessMutex(c, root,
		recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l })), heard
}

func (w *world) revoke(outsider *framework.Client, path string, opts ...recipes.RevokeOption) {
	w.Helper()
	if err := recipes.Revoke(w.ctx, outsider, path, opts...); err != nil {
		w.Fatal(err)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		m, heard := w.heardOf(w.client())
		lease := w.acquire(m)
		waiting := w.queue(w.mutex())[0]
		for _, data := range []string{"", "__REVOKE__ ", "__REVOKE__x", " __REVOKE__\n", "__revoke__", "busy"} {
			if _, err := outsider.Set(w.ctx, lease.Path(), []byte(data), framework.AnyVersion); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		if len(heard) > 0 {
			t.Error("the listener was called for other data")
		}
		w.revoke(w.clients[0], lease.Path())
		got := <-heard
		if got != lease {
			t.Errorf("the listener heard of %v, want the lease", got)
		}
		w.settle()
		if len(heard) > 0 || lease.Err() != nil {
			t.Errorf("after one request the listener was called %d times more, the lease has error %v", len(heard), lease.Err())
		}
		w.revoke(w.clients[0], lease.Path())
		<-heard
		w.release(got) // as a listener may do
		w.release(w.wait(waiting))
	})
}

// A request is not missed that comes while the watch is not set: before the
// grant, right after it, between two requests, and while there is no
// connection; and none is heard twice.
func TestRevokeAtAnyTime(t *testing.T) {
	t.Parallel()
	for form, opts := range map[string][]recipes.RevokeOption{"plain": nil, "told why": {recipes.WithReason("why")}} {
		t.Run(form, func(t *testing.T) { revokeAtAnyTime(t, opts) })
	}
}

func revokeAtAnyTime(t *testing.T, opts []recipes.RevokeOption) {
	t.Parallel()
	for name, f := range map[string]func(w *world, c *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease{
		"while waiting": func(w *world, _ *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease {
			other := w.acquire(w.mutex())
			waiting := w.queue(m)[0]
			w.revoke(w.clients[0], w.last(w.clients[0]), opts...)
			w.settle()
			w.release(other)
			return w.wait(waiting)
		},
		"while waiting, two ahead": func(w *world, _ *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease {
			other := w.acquire(w.mutex())
			as := w.queue(w.mutex(), m)
			w.revoke(w.clients[0], w.last(w.clients[0]), opts...)
			w.settle()
			w.release(other)
			w.release(w.wait(as[0]))
			return w.wait(as[1])
		},
		"before the first watch": func(w *world, c *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease {
			remove := w.srv.OnRequest(of(c, readsNode).once(func() { w.revoke(w.clients[0], w.last(w.clients[0]), opts...) }))
			defer remove()
			lease := w.acquire(m)
			w.settle()
			return lease
		},
		"without a connection": func(w *world, c *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease {
			lease := w.acquire(m)
			w.settle()
			w.link(c).refuse(true)
			w.link(c).drop()
			w.revoke(w.clients[0], lease.Path(), opts...)
			time.Sleep(soon)
			w.link(c).refuse(false)
			return lease
		},
		"after other data, at once": func(w *world, c *framework.Client, m *recipes.InterProcessMutex) *recipes.Lease {
			lease := w.acquire(m)
			w.settle()
			remove := w.srv.OnRequest(of(c, readsNode).once(func() { w.revoke(w.clients[0], lease.Path(), opts...) }))
			defer remove()
			if _, err := w.clients[0].Set(w.ctx, lease.Path(), []byte("x"), framework.AnyVersion); err != nil {
				w.Fatal(err)
			}
			w.settle()
			return lease
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.client() // the outsider
				c := w.client()
				m, heard := w.heardOf(c)
				lease := f(w, c, m)
				time.Sleep(soon)
				w.settle()
				if len(heard) != 1 {
					t.Errorf("the listener was called %d times, want once", len(heard))
				}
				w.release(lease)
			})
		})
	}
}

// The nodes of every recipe can be asked for, whoever made them.
func TestRevokeKnowsAllRecipes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		for _, name := range []string{"lock-0000000001", "__READ__0000000002", "_c_1-2-__WRIT__0000000003", "_c_x-lease--2147483648"} {
			path := root + "/" + name
			w.put(c, path)
			w.revoke(c, path)
			if data, _, err := c.Get(w.ctx, path); err != nil || string(data) != "__REVOKE__" {
				t.Errorf("%s holds %q, %v", name, data, err)
			}
		}
	})
}

func TestRevokeRefusesOtherNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		w.put(c, root+"/workid")
		for _, path := range []string{root + "/workid", root, "/", "locks", "", root + "/"} {
			wantErr(t, path, recipes.Revoke(w.ctx, c, path), framework.ErrInvalidPath)
		}
		wantErr(t, "no client", recipes.Revoke(w.ctx, nil, root+"/lock-0000000000"), framework.ErrInvalidOption)
		wantErr(t, "no node", recipes.Revoke(w.ctx, c, root+"/lock-0000000000"), framework.ErrNoNode)
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		wantErr(t, "done context", recipes.Revoke(ctx, c, root+"/lock-0000000000"), context.Canceled)
	})
}

// EndWhenRevoked: the contexts end, and the lock stays closed until the work
// is done.
func TestEndWhenRevoked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.client()
		m := w.mutex(recipes.EndWhenRevoked())
		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		again, err := m.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waiting := w.queue(w.mutex())[0]
		w.revoke(w.clients[0], lease.Path())
		w.settle()
		wantErr(t, "the context's cause", context.Cause(ctx), recipes.ErrRevoked)
		wantErr(t, "the lease", lease.Err(), recipes.ErrRevoked)
		wantErr(t, "the lease's check", lease.Check().Err(), recipes.ErrRevoked)
		_, err = m.Acquire(ctx)
		wantErr(t, "re-entry", err, recipes.ErrRevoked)
		if lease.State() != recipes.LeaseRevoked || waiting.returned() {
			t.Errorf("the lease is %v, another granted: %v", lease.State(), waiting.returned())
		}
		if err := again.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
		w.settle()
		if waiting.returned() {
			t.Error("another was granted before the last release")
		}
		w.release(lease)
		w.release(w.wait(waiting))
	})
}

// A lease that was revoked under Do's function is an error of Do's, whatever
// the function says, as a lost one is: it may have stopped early.
func TestDoTellsOfRevocation(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	inBubble(t, func(w *world) {
		outsider := w.client()
		m := w.mutex(recipes.EndWhenRevoked())
		for name, says := range map[string]func(ctx context.Context) error{
			"nothing":   func(context.Context) error { return nil },
			"the cause": func(ctx context.Context) error { return context.Cause(ctx) },
			"something": func(context.Context) error { return broken },
		} {
			err := m.Do(w.ctx, func(ctx context.Context, lease *recipes.Lease) error {
				w.revoke(outsider, lease.Path())
				<-ctx.Done()
				line, err := m.Participants(w.ctx)
				if err != nil || len(line) != 1 || string(line[0].Data) != "__REVOKE__" {
					t.Errorf("in line are %v, %v", line, err)
				}
				return says(ctx)
			})
			wantErr(t, name, err, recipes.ErrRevoked)
			if n := strings.Count(err.Error(), "revoked"); n != 1 || name == "something" && !errors.Is(err, broken) {
				t.Errorf("the function says %s, Do says %v", name, err)
			}
		}
	})
}
