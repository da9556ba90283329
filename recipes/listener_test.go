package recipes_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// waits collects what a wait listener hears.
type waits struct {
	mu   sync.Mutex
	list []recipes.Wait
}

func (ws *waits) option() recipes.Option {
	return recipes.WithWaitListener(func(w recipes.Wait) {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.list = append(ws.list, w)
	})
}

// take returns what has been heard since the last call.
func (ws *waits) take() []recipes.Wait {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	list := ws.list
	ws.list = nil
	return list
}

// want checks what has been heard since the last call, as "joined 2, moved 1".
func (ws *waits) want(t *testing.T, what string, want ...string) []recipes.Wait {
	t.Helper()
	list := ws.take()
	var got []string
	for _, w := range list {
		s := w.Event.String()
		if w.Ahead > 0 {
			s += fmt.Sprint(" ", w.Ahead)
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: the listener heard %q, want %q", what, got, want)
	}
	return list
}

func TestWaitListener(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		holder := w.acquire(w.mutex(recipes.WithData([]byte("holder"))))
		second := w.queue(w.mutex(recipes.WithData([]byte("second"))))[0]
		third := w.queue(w.mutex())[0]
		var heard waits
		c := w.client()
		waiting := w.queue(recipes.NewInterProcessMutex(c, root, heard.option()))[0]
		joined := heard.want(t, "after it joined", "joined 3")[0]
		if joined.Lock != root || joined.Behind.Holder || joined.Behind.Dead || joined.Err != nil {
			t.Errorf("it joined: %+v", joined)
		}

		// One that leaves further ahead is not heard of.
		second.cancel()
		<-second.done
		w.settle()
		heard.want(t, "after one further ahead has left")

		time.Sleep(soon)
		third.cancel()
		<-third.done
		w.settle()
		moved := heard.want(t, "after the one ahead has left", "moved 1")[0]
		b := moved.Behind
		if b.Path != holder.Path() || string(b.Data) != "holder" || b.SessionID != holder.Session().ID() ||
			b.Token != holder.Token() || !b.Holder || b.Since.IsZero() {
			t.Errorf("it stands behind %+v, want the holder, %s", b, holder.Path())
		}
		if moved.Path != joined.Path || moved.Waited < soon || moved.Waited > 2*soon {
			t.Errorf("after %v it moved: %+v", soon, moved)
		}

		// The holder's node changes, and nothing moves.
		if err := recipes.Revoke(w.ctx, w.client(), holder.Path()); err != nil {
			t.Fatal(err)
		}
		w.settle()
		heard.want(t, "after a request for revocation")

		w.release(holder)
		lease := w.wait(waiting)
		granted := heard.want(t, "after the grant", "granted")[0]
		if granted.Path != lease.Path() || granted.Behind.Path != "" {
			t.Errorf("granted: %+v, the lease is %s", granted, lease.Path())
		}
		w.release(lease)
	})
}

// One who wants permits waits in line, and then for room.
func TestWaitListenerOfSemaphore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		held := w.acquireN(w.semaphore(3), 3)
		ahead := w.wish(w.semaphore(3), 1)
		var heard waits
		waiting := w.wish(w.semaphore(3, heard.option()), 2)
		joined := heard.want(t, "after it joined", "joined 1")[0]
		if joined.Lock != root || joined.Behind.Holder {
			t.Errorf("it joined: %+v", joined)
		}
		w.release(held[0])
		first := w.waitAll(ahead)
		w.settle()
		heard.want(t, "when it is first in line", "moved")
		w.release(held[1])
		w.settle()
		heard.want(t, "with too little room")
		w.release(held[2])
		second := w.waitAll(waiting)
		heard.want(t, "after the grant", "granted")
		w.releaseAll(first)
		w.releaseAll(second)
	})
}

// Who need not wait hears of the grant only; who does not wait, of nothing.
func TestWaitListenerWithoutWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		var heard waits
		m := w.mutex(heard.option())
		lease := w.acquire(m)
		heard.want(t, "of a free lock", "granted")
		again, err := m.Acquire(lease.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.TryAcquire(w.ctx)
		wantErr(t, "TryAcquire", err, recipes.ErrHeld)
		w.release(again)
		w.release(lease)
		lease, err = m.TryAcquire(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.release(lease)
		heard.want(t, "of re-entry and TryAcquire")

		m = recipes.NewInterProcessMutex(w.client(), root, recipes.WithWaitListener(nil))
		_, err = m.Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrInvalidOption)
	})
}

// A place that is lost is told as lost, and joined again.
func TestWaitListenerHearsOfLoss(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose func(w *world, c *framework.Client, path string)
		why  error
	}{
		"node deleted": {func(w *world, _ *framework.Client, path string) { w.remove(w.client(), path) }, nil},
		"session expired": {func(w *world, c *framework.Client, _ string) {
			_ = w.srv.ExpireSession(c.Session().ID())
		}, framework.ErrSessionLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				holder := w.acquire(w.mutex())
				var heard waits
				c := w.client()
				waiting := w.queue(recipes.NewInterProcessMutex(c, root, heard.option()))[0]
				joined := heard.want(t, "after it joined", "joined 1")[0]
				time.Sleep(soon)
				tc.lose(w, c, joined.Path)
				time.Sleep(soon)
				events := heard.want(t, "after the loss", "lost", "joined 1")
				lost, again := events[0], events[1]
				if lost.Path != joined.Path || again.Path == joined.Path || again.Waited < soon {
					t.Errorf("joined %s, lost %s, joined %s after %v", joined.Path, lost.Path, again.Path, again.Waited)
				}
				wantErr(t, "the loss", lost.Err)
				if tc.why != nil {
					wantErr(t, "the loss", lost.Err, tc.why)
				}
				w.release(holder)
				w.release(w.wait(waiting))
				heard.want(t, "after the grant", "granted")
			})
		})
	}
}

// A listener costs no request.
func TestWaitListenerCostsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		run := func(opts ...recipes.Option) []string {
			holder, between := w.acquire(w.mutex()), w.queue(w.mutex())[0]
			c := w.client()
			log := w.requests(of(c, isWork))
			defer log.stop()
			waiting := w.queue(recipes.NewInterProcessMutex(c, root, opts...))[0]
			between.cancel()
			w.settle()
			w.release(holder)
			lease := w.wait(waiting)
			w.settle()
			w.release(lease)
			return log.ops()
		}
		var heard waits
		without, with := run(), run(heard.option())
		heard.want(t, "of it all", "joined 2", "moved 1", "granted")
		if !slices.Equal(without, with) {
			t.Errorf("requests without a listener: %v, with one: %v", without, with)
		}
	})
}

// A listener that panics leaves neither node nor watch behind, not even for as
// long as those ahead are there.
func TestPanicInWaitListener(t *testing.T) {
	t.Parallel()
	for _, at := range []recipes.WaitEvent{
		recipes.WaitJoined, recipes.WaitMoved, recipes.WaitGranted, recipes.WaitLost,
	} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				holder, between := w.acquire(w.mutex()), w.queue(w.mutex())[0]
				node := make(chan string, 1)
				c := w.client()
				m := recipes.NewInterProcessMutex(c, root, recipes.WithWaitListener(func(e recipes.Wait) {
					if e.Event == recipes.WaitJoined {
						node <- e.Path
					}
					if e.Event == at {
						panic(at)
					}
				}))
				recovered := make(chan any)
				go func() {
					defer func() { recovered <- recover() }()
					_, _ = m.Acquire(w.ctx)
				}()
				path := <-node
				w.settle()
				switch at {
				case recipes.WaitLost:
					w.remove(w.client(), path) // it looks when the line moves
					between.cancel()
				case recipes.WaitMoved:
					between.cancel()
				case recipes.WaitGranted:
					between.cancel()
					w.release(holder)
				}
				if got := <-recovered; got != at {
					t.Errorf("Acquire panicked with %v, want %v", got, at)
				}
				w.shortly("its node is gone", func() bool { return !slices.Contains(w.ephemerals(), path) })
				w.shortly("its watches are gone", func() bool {
					return !slices.ContainsFunc(w.srv.Watches(), func(i embedded.WatchInfo) bool {
						return i.Session == c.Session().ID()
					})
				})
				between.cancel()
				<-between.done
				w.release(holder)
			})
		})
	}
}

// A listener that takes its time delays the grant, and is not granted what was
// lost meanwhile.
func TestSlowWaitListener(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		ctx, cancel := context.WithCancel(w.ctx)
		m := recipes.NewInterProcessMutex(c, root, recipes.WithWaitListener(func(recipes.Wait) {
			cancel()
			time.Sleep(soon)
		}))
		began := time.Now()
		_, err := m.Acquire(ctx)
		wantErr(t, "Acquire", err, context.Canceled)
		if took := time.Since(began); took < soon {
			t.Errorf("Acquire took %v, the listener alone %v", took, soon)
		}
		w.release(w.acquire(w.mutex()))
	})
}
