package recipes_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// explain explains, or fails the test.
func (w *world) explain(m *recipes.InterProcessMutex) recipes.Explanation {
	w.Helper()
	e, err := m.Explain(w.ctx)
	if err != nil {
		w.Fatalf("Explain: %v", err)
	}
	return e
}

func wantText(t testing.TB, e fmt.Stringer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(e.String(), line) {
			t.Errorf("the explanation lacks %q:\n%s", line, e)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		ns, err := c.Namespace("app")
		if err != nil {
			t.Fatal(err)
		}
		m := recipes.NewInterProcessMutex(ns, "/lock", recipes.WithData([]byte("first")))
		e := w.explain(m)
		if e.Exists || e.Path != "/app/lock" || e.Session != c.Session().ID() {
			t.Errorf("of a path that does not exist: %+v", e)
		}
		wantText(t, e, "lock /app/lock: free, the path does not exist\n")

		w.put(c, "/app/lock/workid")
		w.put(c, "/app/lock/lock-0000000000")
		wantText(t, w.explain(m), "lock /app/lock: free\n")
		began := time.Now()
		lease := w.acquire(m)
		others := w.queue(recipes.NewInterProcessMutex(w.client(), "/app/lock", recipes.WithData([]byte("second"))),
			recipes.NewInterProcessMutex(c, "/app/lock", recipes.WithData(nil)))

		e = w.explain(m)
		if !e.Exists || len(e.Holders) != 1 || len(e.Waiting) != 2 || e.Unread != 0 || len(e.Dead) != 1 ||
			!slices.Equal(e.Foreign, []string{"workid"}) || e.Next != 5 || e.Exhausted() {
			t.Fatalf("Explain: %+v", e)
		}
		h := e.Holders[0]
		if h.Token != lease.Token() || h.SessionID != lease.Session().ID() || string(h.Data) != "first" ||
			!h.Holder || h.Since.Sub(began) > soon {
			t.Errorf("the holder is %+v, its lease %s", h, lease.Path())
		}
		if own := e.Own(); len(own) != 2 || own[0].Path != lease.Path() || own[1].Name != e.Waiting[1].Name {
			t.Errorf("the client's own are %+v", own)
		}
		wantText(t, e, "lock /app/lock: 1 hold, 2 wait\n", "foreign: \"workid\"", "dead: lock-0000000000",
			fmt.Sprintf("holder: %s \"first\", session %#x, token %#x, since ", h.Name, h.SessionID, h.Token), ", this client\n")
		w.release(lease)
		for _, a := range others {
			w.release(w.wait(a))
		}
	})
}

// A long line is read in part, and counted whole. The holder is found behind
// however many dead ones.
func TestExplainLongLine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		const dead, living = 120, 300
		for i := range dead {
			w.put(c, fmt.Sprintf("%s/lock-%010d", root, i))
		}
		for range living {
			if _, err := c.Create(w.ctx, root+"/lock-", nil, framework.WithMode(framework.EphemeralSequential)); err != nil {
				t.Fatal(err)
			}
		}
		log := w.requests(of(c, isWork))
		e := w.explain(recipes.NewInterProcessMutex(c, root))
		if len(e.Dead) != dead || len(e.Holders) != 1 || len(e.Waiting) < 10 ||
			len(e.Holders)+len(e.Waiting)+e.Unread != living {
			t.Errorf("%d dead, %d hold, %d wait, %d unread", len(e.Dead), len(e.Holders), len(e.Waiting), e.Unread)
		}
		if n := len(log.ops()); n > dead+100 {
			t.Errorf("%d requests", n)
		}
		if want := fmt.Sprintf("lock-%010d", dead); len(e.Holders) == 1 && e.Holders[0].Name != want {
			t.Errorf("the holder is %s, want %s", e.Holders[0].Name, want)
		}
		wantText(t, e, fmt.Sprintf("1 hold, %d wait", living-1), fmt.Sprintf("waiting: %d more, not read\n", e.Unread),
			fmt.Sprintf("dead: %d more\n", dead-10))
		if err := c.Close(); err != nil { // takes the line with it
			t.Error(err)
		}
	})
}

// The counter is known to the last number before its end, and where the line
// straddles its wrap-around.
func TestExplainCounter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		start int32
		wraps bool
		next  int32 // after two contenders
		text  string
	}{
		{start: 7, next: 9},
		{start: 1 << 30, next: 1<<30 + 2},
		{start: math.MaxInt32 - 1000, next: math.MaxInt32 - 998, text: "998 before its end: delete " + root + " when"},
		{start: math.MaxInt32 - 1, next: math.MaxInt32, text: "counter: at its end, 2147483647"},
		{start: math.MaxInt32, next: math.MaxInt32, text: "counter: at its end, 2147483647"},
		{start: math.MaxInt32, wraps: true, next: math.MinInt32 + 1},
		{start: -2, wraps: true, next: 0},
		{start: -1, wraps: true, next: 1},
	} {
		t.Run(fmt.Sprint(tc.start, tc.wraps), func(t *testing.T) {
			t.Parallel()
			var opts []embedded.Option
			if tc.wraps {
				opts = append(opts, embedded.WithWrappingSequence())
			}
			inBubble(t, func(w *world) {
				m := w.mutex()
				w.put(w.client(), root)
				if err := w.srv.SetSequence(root, tc.start); err != nil {
					t.Fatal(err)
				}
				first := w.acquire(m)
				second := w.queue(w.mutex())[0]
				e := w.explain(m)
				if e.Next != tc.next || e.Exhausted() != (tc.next == math.MaxInt32) {
					t.Errorf("the next number is %d, want %d", e.Next, tc.next)
				}
				if wantText(t, e, tc.text); tc.text == "" && strings.Contains(e.String(), "counter") {
					t.Errorf("the explanation worries about the counter:\n%s", e)
				}
				if len(e.Holders) != 1 || len(e.Waiting) != 1 || e.Holders[0].Path != first.Path() {
					t.Errorf("holders %+v, waiting %+v, want %s to hold", e.Holders, e.Waiting, first.Path())
				}
				w.release(first)
				w.release(w.wait(second))
			}, opts...)
		})
	}
}

// A semaphore's two counters do not keep step: it is said which one is at its
// end, and what it is that has to be deleted.
func TestExplainSemaphoreCounters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		locks, leases int32
		want          []string // to be deleted
	}{
		{locks: 7, leases: 9},
		{locks: math.MaxInt32, leases: 9, want: []string{root + "/locks"}},
		{locks: 7, leases: math.MaxInt32, want: []string{root + "/leases"}},
		{locks: math.MaxInt32 - 5, leases: math.MaxInt32, want: []string{root + "/locks", root + "/leases"}},
	} {
		t.Run(fmt.Sprint(tc.locks, tc.leases), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				for path, n := range map[string]int32{root + "/locks": tc.locks, root + "/leases": tc.leases} {
					w.put(c, path)
					if err := w.srv.SetSequence(path, n); err != nil {
						t.Fatal(err)
					}
				}
				s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(1))
				e, err := s.Explain(w.ctx)
				if err != nil || e.Next != max(tc.locks, tc.leases) || e.Exhausted() != (e.Next == math.MaxInt32) ||
					!slices.Equal(e.Counters, []recipes.Counter{{Path: root + "/locks", Next: tc.locks}, {Path: root + "/leases", Next: tc.leases}}) {
					t.Errorf("Explain: %+v, %v", e, err)
				}
				var advised []string
				for line := range strings.Lines(e.String()) {
					if _, rest, ok := strings.Cut(line, ": delete "); ok {
						advised = append(advised, strings.TrimSuffix(rest, " when nobody uses it\n"))
					}
				}
				if !slices.Equal(advised, tc.want) {
					t.Errorf("what is to be deleted is %q, want %q:\n%s", advised, tc.want, e)
				}
				for _, path := range advised {
					w.remove(c, path)
				}
				w.release(w.acquire(s))
				if e, err = s.Explain(w.ctx); err != nil || e.Next > 10 {
					t.Errorf("after that, Explain: %+v, %v", e, err)
				}
			})
		})
	}
}

// What the client may not read it is not told; what no ACL hides, it is.
func TestExplainRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		secret := framework.WithACLProvider(func(path string) []framework.ACL {
			if strings.Contains(path, "lock-") {
				return framework.AuthACL(framework.PermAll)
			}
			return framework.WorldACL(framework.PermAll)
		})
		c := w.client(framework.WithAuth("digest", []byte("app:secret")), secret)
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		m := w.mutex()
		e := w.explain(m)
		if len(e.Holders) != 1 || e.Holders[0].Data != nil || e.Holders[0].Token != lease.Token() {
			t.Errorf("of a holder that may not be read: %+v", e)
		}
		w.release(lease)

		w.put(c, root+"-2", framework.WithACL(framework.WorldACL(framework.PermDelete)...))
		_, err := recipes.NewInterProcessMutex(w.client(), root+"-2").Explain(w.ctx)
		wantErr(t, "Explain", err, framework.ErrNoAuth)
		_, err = recipes.NewInterProcessMutex(w.client(), "no/path").Explain(w.ctx)
		wantErr(t, "Explain", err, framework.ErrInvalidPath)
	})
}

// Of a semaphore, who holds permits and who stands in line for them; the limit
// is read, and no count is made for that.
func TestExplainSemaphore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(3))
		live := recipes.NewInterProcessSemaphore(c, root, recipes.SharedLimit(recipes.NewSharedCount(c, "/count", 5)))
		e, err := live.Explain(w.ctx)
		if err != nil || e.Exists || e.Limit != 5 || e.Path != root {
			t.Errorf("of a path that does not exist: %+v, %v", e, err)
		}
		if _, ok := w.srv.Node("/count"); ok {
			t.Error("Explain has made the count")
		}
		leases := w.acquireN(s, 2)
		waiting := w.wish(recipes.NewInterProcessSemaphore(w.client(), root, recipes.FixedLimit(3)), 2)
		w.put(c, root+"/leases/workid")
		w.put(c, root+"/locks/x")
		e, err = s.Explain(w.ctx)
		if err != nil || len(e.Holders) != 2 || len(e.Waiting) != 1 || e.Limit != 3 || e.Permits != 2 || len(e.Own()) != 2 ||
			!slices.Equal(e.Foreign, []string{"locks/x", "leases/workid"}) {
			t.Errorf("Explain: %+v, %v", e, err)
		}
		wantText(t, e, "lock "+root+": 2 of 3 permits are out, 1 wait\n")
		w.releaseAll(leases)
		w.releaseAll(w.waitAll(waiting))
	})
}

// Of a read-write lock, both sides.
func TestExplainReadWrite(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := recipes.NewInterProcessReadWriteLock(w.client(), root)
		first, err := rw.ReadLock().Acquire(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		second, err := rw.ReadLock().Acquire(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		writer := w.queue(rw.WriteLock())[0]
		reader := w.queue(rw.ReadLock())[0]
		e, err := rw.Explain(w.ctx)
		if err != nil || len(e.Holders) != 2 || len(e.Waiting) != 2 || len(e.Foreign) != 0 || len(e.Own()) != 4 {
			t.Errorf("Explain: %v, %v", e, err)
		}
		for _, l := range []*recipes.Lease{first, second} {
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}
		w.release(w.wait(writer))
		w.release(w.wait(reader))
	})
}

// Of a multi lock, its locks in the order in which it acquires them.
func TestExplainMultiLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		locks := append(mutexesAt(c, several[1]), recipes.NewInterProcessSemaphore(c, several[0], recipes.FixedLimit(2)))
		m := recipes.NewInterProcessMultiLock(locks)
		holder := w.acquire(recipes.NewInterProcessMutex(w.client(), several[1]))
		waiting := w.attemptMulti(m)
		w.settle()
		all, err := m.Explain(w.ctx)
		if err != nil || len(all) != 2 || all[0].Path != several[0] || all[0].Permits != 1 || len(all[0].Own()) != 1 ||
			all[1].Path != several[1] || len(all[1].Holders) != 1 || all[1].Holders[0].Path != holder.Path() || len(all[1].Waiting) != 1 {
			t.Errorf("Explain: %v, %v", all, err)
		}
		w.release(holder)
		<-waiting.done
		if waiting.err != nil {
			t.Fatal(waiting.err)
		}
		if err := waiting.lease.Release(); err != nil {
			t.Error(err)
		}

		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err = m.Explain(ctx)
		wantErr(t, "with a done context", err, context.Canceled)
		alien := struct{ recipes.InterProcessLock }{locks[0]}
		for text, m := range map[string]*recipes.InterProcessMultiLock{
			"no locks":      recipes.NewInterProcessMultiLock(nil),
			"lock 2 of 2: ": recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{locks[1], alien}),
		} {
			all, err := m.Explain(w.ctx)
			wantErr(t, text, err, framework.ErrInvalidOption)
			if all != nil || err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%v, %v, want %q", all, err, text)
			}
		}
	})
}
