package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const (
	grace   = 25 * time.Second // more than a session's timeout
	markers = root + ".held"
)

// The families of locks that have a grace. With those of the read-write lock, who fails
// and who waits are of both sides.
var graceFamilies = []family{mutexes, semaphoreMutexes, writers, readers, writersAmongReaders}

// withGrace runs a test in a bubble for each of the families.
func withGrace(t *testing.T, families []family, test func(w *world)) {
	t.Helper()
	for _, f := range families {
		t.Run(f.name+", "+f.label, func(t *testing.T) {
			t.Parallel()
			inBubble(t, f.of(test))
		})
	}
}

// graceful returns the lock with a grace, for a new client.
func (w *world) graceful() recipes.InterProcessLock {
	w.Helper()
	return w.fresh(recipes.GraceAfterCrash(grace))
}

// gracefulRival returns what excludes it, for another.
func (w *world) gracefulRival() recipes.InterProcessLock {
	w.Helper()
	return w.rival(w.client(), recipes.GraceAfterCrash(grace))
}

func (w *world) expire(lease *recipes.Lease) {
	w.Helper()
	if err := w.srv.ExpireSession(lease.Session().ID()); err != nil {
		w.Error(err)
	}
	w.returned(lease)
}

// checkMarkers checks how many markers there are.
func (w *world) checkMarkers(n int) {
	w.Helper()
	w.settle()
	if names := w.children(w.clients[0], markers); len(names) != n {
		w.Errorf("there are %d markers, want %d: %v", len(names), n, names)
	}
}

func onMarkers(names ...string) matcher {
	return func(r embedded.Request) bool {
		return op(names...)(r) && slices.ContainsFunc(append(r.Paths, r.Path), func(p string) bool {
			return strings.HasPrefix(p, markers)
		})
	}
}

// However a holder fails, the next one is let in when the grace is over, to
// the moment; and when that one has released, its successor at once.
func TestGrace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail func(w *world, c *framework.Client, lease *recipes.Lease)
		opts []recipes.Option
	}{
		"session expired": {fail: func(w *world, _ *framework.Client, l *recipes.Lease) { w.expire(l) }},
		"node deleted": {fail: func(w *world, _ *framework.Client, l *recipes.Lease) {
			w.remove(w.clients[0], l.Path())
		}},
		"forced": {fail: func(w *world, _ *framework.Client, l *recipes.Lease) {
			w.revoke(w.clients[0], l.Path(), recipes.WithDeadline(granted), recipes.WithForce())
		}},
		"client closed": {fail: func(_ *world, c *framework.Client, _ *recipes.Lease) { c.Close() }},
		"silent": {fail: func(w *world, _ *framework.Client, l *recipes.Lease) {
			w.srv.Silence(l.Session().ID())
			<-l.Session().Context().Done()
		}},
		"unknown is the end": {
			opts: []recipes.Option{recipes.EndWhenUnknown()},
			fail: func(w *world, c *framework.Client, l *recipes.Lease) {
				w.link(c).drop()
				<-l.Done()
				wantErr(w, "Release", l.Release(), recipes.ErrLost)
			},
		},
		"revoked, and expired": {
			opts: []recipes.Option{recipes.EndWhenRevoked()},
			fail: func(w *world, _ *framework.Client, l *recipes.Lease) {
				w.revoke(w.clients[0], l.Path())
				<-l.Done()
				w.expire(l)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withGrace(t, graceFamilies, func(w *world) {
				w.client()
				c := w.client()
				lease := w.acquire(w.lock(c, append(slices.Clone(tc.opts), recipes.GraceAfterCrash(grace))...))
				as := w.queue(w.gracefulRival(), w.graceful())
				w.checkMarkers(1)
				left := w.leaves(lease)
				tc.fail(w, c, lease)
				w.returned(lease)
				next := w.wait(as[0])
				if took := as[0].at.Sub(<-left); took != grace {
					w.Errorf("the next one was let in %v after the holder's node had gone", took)
				}
				w.checkMarkers(1)
				if err := lease.Release(); !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrClosed) {
					w.Errorf("the failed holder's release: %v", err)
				}
				w.checkMarkers(1)
				began := time.Now()
				w.release(next)
				last := w.wait(as[1])
				if took := as[1].at.Sub(began); took > moment {
					w.Errorf("after a release the next one was let in after %v", took)
				}
				w.release(last)
				w.checkMarkers(0)
				if n := strings.Count(w.log.String(), "waiting out the grace"); n != 1 {
					w.Errorf("the log tells %d times of the grace", n)
				}
				w.srv.Unsilence()
			})
		})
	}
}

// leaves tells when the node of lease goes.
func (w *world) leaves(lease *recipes.Lease) <-chan time.Time {
	left := make(chan time.Time, 1)
	c := w.clients[0]
	go func() {
		for {
			stat, watch, err := c.ExistsW(w.ctx, lease.Path())
			if err != nil || stat.IsZero() {
				stop(watch)
				left <- time.Now()
				return
			}
			<-watch.Event()
		}
	}()
	w.settle()
	return left
}

func stop(w *framework.Watch) {
	if w != nil {
		w.Stop()
	}
}

// What the option costs, and that it costs nothing without.
func TestGraceRequests(t *testing.T) {
	t.Parallel()
	const (
		without = "create2 getChildren2 getData delete"
		with    = "create2 getChildren2 create2 getChildren2 getData delete delete"
	)
	for _, tc := range []struct {
		family        family
		without, with string
	}{
		{mutexes, without, with},
		{readers, without, with},
		{writers, without, with},
		{
			semaphoreMutexes,
			"create2 getChildren2 getChildren2 multi exists getData delete",
			"create2 getChildren2 getChildren2 create2 getChildren2 multi exists getData delete delete",
		},
	} {
		withGrace(t, []family{tc.family}, func(w *world) {
			c := w.client()
			w.put(c, markers)
			w.put(c, markers+"/foreign")
			for want, opts := range map[string][]recipes.Option{
				tc.without: nil,
				tc.with:    {recipes.GraceAfterCrash(grace)},
			} {
				m := w.lock(c, opts...)
				w.release(w.acquire(m)) // its first use looks at more
				w.settle()
				log := w.requests(isWork)
				lease := w.acquire(m)
				w.settle()
				w.release(lease)
				log.stop()
				if ops := strings.Join(log.ops(), " "); ops != want {
					w.Errorf("with %d options the client asked %s, want %s", len(opts), ops, want)
				}
			}
		})
	}
}

// A place is kept while the grace lasts, through whatever keeps the session.
func TestGraceKeepsThePlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault func(w *world, c *framework.Client)
		late  time.Duration // beyond the grace
	}{
		"connection cut": {fault: func(w *world, c *framework.Client) { w.link(c).drop() }},
		"asked to go": {fault: func(w *world, _ *framework.Client) {
			w.revoke(w.clients[0], w.first(w.clients[0]), recipes.WithReason("early"))
		}},
		"cut near the end": {
			fault: func(w *world, c *framework.Client) {
				time.AfterFunc(grace-soon-moment, func() {
					w.link(c).refuse(true)
					w.link(c).drop()
				})
				time.AfterFunc(grace, func() { w.link(c).refuse(false) })
			},
			late: 2 * soon,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withGrace(t, graceFamilies, func(w *world) {
				w.client()
				lease := w.acquire(w.graceful())
				c := w.client()
				m := w.rival(c, recipes.GraceAfterCrash(grace))
				a, b := w.queue(m)[0], w.queue(w.graceful())[0]
				began := time.Now()
				w.expire(lease)
				time.Sleep(soon)
				tc.fault(w, c)
				next := w.wait(a)
				if took := a.at.Sub(began); took < grace || took > grace+tc.late+moment {
					w.Errorf("let in after %v", took)
				}
				w.release(next)
				w.release(w.wait(b))
				w.checkMarkers(0)
			})
		})
	}
}

// first returns the path of the first contender's node.
func (w *world) first(c *framework.Client) string {
	w.Helper()
	line := w.family.line(root)
	names := w.children(c, line)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	return framework.JoinPath(line, names[0])
}

// graceChains are those of which any two rivals exclude each other, too.
var graceChains = []family{mutexes, semaphoreMutexes, writers, readers}

// One who fails while the grace lasts has not shortened it for the next one,
// who waits anew; so does he who has to stand in line again.
func TestGraceOfSuccessor(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w *world, c *framework.Client){
		"expired": func(w *world, c *framework.Client) {
			if err := w.srv.ExpireSession(c.Session().ID()); err != nil {
				w.Error(err)
			}
		},
		"closed":       func(_ *world, c *framework.Client) { c.Close() },
		"node deleted": func(w *world, c *framework.Client) { w.remove(w.clients[0], w.first(w.clients[0])) },
		"without a connection for too long": func(w *world, c *framework.Client) {
			w.link(c).refuse(true)
			w.link(c).drop()
			<-c.Session().Context().Done()
			w.eventually("the server ends the session", func() bool { return len(w.ephemerals()) < 2 })
			w.link(c).refuse(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withGrace(t, graceChains, func(w *world) {
				w.client()
				lease := w.acquire(w.graceful())
				c := w.client()
				a := w.queue(w.rival(c, recipes.GraceAfterCrash(grace)))[0]
				b := w.queue(w.gracefulRival())[0]
				w.expire(lease)
				time.Sleep(grace / 5)
				fault(w, c)
				began := time.Now()
				next := w.wait(b)
				if took := b.at.Sub(began); took < grace-moment || took > grace+moment {
					w.Errorf("the next one was let in %v after the fault", took)
				}
				w.release(next)
				if <-a.done; name != "closed" {
					w.release(w.wait(a))
				}
				w.checkMarkers(0)
			})
		})
	}
}

// One who gives up in the grace leaves nothing behind, and is told why it took
// so long. The time that passed counts for those who use the same lock value,
// who else would never come to hold if they have less patience than the grace.
func TestGraceGivenUp(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		w.client()
		lease := w.acquire(w.graceful())
		m, other := w.gracefulRival(), w.graceful()
		w.expire(lease)
		began := time.Now()
		for range 2 {
			ctx, cancel := context.WithTimeout(w.ctx, grace/5)
			_, err := m.Acquire(ctx)
			cancel()
			wantErr(w, "Acquire", err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), "after a crash") || !strings.Contains(err.Error(), markers) {
				w.Errorf("Acquire says %v", err)
			}
			w.checkMarkers(1)
			if names := w.nodes(w.clients[0], root); len(names) > 0 {
				w.Errorf("in line are %v", names)
			}
		}
		mine := w.acquire(m)
		if took := time.Since(began); took != grace {
			w.Errorf("let in after %v", took)
		}
		w.expire(mine)
		began = time.Now()
		w.release(w.acquire(other))
		if took := time.Since(began); took != grace {
			w.Errorf("one who knew of another failure was let in after %v", took)
		}
		w.checkMarkers(0)
	})
}

// TryAcquire does not wait, and finds the lock open when the grace is over.
func TestGraceTry(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		w.client()
		lease := w.acquire(w.graceful())
		m := w.gracefulRival()
		_, err := m.TryAcquire(w.ctx)
		wantErr(w, "TryAcquire", err, recipes.ErrHeld)
		w.expire(lease)
		for left := grace; left > 0; left -= 5 * time.Second {
			began := time.Now()
			_, err := m.TryAcquire(w.ctx)
			wantErr(w, "TryAcquire", err, recipes.ErrHeld)
			if !strings.Contains(err.Error(), left.String()) || !strings.Contains(err.Error(), "crash") {
				w.Errorf("%v before its end, TryAcquire says %v", left, err)
			}
			if took := time.Since(began); took > moment {
				w.Errorf("TryAcquire took %v", took)
			}
			w.checkMarkers(1)
			time.Sleep(5 * time.Second)
		}
		lease, err = m.TryAcquire(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		w.granted(root, lease)
		w.release(lease)
		w.checkMarkers(0)
	})
}

// A marker that goes opens the lock: its holder has released, and the servers
// hear of it late; or an administrator knows better.
func TestGraceEndsWithMarker(t *testing.T) {
	t.Parallel()
	t.Run("deleted by hand", func(t *testing.T) {
		t.Parallel()
		withGrace(t, graceFamilies, func(w *world) {
			admin := w.client()
			lease := w.acquire(w.graceful())
			name := w.children(admin, markers)[0]
			a := w.queue(w.gracefulRival())[0]
			w.expire(lease)
			time.Sleep(soon)
			began := time.Now()
			w.remove(admin, markers+"/"+name)
			w.release(w.wait(a))
			if took := a.at.Sub(began); took > moment {
				w.Errorf("let in after %v", took)
			}
			w.checkMarkers(0)
		})
	})
	t.Run("released without a connection", func(t *testing.T) {
		t.Parallel()
		withGrace(t, graceFamilies, func(w *world) {
			w.client()
			c := w.client()
			lease := w.acquire(w.lock(c, recipes.GraceAfterCrash(grace)))
			a := w.queue(w.gracefulRival())[0]
			w.link(c).refuse(true)
			w.link(c).drop()
			if err := lease.Release(); err == nil {
				w.Error("Release says nothing of the outage")
			}
			w.returned(lease)
			w.eventually("the session expires", func() bool { return len(w.nodes(w.clients[0], root)) == 1 })
			time.Sleep(soon)
			if a.returned() {
				w.Error("let in although the release has not been heard of")
			}
			w.link(c).refuse(false)
			began := time.Now()
			w.release(w.wait(a))
			if took := a.at.Sub(began); took > soon {
				w.Errorf("let in after %v", took)
			}
			w.checkMarkers(0)
		})
	})
}

// One whose node was deleted right before it makes its marker finds that of a
// holder who lives. It neither takes it away nor counts its time.
func TestGraceSparesTheLiving(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		admin := w.client()
		late, m := w.graceful(), w.gracefulRival()
		id := w.clients[1].Session().ID()
		var holder *recipes.Lease
		stop := w.srv.OnRequest(matcher(func(r embedded.Request) bool {
			return r.Session == id && onMarkers("create2")(r)
		}).once(func() {
			w.remove(admin, w.first(admin))
			holder = w.acquire(m)
		}))
		defer stop()
		a := w.attempt(late)
		w.settle()
		time.Sleep(grace / 2)
		if holder == nil || holder.Err() != nil || a.returned() {
			w.Fatalf("the holder %v, the late one returned: %v", holder, a.returned())
		}
		w.checkMarkers(1)
		w.expire(holder)
		began := time.Now()
		w.release(w.wait(a))
		if took := a.at.Sub(began); took < grace-moment {
			w.Errorf("let in after %v", took)
		}
		w.checkMarkers(0)
	})
}

// One whose node is deleted at the end of the grace does not take it for over.
func TestGraceIsOverInThePlaceOnly(t *testing.T) {
	t.Parallel()
	withGrace(t, graceChains, func(w *world) {
		admin := w.client()
		lease := w.acquire(w.graceful())
		late, m := w.gracefulRival(), w.gracefulRival()
		stop := w.srv.OnRequest(onMarkers("multi").once(func() { w.remove(admin, w.first(admin)) }))
		defer stop()
		a, b := w.queue(late)[0], w.queue(m)[0]
		began := time.Now()
		w.expire(lease)
		time.Sleep(grace + soon)
		if a.returned() || b.returned() {
			w.Errorf("let in without a place: %v, before the grace was over: %v", a.returned(), b.returned())
		}
		w.release(w.wait(b))
		if took := b.at.Sub(began); took != 2*grace {
			w.Errorf("the next one was let in after %v", took)
		}
		w.release(w.wait(a))
		w.checkMarkers(0)
	})
}

// A process that dies, for good, at one step. Only while there is a marker is
// the lock closed: from before it is held until what it protects is over.
func TestGraceAfterCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		op     string
		marker bool // is what the request is about, else the lock's node
		after  bool // the request was carried out
		closed bool
	}{
		{"create2", false, true, false},
		{"create2", true, false, false},
		{"create2", true, true, true},
		{"delete", true, false, true},
		{"delete", true, true, false},
		{"delete", false, false, false},
		{"delete", false, true, false},
		{"multi", false, false, true}, // a permit's grant
		{"multi", false, true, true},
	} {
		families := graceFamilies
		if tc.op == "multi" {
			families = []family{semaphoreMutexes}
		}
		t.Run(fmt.Sprintf("%s, of the marker: %v, done: %v", tc.op, tc.marker, tc.after), func(t *testing.T) {
			t.Parallel()
			withGrace(t, families, func(w *world) {
				w.client()
				c, m := w.client(), w.gracefulRival()
				w.release(w.acquire(m)) // so that no parents need be made
				match := of(c, matcher(func(r embedded.Request) bool {
					return op(tc.op)(r) && onMarkers(tc.op)(r) == tc.marker
				}))
				crash := func(r embedded.Request) embedded.Verdict {
					if !match(r) {
						return embedded.Pass
					}
					w.link(c).refuse(true)
					_ = w.srv.ExpireSession(r.Session)
					return embedded.Cut
				}
				if tc.after {
					defer w.srv.OnReply(crash)()
				} else {
					defer w.srv.OnRequest(crash)()
				}
				ctx, cancel := context.WithTimeout(w.ctx, soon)
				defer cancel()
				lease, err := w.lock(c, recipes.GraceAfterCrash(grace)).Acquire(ctx)
				if err == nil {
					_ = lease.Release()
				}
				w.settle()
				began, want := time.Now(), time.Duration(0)
				if tc.closed {
					want = grace
				}
				w.release(w.acquire(m))
				if took := time.Since(began); took != want {
					w.Errorf("let in after %v, want %v", took, want)
				}
				w.checkMarkers(0)
			})
		})
	}
}

// The markers are where the lock is, for every view of it.
func TestGraceThroughViews(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		w.client()
		view, err := w.client().Namespace("locks")
		if err != nil {
			w.Fatal(err)
		}
		lease := w.acquire(w.family.lock(view, "/report", recipes.GraceAfterCrash(grace)))
		w.checkMarkers(1)
		w.expire(lease)
		began := time.Now()
		w.release(w.acquire(w.gracefulRival()))
		if took := time.Since(began); took != grace {
			w.Errorf("let in after %v", took)
		}
		w.checkMarkers(0)
	})
}

// Who may not make a marker does not get the lock; who cannot delete one
// gets it after the grace, and everybody is told.
func TestGraceForbidden(t *testing.T) {
	t.Parallel()
	const noAuth = -102
	t.Run("make", func(t *testing.T) {
		t.Parallel()
		withGrace(t, graceFamilies, func(w *world) {
			w.client()
			defer w.srv.OnRequest(onMarkers("create2").answer(noAuth))()
			_, err := w.graceful().Acquire(w.ctx)
			wantErr(w, "Acquire", err, framework.ErrNoAuth)
			w.checkMarkers(0)
			if names := w.nodes(w.clients[0], root); len(names) > 0 {
				w.Errorf("in line are %v", names)
			}
		})
	})
	for name, tc := range map[string]struct {
		forbid func(w *world) (allow func())
		err    error
	}{
		"delete": {func(w *world) func() {
			return w.srv.OnRequest(onMarkers("delete", "multi").answer(noAuth))
		}, framework.ErrNoAuth},
		"delete what has a child": {func(w *world) func() {
			child := markers + "/" + w.children(w.clients[0], markers)[0] + "/foreign"
			w.put(w.clients[0], child)
			return func() { w.remove(w.clients[0], child) }
		}, framework.ErrNotEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withGrace(t, graceFamilies, func(w *world) {
				w.client()
				lease := w.acquire(w.graceful())
				allow := tc.forbid(w)
				wantErr(w, "Release", lease.Release(), tc.err)
				w.returned(lease)
				m := w.gracefulRival()
				began := time.Now()
				lease = w.acquire(m)
				if took := time.Since(began); took != grace {
					w.Errorf("let in after %v", took)
				}
				if !strings.Contains(w.log.String(), "a failed holder's marker cannot be deleted") {
					w.Error("the log does not tell")
				}
				allow()
				w.release(lease)
				w.release(w.acquire(m)) // who has waited already
				if took := time.Since(began); took != grace {
					w.Errorf("in the end %v have passed", took)
				}
				w.checkMarkers(0)
			})
		})
	}
}

// More markers than go into one request.
func TestGraceOfMany(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		c := w.client()
		for i := range 250 {
			w.put(c, fmt.Sprintf("%s/_c_%d-%s%010d", markers, i, w.family.label, i))
		}
		began := time.Now()
		lease := w.acquire(w.graceful())
		if took := time.Since(began); took != grace {
			w.Errorf("let in after %v", took)
		}
		w.checkMarkers(1)
		w.release(lease)
	})
}

func TestGraceRefused(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		for _, d := range []time.Duration{0, -1} {
			_, err := w.fresh(recipes.GraceAfterCrash(d)).Acquire(w.ctx)
			wantErr(w, d.String(), err, framework.ErrInvalidOption)
		}
	})
}

// Whoever asks why nobody gets in is told of the marker.
func TestGraceIsExplained(t *testing.T) {
	t.Parallel()
	withGrace(t, graceFamilies, func(w *world) {
		observer := w.rival(w.client())
		lease := w.acquire(w.graceful())
		explain := func() recipes.Explanation {
			w.settle()
			e, err := observer.(explainer).Explain(w.ctx)
			if err != nil {
				w.Fatal(err)
			}
			return e
		}
		if e := explain(); len(e.Failed) > 0 {
			w.Errorf("held: %v", e)
		}
		w.expire(lease)
		w.settle()
		for range 2 { // with the line's path, and without
			e := explain()
			text := e.String()
			if len(e.Failed) != 1 || !strings.Contains(text, "closed after a failure") || !strings.Contains(text, "closed: by "+e.Failed[0]) {
				w.Errorf("failed: %v", e)
			}
			w.srv.ReapContainers()
		}
		w.release(w.acquire(w.gracefulRival()))
		if e := explain(); w.family.label != "__READ__" && len(e.Failed) > 0 {
			w.Errorf("cleared: %v", e)
		}
	})
}

type explainer interface {
	Explain(ctx context.Context) (recipes.Explanation, error)
}
