package recipes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// The first in line notices at once that somebody has deleted its node, and
// stands in line again, behind the others.
func TestFirstInLineDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		held := w.acquireN(w.semaphore(2), 1)
		much := w.wish(w.semaphore(2), 2)
		outsider := w.client()
		first := w.children(outsider, lineOf)[0]
		little := w.wish(w.semaphore(2), 1)
		w.remove(outsider, lineOf+"/"+first)
		began := time.Now()
		single := w.waitAll(little)
		if took := time.Since(began); took > soon {
			t.Errorf("the next in line was served after %v", took)
		}
		w.shortly("it joins again", func() bool { return w.inLine() == 1 })
		w.releaseAll(held)
		w.settle()
		if much.granted() {
			t.Error("granted beyond the limit")
		}
		w.releaseAll(single)
		w.releaseAll(w.waitAll(much))
	})
}

// A head that does not know that its node is gone cannot add permits: the
// servers refuse.
func TestStaleHeadAddsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.capped(1)
		c, outsider := w.client(), w.client()
		other := w.semaphore(1)
		var rival recipes.Leases
		w.srv.OnRequest(of(c, op("multi")).once(func() {
			names, _, err := outsider.Children(w.ctx, lineOf)
			if err != nil || len(names) != 1 {
				t.Errorf("in line: %v, %v", names, err)
			}
			w.remove(outsider, lineOf+"/"+names[0])
			rival = w.acquireN(other, 1)
		}))
		stale := w.wish(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(1)), 1)
		time.Sleep(soon)
		if rival == nil || stale.granted() {
			t.Fatalf("rival has %v, the stale head was granted: %v", rival, stale.granted())
		}
		w.releaseAll(rival)
		w.releaseAll(w.waitAll(stale))
	})
}

// A multi whose reply is lost is recognised: its nodes are adopted, and the
// place is not taken anew.
func TestLostReplyOfGrant(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w *world, match matcher){
		"executed":     func(w *world, match matcher) { w.srv.LoseReply(match) },
		"not executed": func(w *world, match matcher) { w.srv.CutBefore(match) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.capped(3)
				c := w.client()
				fault(w, of(c, op("multi")))
				log := w.requests(of(c, op("create2")))
				leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(3)), 3)
				if w.out() != 3 || w.inLine() != 0 || len(leases) != 3 {
					t.Errorf("%d are out, %d in line", w.out(), w.inLine())
				}
				creates := 0
				for _, op := range log.ops() {
					if op == "create2" {
						creates++
					}
				}
				if creates != 3 { // the first two have found no parent
					t.Errorf("it joined the line with %d creates", creates)
				}
				w.releaseAll(leases)
			})
		})
	}
}

// The nodes of a grant whose reply is lost for longer than the client tries
// are removed, and the caller goes on.
func TestGrantOutlastsOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.capped(2)
		c := w.client(framework.WithConnectionTimeout(soon / 10))
		w.srv.OnReply(of(c, op("multi")).once(func() {
			w.link(c).refuse(true)
			time.AfterFunc(sessionTimeout/2, func() { w.link(c).refuse(false) })
			w.link(c).drop()
		}))
		leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2)), 2)
		w.eventually("two permits are out", func() bool { return w.out() == 2 })
		w.releaseAll(leases)
	})
}

// A panic in the user's code, recovered by the caller, leaves no node.
func TestPanicInHookOfPermits(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create2", "getChildren2", "multi", "exists"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				other := w.semaphore(2)
				w.releaseAll(w.acquireN(other, 1))
				s := recipes.NewInterProcessSemaphore(w.client(framework.WithHooks(&panicking{op: op})), root, recipes.FixedLimit(2))
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the hook was not called")
						}
					}()
					_, _ = s.AcquireN(w.ctx, 2)
				}()
				time.Sleep(soon)
				if w.out() != 0 || w.inLine() != 0 {
					t.Errorf("%d are out, %d in line", w.out(), w.inLine())
				}
				w.releaseAll(w.acquireN(other, 2))
			})
		})
	}
}

// The ways through AcquireN, for the faults that strike at each request.
var permitScenarios = []scenario{
	{name: "two of two, path missing", cold: true, do: twoPermits},
	{name: "two of two, one is out", ahead: 1, do: twoPermits},
	{name: "two of two, two are out", ahead: 2, do: twoPermits},
	{name: "two by a live limit", do: twoByLiveLimit},
	{name: "two by a live limit, one is out", ahead: 1, do: twoByLiveLimit},
}

func TestPermitFaultAtEveryStep(t *testing.T) { strikeEverywhere(t, semaphoresOf(2), permitScenarios) }

func twoPermits(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error) {
	return w.two(ctx, m.(*recipes.InterProcessSemaphore))
}

func twoByLiveLimit(ctx context.Context, w *world, _ recipes.InterProcessLock) (*recipes.Lease, error) {
	c := w.clients[0]
	return w.two(ctx, recipes.NewInterProcessSemaphore(c, root, recipes.SharedLimit(recipes.NewSharedCount(c, "/limit", 2))))
}

// two acquires two permits, at a time when nobody else has any, and gives one
// of them back.
func (w *world) two(ctx context.Context, s *recipes.InterProcessSemaphore) (*recipes.Lease, error) {
	w.capped(2)
	leases, err := s.AcquireN(ctx, 2)
	if err != nil {
		return nil, err
	}
	if leases[0].Token() != leases[1].Token() {
		w.Errorf("tokens %#x and %#x", leases[0].Token(), leases[1].Token())
	}
	go leases[1].Release() // which ctx does not end
	return leases[0], nil
}

// The session is lost between the last look for room and the grant, by the
// client's clock, while the servers still know it and the place in line: no
// permit of the next session is taken for one of the old.
func TestGrantIsOfOneSession(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.capped(1)
		c := w.client()
		old := c.Session()
		looked := 0
		w.srv.OnReply(of(c, op("getChildren2")).then(func() {
			if looked++; looked == 2 {
				w.link(c).refuse(true)
				context.AfterFunc(old.Context(), func() { w.link(c).refuse(false) })
				w.link(c).drop()
			}
		}))
		leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(1)), 1)
		node, _ := w.srv.Node(leases[0].Path())
		if leases[0].Session() == old || node.Owner != leases[0].Session().ID() {
			t.Errorf("the lease is of session %#x, its node of %#x, the old was %#x", leases[0].Session().ID(), node.Owner, old.ID())
		}
		w.releaseAll(leases)
	})
}

// A hookFunc is called after the first operation of a name, before the caller
// has its result.
type hookFunc struct {
	op   string
	once sync.Once
	f    func()
}

func (h *hookFunc) OnOperation(_ context.Context, info framework.OperationInfo) {
	if info.Op == h.op {
		h.once.Do(h.f)
	}
}

// What was granted in time may be late when the caller is to get it.
func TestGrantThatIsLate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		late    func(w *world, c *framework.Client, cancel context.CancelFunc)
		opts    []recipes.Option
		granted bool
	}{
		"cancelled": {late: func(_ *world, _ *framework.Client, cancel context.CancelFunc) { cancel() }},
		"without a connection": {
			late: func(w *world, c *framework.Client, _ context.CancelFunc) {
				w.link(c).drop()
				<-c.Session().ConnectionContext().Done()
			},
			opts:    []recipes.Option{recipes.EndWhenUnknown()},
			granted: true,
		},
		"without a session": {
			late: func(w *world, c *framework.Client, _ context.CancelFunc) {
				w.link(c).refuse(true)
				w.link(c).drop()
				time.Sleep(time.Until(c.Session().Deadline()))
				w.link(c).refuse(false)
			},
			granted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.capped(2)
				ctx, cancel := context.WithCancel(w.ctx)
				defer cancel()
				h := &hookFunc{op: "exists"}
				c := w.client(framework.WithHooks(h))
				h.f = func() { tc.late(w, c, cancel) }
				leases, err := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2), tc.opts...).AcquireN(ctx, 2)
				if !tc.granted {
					wantErr(t, "AcquireN", err, context.Canceled)
					w.shortly("nothing is left", func() bool { return w.out() == 0 && w.inLine() == 0 })
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range leases {
					if err := l.Err(); err != nil {
						t.Errorf("granted although it had ended: %v", err)
					}
				}
				w.releaseAll(leases)
			})
		})
	}
}
