package recipes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const (
	lineOf    = root + "/locks"
	permitsOf = root + "/leases"
)

// semaphore returns the semaphore at root for a new client.
func (w *world) semaphore(limit int, opts ...recipes.Option) *recipes.InterProcessSemaphore {
	w.Helper()
	return recipes.NewInterProcessSemaphore(w.client(), root, recipes.FixedLimit(limit), opts...)
}

// out returns how many permits are out, as the server knows.
func (w *world) out() int {
	node, _ := w.srv.Node(permitsOf)
	return len(node.Children)
}

// inLine returns how many stand in line, as the server knows.
func (w *world) inLine() int {
	node, _ := w.srv.Node(lineOf)
	return len(node.Children)
}

// capped fails the test if there are ever more permits than limit.
func (w *world) capped(limit int) {
	w.srv.OnReply(op("multi").then(func() {
		if n := w.out(); n > limit {
			w.Errorf("%d permits are out, the limit is %d", n, limit)
		}
	}))
}

func (w *world) acquireN(s *recipes.InterProcessSemaphore, n int) recipes.Leases {
	w.Helper()
	leases, err := s.AcquireN(w.ctx, n)
	if err != nil {
		w.Fatalf("AcquireN(%d): %v", n, err)
	}
	return leases
}

func (w *world) releaseAll(leases recipes.Leases) {
	w.Helper()
	if err := leases.Release(); err != nil {
		w.Errorf("Release: %v", err)
	}
}

// A wish is an AcquireN that is under way.
type wish struct {
	leases recipes.Leases
	err    error
	at     time.Time
	done   chan struct{}
	cancel context.CancelFunc
}

// wish calls AcquireN on a goroutine, and returns when it is in line, or done.
func (w *world) wish(s *recipes.InterProcessSemaphore, n int) *wish {
	v := w.attemptN(s, n)
	w.settle()
	return v
}

// attemptN calls AcquireN on a goroutine.
func (w *world) attemptN(s *recipes.InterProcessSemaphore, n int) *wish {
	ctx, cancel := context.WithCancel(w.ctx)
	v := &wish{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(v.done)
		v.leases, v.err = s.AcquireN(ctx, n)
		v.at = time.Now()
	}()
	return v
}

func (v *wish) granted() bool {
	select {
	case <-v.done:
		return v.err == nil
	default:
		return false
	}
}

func (w *world) waitAll(v *wish) recipes.Leases {
	w.Helper()
	<-v.done
	if v.err != nil {
		w.Fatalf("AcquireN: %v", v.err)
	}
	return v.leases
}

// Each permit is a node of its own, in Curator's form; the parents are
// containers, and nothing of the line is left.
func TestPermitsAreCurators(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		s := w.semaphore(5, recipes.WithData([]byte("me")))
		leases := w.acquireN(s, 3)
		paths := make(map[string]bool)
		for _, l := range leases {
			parent, name := framework.SplitPath(l.Path())
			node, ok := w.srv.Node(l.Path())
			if !ok || parent != permitsOf || len(name) != len("_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-lease-0000000000") ||
				!strings.HasPrefix(name, "_c_") || name[39:46] != "-lease-" {
				t.Errorf("the node is called %q", l.Path())
			}
			if node.Mode != "ephemeral" || node.Owner != l.Session().ID() || string(node.Data) != "me" {
				t.Errorf("the node is %+v", node)
			}
			if l.Token() != node.Czxid || l.Token() != leases[0].Token() {
				t.Errorf("its token is %#x, it was created in %#x", l.Token(), node.Czxid)
			}
			paths[l.Path()] = true
		}
		if len(leases) != 3 || len(paths) != 3 || w.out() != 3 || w.inLine() != 0 {
			t.Errorf("%d leases, %d nodes, %d out, %d in line", len(leases), len(paths), w.out(), w.inLine())
		}
		for _, parent := range []string{root, lineOf, permitsOf} {
			if node, _ := w.srv.Node(parent); node.Mode != "container" {
				t.Errorf("%s is %s, want a container", parent, node.Mode)
			}
		}
		if later := w.acquireN(s, 1); later[0].Token() <= leases[0].Token() {
			t.Errorf("token %#x does not exceed the last, %#x", later[0].Token(), leases[0].Token())
		} else {
			w.releaseAll(later)
		}
		w.release(leases[1])
		if w.out() != 2 {
			t.Errorf("%d are out after one release", w.out())
		}
		wantErr(t, "the released one", leases[1].Err(), recipes.ErrReleased)
		if err := leases[0].Err(); err != nil {
			t.Errorf("another one: %v", err)
		}
		w.releaseAll(leases)
	})
}

// What an acquire asks of the servers is what docs/locks.md says.
func TestPermitRequests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		fixed := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(3))
		live := recipes.NewInterProcessSemaphore(c, root, recipes.SharedLimit(recipes.NewSharedCount(c, "/limit", 3)))
		w.releaseAll(w.acquireN(fixed, 1)) // makes the parents
		w.releaseAll(w.acquireN(live, 1))  // and the count
		w.settle()
		for name, tc := range map[string]struct {
			s    *recipes.InterProcessSemaphore
			n    int
			want string // until it is granted
		}{
			"one":        {fixed, 1, "create2 getChildren2 getChildren2 multi exists"},
			"three":      {fixed, 3, "create2 getChildren2 getChildren2 multi exists"},
			"live limit": {live, 2, "create2 getChildren2 getData getChildren2 multi exists"},
		} {
			log := w.requests(isWork)
			leases := w.acquireN(tc.s, tc.n)
			w.settle()
			log.stop()
			until := len(strings.Fields(tc.want))
			if got := strings.Join(log.ops()[:until], " "); got != tc.want {
				t.Errorf("%s: an uncontended acquire asked %s, want %s", name, got, tc.want)
			}
			if got := log.ops()[until:]; len(got) != tc.n || slices.ContainsFunc(got, func(op string) bool { return op != "getData" }) {
				t.Errorf("%s: then it asked %v, want one getData for each permit", name, got)
			}
			log = w.requests(isWork)
			w.releaseAll(leases)
			log.stop()
			if got := log.ops(); len(got) != tc.n {
				t.Errorf("%s: the release asked %v", name, got)
			}
		}
	})
}

// T25: the limit holds at any moment of the servers' time, and is reached.
func TestPermitsNeverExceedLimit(t *testing.T) {
	t.Parallel()
	const limit, clients, each, rounds = 5, 4, 5, 10
	inBubble(t, func(w *world) {
		w.capped(limit)
		var mu sync.Mutex
		var done sync.WaitGroup
		var holding, most int
		for i := range clients {
			c := w.client()
			s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(limit))
			for j := range each {
				done.Go(func() {
					for r := range rounds {
						n := 1 + (i+j+r)%limit
						leases := w.acquireN(s, n)
						mu.Lock()
						holding += n
						most = max(most, holding)
						mu.Unlock()
						time.Sleep(time.Duration(1+r%3) * time.Millisecond)
						mu.Lock()
						holding -= n
						mu.Unlock()
						for _, l := range leases { // in chunks
							if err := l.Release(); err != nil {
								w.Error(err)
							}
						}
						if (i+j+r)%7 == 0 {
							w.link(c).drop()
						}
					}
				})
			}
		}
		done.Wait()
		if most != limit {
			t.Errorf("at most %d were held at once, want the limit, %d", most, limit)
		}
	})
}

// Two who want all of what each other might have taken: neither holds a part
// of it while it waits.
func TestNobodyHoldsAndWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.capped(2)
		blocker := w.acquireN(w.semaphore(2), 1)
		a := w.wish(w.semaphore(2), 2)
		b := w.wish(w.semaphore(2), 2)
		if w.out() != 1 || w.inLine() != 2 {
			t.Errorf("%d permits are out, %d in line, want 1 and 2", w.out(), w.inLine())
		}
		w.releaseAll(blocker)
		first := w.waitAll(a)
		w.settle()
		if b.granted() || w.out() != 2 {
			t.Errorf("both were granted, or not all: %d are out", w.out())
		}
		w.releaseAll(first)
		w.releaseAll(w.waitAll(b))
	})
}

// In the order of the line: nobody who wants little passes one who wants much.
func TestPermitsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		a, b := w.acquireN(w.semaphore(3), 1), w.acquireN(w.semaphore(3), 1)
		much := w.wish(w.semaphore(3), 3)
		little := w.wish(w.semaphore(3), 1)
		more := w.wish(w.semaphore(3), 2)
		w.releaseAll(a)
		w.settle()
		if much.granted() || little.granted() || more.granted() {
			t.Error("granted out of turn")
		}
		w.releaseAll(b)
		held := w.waitAll(much)
		w.settle()
		if little.granted() || more.granted() {
			t.Error("granted beyond the limit")
		}
		w.release(held[0])
		single := w.waitAll(little)
		w.releaseAll(held)
		pair := w.waitAll(more)
		w.releaseAll(single)
		w.releaseAll(pair)
	})
}

// A release wakes the first in line, and nobody else.
func TestPermitReleaseWakesOne(t *testing.T) {
	t.Parallel()
	const waiters = 20
	inBubble(t, func(w *world) {
		held := w.acquireN(w.semaphore(2), 2)
		var wishes []*wish
		clients := make(map[int64]int)
		for i := range waiters {
			c := w.client()
			clients[c.Session().ID()] = i
			wishes = append(wishes, w.wish(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2)), 1))
		}
		// One for each in line on who is ahead, or on the permits, and for the
		// first two on themselves; one for each permit.
		if got, most := w.srv.WatchCount(), waiters+2+2; got > most {
			t.Errorf("%d watches, want at most %d", got, most)
		}
		log := w.requests(isWork)
		w.release(held[0])
		w.settle()
		log.mu.Lock()
		for _, r := range log.list {
			if i, waits := clients[r.Session]; waits && i > 2 {
				t.Errorf("waiter %d, which is not next, was woken and asked %s %s", i, r.Op, r.Path)
			}
		}
		log.mu.Unlock()
		w.release(held[1])
		for _, v := range wishes {
			w.releaseAll(w.waitAll(v))
		}
	})
}

// S1–S4, and whoever crashes: the permits go to those who wait.
func TestPermitsAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, c *framework.Client, leases recipes.Leases){
		"released": func(w *world, _ *framework.Client, leases recipes.Leases) { w.releaseAll(leases) },
		"expired":  func(w *world, c *framework.Client, _ recipes.Leases) { _ = w.srv.ExpireSession(c.Session().ID()) },
		"closed":   func(_ *world, c *framework.Client, _ recipes.Leases) { _ = c.Close() },
		"silent":   func(w *world, c *framework.Client, _ recipes.Leases) { w.link(c).silence() },
		"deleted by one": func(w *world, _ *framework.Client, leases recipes.Leases) {
			for _, l := range leases {
				w.remove(w.clients[1], l.Path())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.capped(2)
				c := w.client()
				leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2)), 2)
				a, b := w.wish(w.semaphore(2), 1), w.wish(w.semaphore(2), 1)
				ctx := leases.Context(w.ctx)
				end(w, c, leases)
				first, second := w.waitAll(a), w.waitAll(b)
				<-leases[0].Done() // the servers knew first, if it was their doing
				if ctx.Err() == nil {
					t.Error("the context of what was given back goes on")
				}
				for _, l := range leases {
					if l.Err() == nil {
						t.Errorf("%s is still held", l.Path())
					}
				}
				w.releaseAll(first)
				w.releaseAll(second)
				_ = leases.Release()
			})
		})
	}
}

// One permit of several is lost by itself.
func TestOnePermitLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		leases := w.acquireN(w.semaphore(3), 3)
		ctx := leases.Context(w.ctx)
		next := w.wish(w.semaphore(3), 1)
		w.remove(w.client(), leases[1].Path())
		w.settle()
		wantErr(t, "the deleted one", leases[1].Err(), recipes.ErrLost)
		wantErr(t, "the cause", context.Cause(ctx), recipes.ErrLost)
		if leases[0].Err() != nil || leases[2].Err() != nil {
			t.Errorf("the others: %v, %v", leases[0].Err(), leases[2].Err())
		}
		w.releaseAll(w.waitAll(next))
		wantErr(t, "Release", leases.Release(), recipes.ErrLost)
		if w.out() != 0 {
			t.Errorf("%d permits are out", w.out())
		}
	})
}

// Children of leases that nobody alive owns take no permit.
func TestForeignAndDeadPermits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		names := []string{"0", "workid", "lease-x", "lock-0000000000", "_c_x-lease-0000000000", "lease-0000000001"}
		for _, name := range names {
			w.put(c, permitsOf+"/"+name)
		}
		// One that another client has made in its own way does count.
		foreign, err := c.Create(w.ctx, permitsOf+"/_c_1-lease-", nil, framework.WithMode(framework.EphemeralSequential))
		if err != nil {
			t.Fatal(err)
		}
		leases := w.acquireN(w.semaphore(3), 2)
		_, err = w.semaphore(3).TryAcquire(w.ctx)
		wantErr(t, "beyond the limit", err, recipes.ErrHeld)
		waiting := w.wish(w.semaphore(3), 1)
		log := w.requests(op("exists"))
		w.remove(c, foreign.Path)
		w.releaseAll(w.waitAll(waiting))
		if got := log.ops(); len(got) > 1 { // of the granted node
			t.Errorf("what was known is read again: %v", got)
		}
		log.stop()
		w.releaseAll(leases)
		for _, name := range names {
			if !strings.Contains(w.log.String(), "child="+permitsOf+"/"+name+"\n") {
				t.Errorf("the log does not name %s", name)
			}
		}
	})
}

func TestTryPermits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		s := w.semaphore(3)
		held := w.acquireN(s, 2)
		_, err := s.TryAcquireN(w.ctx, 2)
		wantErr(t, "too few", err, recipes.ErrHeld)
		for _, want := range []string{root, "wants 2 permits", "2 of 3 are out", "all by this client"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		more, err := s.TryAcquireN(w.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.releaseAll(more)
		waiting := w.wish(w.semaphore(3), 3)
		_, err = s.TryAcquire(w.ctx)
		wantErr(t, "with somebody ahead in line", err, recipes.ErrHeld)
		if w.inLine() != 1 || w.out() != 2 {
			t.Errorf("%d in line, %d out", w.inLine(), w.out())
		}
		w.releaseAll(held)
		w.releaseAll(w.waitAll(waiting))
	})
}

func TestRefusedPermits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		log := w.requests(isWork)
		count := recipes.NewSharedCount(c, "/limit", 1)
		for name, tc := range map[string]struct {
			client *framework.Client
			path   string
			limit  recipes.Limit
			n      int
			opts   []recipes.Option
			want   []string
		}{
			"none":              {c, root, recipes.FixedLimit(3), 0, nil, []string{root, "0 permits", "at most 3"}},
			"less":              {c, root, recipes.FixedLimit(3), -1, nil, []string{"-1 permits", "at most 3"}},
			"too many":          {c, root, recipes.FixedLimit(3), 4, nil, []string{"4 permits", "at most 3"}},
			"none, live":        {c, root, recipes.SharedLimit(count), 0, nil, []string{"0 permits", "/limit"}},
			"no limit":          {c, root, recipes.Limit{}, 1, nil, []string{"the limit is not set"}},
			"limit 0":           {c, root, recipes.FixedLimit(0), 1, nil, []string{"0 permits"}},
			"nil count":         {c, root, recipes.SharedLimit(nil), 1, nil, []string{"SharedLimit(nil)"}},
			"bad count":         {c, root, recipes.SharedLimit(recipes.NewSharedCount(c, "limit", 1)), 1, nil, []string{`"limit"`}},
			"another's":         {w.client(), root, recipes.SharedLimit(count), 1, nil, []string{"another client"}},
			"no client":         {nil, root, recipes.SharedLimit(count), 1, nil, []string{"client is nil"}},
			"bad path":          {c, "locks/", recipes.FixedLimit(1), 1, nil, []string{`"locks/"`}},
			"no path":           {c, "/", recipes.FixedLimit(1), 1, nil, []string{`"/"`}},
			"option nil":        {c, root, recipes.FixedLimit(1), 1, []recipes.Option{nil}, []string{"option 0 is nil"}},
			"grace":             {c, root, recipes.FixedLimit(1), 1, []recipes.Option{recipes.GraceAfterCrash(time.Second)}, []string{"GraceAfterCrash is not supported by a semaphore"}},
			"several at a time": {nil, "x", recipes.Limit{}, 1, nil, []string{"client is nil", "the limit is not set"}},
		} {
			s := recipes.NewInterProcessSemaphore(tc.client, tc.path, tc.limit, tc.opts...)
			for _, acquire := range []func(context.Context, int) (recipes.Leases, error){s.AcquireN, s.TryAcquireN} {
				_, err := acquire(w.ctx, tc.n)
				wantErr(t, name, err)
				for _, want := range tc.want {
					if err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %q does not say %q", name, err, want)
					}
				}
				if name != "bad path" && name != "no path" && name != "bad count" {
					wantErr(t, name, err, framework.ErrInvalidOption)
				}
			}
			if tc.n == 1 {
				_, err := s.Participants(w.ctx)
				wantErr(t, name+", Participants", err)
				wantErr(t, name+", Release", s.Release(nil))
			}
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
	})
}

// How a wait at the head of the line ends early: with nothing left.
func TestWaitForPermitsEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(4))
		held := w.acquireN(w.semaphore(4), 3)
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		_, err := s.AcquireN(ctx, 2)
		wantErr(t, "AcquireN", err, context.DeadlineExceeded)
		for _, want := range []string{root, "waited 3s", "wants 2 permits", "3 of 4 are out"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		w.shortly("nobody is in line", func() bool { return w.inLine() == 0 })
		if w.out() != 3 {
			t.Errorf("%d are out", w.out())
		}
		waiting := w.wish(s, 2)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-waiting.done
		wantErr(t, "when the client closes", waiting.err, recipes.ErrClosed)
		w.releaseAll(held)
	})
}

// S15, and no re-entry: anybody may release the semaphore mutex, and its
// holder cannot wait for himself.
func TestSemaphoreMutexCannotBeReentered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessSemaphoreMutex(c, root)
		lease := w.acquire(m)
		w.settle()
		ctx := lease.Context(w.ctx)
		log := w.requests(of(c, isWork))
		for name, acquire := range map[string]func(context.Context) (*recipes.Lease, error){
			"Acquire": m.Acquire, "TryAcquire": recipes.NewInterProcessSemaphoreMutex(c, root).TryAcquire,
		} {
			_, err := acquire(ctx)
			wantErr(t, name, err, recipes.ErrDeadlock)
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
		log.stop()
		released := make(chan error)
		go func() { released <- lease.Release() }()
		if err := <-released; err != nil {
			t.Error(err)
		}
		w.returned(lease)
		_, err := m.Acquire(context.WithoutCancel(ctx))
		wantErr(t, "with a context of a released lease", err, recipes.ErrReleased)
		lease = w.acquire(m)
		ctx = lease.Context(w.ctx)
		w.remove(w.client(), lease.Path())
		w.settle()
		_, err = m.Acquire(context.WithoutCancel(ctx))
		wantErr(t, "with a context of a lost lease", err, recipes.ErrLost)
		w.returned(lease)
		_ = lease.Release()
		w.release(w.acquire(m))
		err = m.Do(w.ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return m.Do(ctx, func(context.Context, *recipes.Lease) error { return errors.New("entered") })
		})
		wantErr(t, "Do in Do", err, recipes.ErrDeadlock)
	})
}

// A context of a permit is no re-entry.
func TestPermitContextTakesAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		s := w.semaphore(2)
		err := s.Do(w.ctx, func(ctx context.Context, outer *recipes.Lease) error {
			return s.Do(ctx, func(ctx context.Context, inner *recipes.Lease) error {
				if inner.Path() == outer.Path() || w.out() != 2 {
					t.Errorf("%s within %s, %d are out", inner.Path(), outer.Path(), w.out())
				}
				_, err := s.TryAcquire(ctx)
				wantErr(t, "a third", err, recipes.ErrHeld)
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
		wantErr(t, "Release of another's", s.Release(w.acquire(recipes.NewInterProcessMutex(w.client(), "/m"))), recipes.ErrNotHeld)
		w.release(w.held["/m"][0])
	})
}
