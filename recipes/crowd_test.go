package recipes_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A thousand waiters in ten sessions lose their connections, keep
// their places, and are let in one after the other, each by one event.
func TestThousandWaitersReconnect(t *testing.T) {
	t.Parallel()
	const clients, waiters = 10, 1000
	inBubble(t, func(w *world) {
		holder := w.acquire(w.mutex())
		var ms []recipes.InterProcessLock
		for range clients {
			ms = append(ms, w.mutex())
		}
		as := make([]*attempt, waiters)
		for i := range as {
			as[i] = w.attempt(ms[i%clients])
			w.settle() // they come one after the other
		}
		if got, most := w.srv.WatchCount(), waiters+2; got > most {
			t.Errorf("%d watches for %d waiters, want at most %d", got, waiters, most)
		}
		w.srv.DropConnections()
		time.Sleep(soon)
		if got, most := w.srv.WatchCount(), waiters+2; got > most {
			t.Errorf("%d watches for %d waiters after a reconnect, want at most %d", got, waiters, most)
		}
		lease := holder
		for i, a := range as {
			began := time.Now()
			var read int
			count := w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if op("getChildren2", "getData")(r) {
					read++
				}
				return embedded.Pass
			})
			if i == waiters/2 { // the wake-up comes while nobody is connected
				w.srv.Refuse(true)
				for _, info := range w.srv.Sessions() {
					if info.ID != lease.Session().ID() {
						w.srv.DropConnections(info.ID)
					}
				}
				time.AfterFunc(soon, func() { w.srv.Refuse(false) })
			}
			w.release(lease)
			lease = w.wait(a)
			w.settle()
			count()
			if took := time.Since(began); took > 3*soon {
				t.Fatalf("waiter %d was let in after %v", i, took)
			}
			if i != waiters/2 && read > 2 {
				t.Errorf("waiter %d was let in by %d reads, want the line and its own node", i, read)
			}
		}
		w.release(lease)
	})
}

// Ten thousand cycles leave goroutines, watches and nodes where they were.
// TestNothingPilesUp adds sockets and memory.
func TestTenThousandCycles(t *testing.T) {
	t.Parallel()
	cycles := 10_000
	if testing.Short() {
		cycles = 1000
	}
	inBubble(t, func(w *world) {
		const clients = 4
		var ms []recipes.InterProcessLock
		for range clients {
			ms = append(ms, w.mutex())
		}
		w.release(w.acquire(ms[0]))
		w.settle()
		goroutines, dump := w.goroutines(), w.srv.Dump()
		done := make(chan struct{})
		for _, m := range ms {
			go func() {
				defer func() { done <- struct{}{} }()
				for range cycles / clients {
					w.release(w.acquire(m))
				}
			}()
		}
		for range ms {
			<-done
		}
		w.settle()
		if now := w.srv.Dump(); now != dump {
			t.Errorf("the tree was\n%sand is\n%s", dump, now)
		}
		if n := w.srv.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		w.checkGoroutines(goroutines)
	})
}

// goroutines returns how many goroutines there are in the bubble, all at rest.
func (w *world) goroutines() int { return strings.Count(w.stacks(), w.bubble()) }

// bubble is how the headers of stack traces name the bubble that this is.
func (w *world) bubble() string {
	buf := make([]byte, 200)
	header, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "\n")
	i := strings.Index(header, "synctest bubble ")
	if i < 0 {
		w.Fatalf("not in a bubble: %s", header)
	}
	return header[i:]
}

func (w *world) stacks() string {
	w.settle()
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

func (w *world) checkGoroutines(before int) {
	w.Helper()
	if now := w.goroutines(); now != before {
		w.Errorf("%d goroutines, there were %d\n%s", now, before, w.stacks())
	}
}

// Attempts on a lock that is held for long leave nothing, whether they end by
// their context, by TryAcquire, or behind others that end.
func TestTimedOutAttemptsLeaveNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		w.settle()
		goroutines, dump, watches := w.goroutines(), w.srv.Dump(), w.srv.WatchCount()
		for range 20 {
			done := make(chan struct{})
			for i := range 50 {
				go func() {
					defer func() { done <- struct{}{} }()
					if i%10 == 0 {
						_, err := m.TryAcquire(w.ctx)
						wantErr(t, "TryAcquire", err, recipes.ErrHeld)
						return
					}
					ctx, cancel := context.WithTimeout(w.ctx, time.Duration(i)*time.Millisecond)
					defer cancel()
					_, err := m.Acquire(ctx)
					wantErr(t, "Acquire", err, context.DeadlineExceeded)
				}()
			}
			for range 50 {
				<-done
			}
		}
		w.settle()
		if now := w.srv.Dump(); now != dump {
			t.Errorf("the tree was\n%sand is\n%s", dump, now)
		}
		if now := w.srv.WatchCount(); now != watches {
			t.Errorf("%d watches, there were %d: %v", now, watches, w.srv.Watches())
		}
		w.checkGoroutines(goroutines)
		w.release(lease)
	})
}

// A lock that is held costs its server one watch, and its client one
// goroutine. The next in line has two watches, the holder's node and its own;
// in the same session the first is the holder's.
func TestManyLocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		const locks = 200
		c, other := w.client(), w.client()
		mutex := func(c *framework.Client, i int) *recipes.InterProcessMutex {
			return recipes.NewInterProcessMutex(c, fmt.Sprintf("%s-%d", root, i))
		}
		goroutines := w.goroutines()
		var leases []*recipes.Lease
		for i := range locks {
			leases = append(leases, w.acquire(mutex(c, i)))
		}
		w.checkGoroutines(goroutines + locks)
		if n := w.srv.WatchCount(); n != locks {
			t.Errorf("%d watches for %d locks", n, locks)
		}
		outside := w.queue(mutex(other, 7))[0]
		if n := w.srv.WatchCount(); n != locks+2 {
			t.Errorf("%d watches for %d locks and one in line, want 2 more", n, locks)
		}
		inside := w.queue(mutex(c, 8))[0]
		if n := w.srv.WatchCount(); n != locks+2+1 {
			t.Errorf("%d watches for %d locks and another of the same client in line, want 1 more", n, locks)
		}
		for _, lease := range leases {
			w.release(lease)
		}
		w.release(w.wait(outside))
		w.release(w.wait(inside))
		w.settle()
		if n := w.srv.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// A long hold does not gather the contexts that were made of it.
func TestContextsDoNotPileUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		type key struct{}
		lease := w.acquire(w.mutex())
		var gone []weak.Pointer[[64]byte]
		for range 10 {
			value := new([64]byte)
			gone = append(gone, weak.Make(value))
			ctx, cancel := context.WithCancel(context.WithValue(w.ctx, key{}, value))
			_ = lease.Context(ctx)
			cancel()
		}
		w.settle()
		runtime.GC()
		for i, p := range gone {
			if p.Value() != nil {
				t.Errorf("context %d is still referred to", i)
			}
		}
		w.release(lease)
	})
}

// Many contenders in many sessions, some of which give up, some of whose
// connections break: one at a time, tokens rising, nothing left.
func TestManyContenders(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		const clients, each, rounds = 5, 4, 10
		done := make(chan struct{})
		for range clients {
			c := w.client()
			for i := range each {
				go func() {
					defer func() { done <- struct{}{} }()
					m := recipes.NewInterProcessMutex(c, root)
					for r := range rounds {
						w.contend(c, m, i+r)
					}
				}()
			}
		}
		for range clients * each {
			<-done
		}
	})
}

func (w *world) contend(c *framework.Client, m *recipes.InterProcessMutex, n int) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Duration(n%5+1)*soon)
	defer cancel()
	lease, err := m.Acquire(ctx)
	if err != nil {
		wantErr(w, "Acquire", err, context.DeadlineExceeded)
		return
	}
	w.granted(root, lease)
	time.Sleep(soon / 20)
	if n%3 == 0 {
		w.link(c).drop()
	}
	w.release(lease)
}
