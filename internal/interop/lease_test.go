//go:build linux

package interop_test

import (
	"errors"
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/faultproxy"
	"github.com/batonzk/baton/internal/interop"
)

// What a lease promises between two processes, by one machine's clock. The
// times are short, but none is the claim: that is the order of events.

// pair is a holder and one who stands behind it.
type pair struct {
	holder, next *user
	held         grant
	waiting      *interop.Call
}

// newPair makes the processes, each with a session of its own.
func (w *world) newPair(t *testing.T, holderAddr string, timeout time.Duration, env ...string) *pair {
	t.Helper()
	root := root(t)
	p := &pair{
		holder: connect(t, startGo(t, env...), holderAddr, timeout).mutex(t, "m", root),
		next:   connect(t, startGo(t), w.addr, timeout).mutex(t, "m", root),
	}
	p.held = p.holder.acquire(t)
	p.waiting = p.next.attempt(forever)
	w.waitLine(t, root, 2)
	return p
}

func TestLease(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	onEachServer(t, 200*time.Millisecond, func(t *testing.T, w *world) {
		t.Run("holder is cut off", w.holderIsCutOff)
		t.Run("holder is stopped", w.holderIsStopped)
	})
}

func (w *world) holderIsCutOff(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, *faultproxy.Proxy, *user){
		"silence": func(_ *testing.T, p *faultproxy.Proxy, _ *user) { p.Silence() },
		"reset": func(_ *testing.T, p *faultproxy.Proxy, _ *user) {
			p.Refuse(true)
			p.Cut()
		},
		// What the server answered last was long on the way: the lease must
		// count from when it was sent. A longer way would break the connection.
		"slow": func(t *testing.T, p *faultproxy.Proxy, holder *user) {
			time.Sleep(holder.timeout / 7) // sharpens the test: no ping is sent after the last request
			p.Delay(holder.timeout / 8)
			_, err := holder.Do(within(t), "participants", holder.lock)
			must(t, err)
			p.Silence()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.cutOff(t, fault)
		})
	}
}

// cutOff parts the holder from the server: its lease ends before the server
// gives the lock to the next.
func (w *world) cutOff(t *testing.T, fault func(*testing.T, *faultproxy.Proxy, *user)) {
	proxy := startProxy(t, w.addr)
	// The margin is a twentieth: what a loaded machine may take to run a timer.
	p := w.newPair(t, proxy.Addr(), 4*time.Second)

	cut := interop.Monotonic()
	fault(t, proxy, p.holder)
	next := granted(t, p.waiting)
	ended, err := p.holder.Event(within(t), "ended", p.holder.lock)
	must(t, err)
	if ended.At < cut {
		t.Errorf("the lease ended %v before the network failed: %q", cut-ended.At, ended.Words)
	}
	if ended.At >= next.at {
		t.Errorf("two holders: the lease ended %v after the next grant", ended.At-next.at)
	}
	if ended.Word(1) != "lost" {
		t.Errorf("the lease ended with %q, want lost", ended.Words)
	}
	if next.token <= p.held.token {
		t.Errorf("the next token is %#x, the last was %#x", next.token, p.held.token)
	}
	t.Logf("session timeout %v: lease ended %v after the fault, next grant %v after that",
		p.holder.timeout, ended.At-cut, next.at-ended.At)

	proxy.Refuse(false)
	proxy.Delay(0)
	proxy.Resume()
	m, err := p.holder.Do(within(t), "look", p.holder.lock)
	must(t, err)
	w.wantLost(t, p, m)
	w.handBack(t, p, next)
}

// handBack has everybody release, and the old holder take its turn again.
func (w *world) handBack(t *testing.T, p *pair, next grant) {
	t.Helper()
	_, err := p.holder.Do(within(t), "release", p.holder.lock)
	wantErr(t, "releasing a lost lease", err, kind("lost"))
	if names := w.children(t, p.next.root); len(names) != 1 || names[0] != path.Base(next.path) {
		t.Errorf("in line are %q, want the holder %s alone", names, next.path)
	}
	again := p.holder.attempt(forever)
	w.waitLine(t, p.next.root, 2)
	p.next.release(t)
	if g := granted(t, again); g.token <= next.token {
		t.Errorf("the next token is %#x, the last was %#x", g.token, next.token)
	}
	p.holder.release(t)
	w.waitLine(t, p.next.root, 0)
}

// wantLost checks that a look found the lease lost, in each way to ask, and
// that nothing was done on the strength of it.
func (w *world) wantLost(t *testing.T, p *pair, m interop.Message) interop.Look {
	t.Helper()
	look, err := interop.ParseLook(m)
	must(t, err)
	want := interop.Look{
		Began: look.Began, Asked: look.Asked,
		Err: "lost", Context: "lost", Done: true, Reentry: "lost", Check: "lost", Stale: "lost",
	}
	if look != want {
		t.Errorf("the first look says\n%+v, want\n%+v", look, want)
	}
	for _, path := range interop.Written(p.holder.root) {
		if _, err := w.observer.Exists(within(t), path); !errors.Is(err, framework.ErrNoNode) {
			t.Errorf("%s was written by one who had lost the lock: %v", path, err)
		}
	}
	return look
}

func (w *world) holderIsStopped(t *testing.T) {
	t.Run("by another", func(t *testing.T) {
		t.Parallel()
		w.stopped(t, false)
	})
	t.Run("by itself", func(t *testing.T) {
		t.Parallel()
		w.stopped(t, true)
	})
}

// stopped stops the holder's process for several session timeouts. What it does
// when it goes on is to look at its lease. If it stops itself, that is the very
// first thing that it does; timers that have fallen due come later. If it is
// stopped by another, in a read, timers and the look compete.
func (w *world) stopped(t *testing.T, byItself bool) {
	const timeout = time.Second
	p := w.newPair(t, w.addr, timeout, "GOMAXPROCS=1")
	var res resource
	if !res.put(p.held.token) {
		t.Error("the resource refuses the holder")
	}

	var look *interop.Call
	if byItself {
		look = p.holder.Start("stop", p.holder.lock)
		must(t, p.holder.WaitStopped(within(t)))
	} else {
		must(t, p.holder.Pause(within(t)))
		look = p.holder.Start("look", p.holder.lock)
	}
	stopped := interop.Monotonic()
	write := p.holder.Start("token", p.holder.lock) // without a look
	next := granted(t, p.waiting)
	if next.token <= p.held.token {
		t.Errorf("the next token is %#x, the last was %#x", next.token, p.held.token)
	}
	if !res.put(next.token) {
		t.Error("the resource refuses the next holder")
	}
	time.Sleep(stopped + 3*timeout - interop.Monotonic()) // the length of the stop, not a wait for something

	resumed := interop.Monotonic()
	must(t, p.holder.Resume())
	m, err := look.Wait(within(t))
	must(t, err)
	l := w.wantLost(t, p, m)
	ended, err := p.holder.Event(within(t), "ended", p.holder.lock)
	must(t, err)
	if ended.At < resumed || ended.At > resumed+timeout/2 || ended.Word(1) != "lost" {
		t.Errorf("the lease's context ended %v after the stop, with %q; want it at once, and lost",
			ended.At-resumed, ended.Words)
	}
	m, err = write.Wait(within(t))
	must(t, err)
	token, err := strconv.ParseInt(m.Word(0), 10, 64)
	must(t, err)
	if res.put(token) {
		t.Errorf("the resource took %#x after %#x", token, next.token)
	}
	t.Logf("stopped for %v: looked %v after, answered %v later; context ended %v after the stop",
		resumed-stopped, l.Began-resumed, l.Asked-l.Began, ended.At-resumed)
	w.handBack(t, p, next)
}

// A resource refuses who comes with a smaller token than it has seen.
type resource struct{ highest int64 }

func (r *resource) put(token int64) bool {
	if token < r.highest {
		return false
	}
	r.highest = token
	return true
}
