package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestWatch(t *testing.T) {
	for _, tc := range watchCases() {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c, other := connect(t, srv), connect(t, srv)
				tc.setUp(t, other)
				w := tc.watch(t, c, "/n")
				tc.do(t, other)
				if got := pending(w); got != tc.want {
					t.Fatalf("event %v, want %v", got, tc.want)
				}
				w.Stop()
				noWatches(t, srv, c)
			})
		})
	}
}

// TestWatchWhileAway: what happens while the connection is broken is
// delivered, once, when it is back; what does not is not; and the watch is
// armed again.
func TestWatchWhileAway(t *testing.T) {
	for _, tc := range watchCases() {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				other := connect(t, srv)
				c := connect(t, srv)
				st := record(c)
				tc.setUp(t, other)
				w, second := tc.watch(t, c, "/n"), tc.watch(t, c, "/n")
				srv.Silence(c.Session().ID())
				srv.DropConnections(c.Session().ID())
				st.want(t, framework.Suspended)
				tc.do(t, other)
				if got := pending(w); got != 0 {
					t.Fatalf("event %v while away", got)
				}
				srv.Unsilence()
				st.want(t, framework.Reconnected)
				if a, b := pending(w), pending(second); a != tc.want || b != tc.want {
					t.Fatalf("events %v and %v, want %v", a, b, tc.want)
				}
				if tc.want == 0 {
					if n := srv.WatchCount(); n != 1 {
						t.Fatalf("%d watches on the server, want the one armed again", n)
					}
					stillArmed(t, other, w, second)
				}
				w.Stop()
				second.Stop()
				noWatches(t, srv, c)
			})
		})
	}
}

func stillArmed(t *testing.T, other *framework.Client, watches ...*framework.Watch) {
	t.Helper()
	if _, err := other.Exists(t.Context(), "/n"); err != nil {
		create(t, other, "/n", "")
	} else if err := other.Delete(t.Context(), "/n", framework.AnyVersion, framework.WithChildren()); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		if pending(w) == 0 {
			t.Fatal("the watch is not armed after the reconnect")
		}
	}
}

func TestGetWOfMissingNode(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		if _, _, w, err := c.GetW(t.Context(), "/none"); !errors.Is(err, framework.ErrNoNode) || w != nil {
			t.Fatalf("GetW: %v, %v", w, err)
		}
		if _, _, w, err := c.ChildrenW(t.Context(), "/none"); !errors.Is(err, framework.ErrNoNode) || w != nil {
			t.Fatalf("ChildrenW: %v, %v", w, err)
		}
		if _, w, err := c.ExistsW(t.Context(), "none"); !errors.Is(err, framework.ErrInvalidPath) || w != nil {
			t.Fatalf("ExistsW: %v, %v", w, err)
		}
		noWatches(t, srv, c)
	})
}

// TestFanOut: a hundred waiters are one watch of the server, which goes when
// the last of them leaves.
func TestFanOut(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		var all []*framework.Watch
		for range 100 {
			all = append(all, getW(t, c, "/n"), existsW(t, c, "/n"))
		}
		if n := srv.WatchCount(); n != 1 {
			t.Fatalf("%d watches on the server", n)
		}
		for i, w := range all[1:] {
			w.Stop()
			w.Stop()
			synctest.Wait()
			if n := srv.WatchCount(); n != 1 {
				t.Fatalf("%d watches on the server after %d of 200 left", n, i+1)
			}
		}
		all[0].Stop()
		noWatches(t, srv, c)

		all = all[:0]
		for range 100 {
			all = append(all, getW(t, c, "/n"))
		}
		log := logRequests(srv)
		set(t, c, "/n", "x")
		for i, w := range all {
			if got := pending(w); got != framework.EventDataChanged {
				t.Fatalf("waiter %d: %v", i, got)
			}
		}
		if ops := log.ops(); len(ops) != 1 {
			t.Fatalf("requests %v, want the one set", ops)
		}
		noWatches(t, srv, c)
	})
}

// TestManyWatchesSurvive: a thousand watches over several reconnects.
func TestManyWatchesSurvive(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other := connect(t, srv), connect(t, srv)
		var all []*framework.Watch
		for i := range 1000 {
			create(t, other, fmt.Sprintf("/n%d", i), "")
			all = append(all, getW(t, c, fmt.Sprintf("/n%d", i)))
		}
		for range 3 {
			srv.DropConnections(c.Session().ID())
			time.Sleep(time.Second)
			synctest.Wait()
			if n := srv.WatchCount(); n != 1000 {
				t.Fatalf("%d watches on the server after a reconnect", n)
			}
		}
		srv.DropConnections(c.Session().ID())
		for i := range all {
			set(t, other, fmt.Sprintf("/n%d", i), "x")
		}
		time.Sleep(time.Second)
		for i, w := range all {
			if got := pending(w); got != framework.EventDataChanged {
				t.Fatalf("watch %d: %v", i, got)
			}
		}
		noWatches(t, srv, c)
	})
}

func TestWatchEndsWithSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		st := record(c)
		create(t, c, "/n", "")
		w, stopped := childrenW(t, c, "/n"), getW(t, c, "/n")
		stopped.Stop()
		_ = srv.ExpireSession(c.Session().ID())
		ev := <-w.Event()
		if ev.Type != framework.EventSessionEnded || ev.Path != "/n" || !errors.Is(ev.Err, framework.ErrSessionLost) {
			t.Fatalf("event %+v", ev)
		}
		if got := pending(stopped); got != 0 {
			t.Fatalf("stopped watch: %v", got)
		}
		w.Stop()
		st.want(t, framework.Suspended, framework.Lost, framework.Reconnected)

		w = getW(t, c, "/n")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if ev := <-w.Event(); ev.Type != framework.EventSessionEnded || !errors.Is(ev.Err, framework.ErrClosed) {
			t.Fatalf("event at Close %+v", ev)
		}
		w.Stop()
	})
}

// TestWatchNoLongerAllowed: a node that may not be read any more after a
// reconnect cannot be watched either. The waiter is told to look.
func TestWatchNoLongerAllowed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other := connect(t, srv), connect(t, srv)
		st := record(c)
		create(t, other, "/n", "")
		w := childrenW(t, c, "/n")
		srv.Silence(c.Session().ID())
		srv.DropConnections(c.Session().ID())
		st.want(t, framework.Suspended)
		if _, err := other.SetACL(t.Context(), "/n", framework.WorldACL(framework.PermWrite), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		srv.Unsilence()
		st.want(t, framework.Reconnected)
		if got := pending(w); got != framework.EventChildrenChanged {
			t.Fatalf("event %v", got)
		}
		noWatches(t, srv, c)
	})
}

// TestWatchSetBeforeEvent: an event on its way from an earlier watch belongs
// to a change that a later read has seen, and is not reported to its watch.
func TestWatchSetBeforeEvent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other := connect(t, srv), connect(t, srv)
		create(t, other, "/n", "")
		first := getW(t, c, "/n")

		// The read that sets the second watch is sent while the first watch
		// stands, and carried out after it has fired.
		arrived, goOn := make(chan struct{}), make(chan struct{})
		done := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "getData" && r.Session == c.Session().ID() {
				close(arrived)
				<-goOn
			}
			return embedded.Pass
		})
		var second *framework.Watch
		var data []byte
		finished := make(chan error)
		go func() {
			var err error
			data, _, second, err = c.GetW(t.Context(), "/n")
			finished <- err
		}()
		<-arrived
		done()
		remove(t, other, "/n")
		create(t, other, "/n", "new")
		close(goOn)
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		if got := pending(first); got != framework.EventDeleted {
			t.Fatalf("first watch: %v", got)
		}
		if got := pending(second); got != 0 || string(data) != "new" {
			t.Fatalf("second watch: %v, although its read has seen the new node %q", got, data)
		}
		set(t, other, "/n", "x")
		if got := pending(second); got != framework.EventDataChanged {
			t.Fatalf("second watch: %v, want %v: it was not armed", got, framework.EventDataChanged)
		}
		noWatches(t, srv, c)
	})
}

// TestCancelledWatch: a read given up before its answer leaves no watch.
func TestCancelledWatch(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		hold, release := holdOp(srv, "getData")
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan error)
		for range 3 {
			go func() {
				_, _, _, err := c.GetW(ctx, "/n")
				finished <- err
			}()
		}
		<-hold
		cancel()
		for range 3 {
			if err := <-finished; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		release()
		noWatches(t, srv, c)
		// And another that came in between keeps its own.
		w := getW(t, c, "/n")
		set(t, c, "/n", "x")
		if got := pending(w); got != framework.EventDataChanged {
			t.Fatalf("event %v", got)
		}
	})
}

// TestStopRaces stops watches while they fire and while the connection breaks.
func TestStopRaces(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other := connect(t, srv), connect(t, srv)
		create(t, other, "/n", "")
		done := make(chan struct{})
		for range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range 100 {
					_, _, w, err := c.GetW(context.Background(), "/n")
					if err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 {
						time.Sleep(time.Millisecond)
					}
					w.Stop()
				}
			}()
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 50 {
				time.Sleep(time.Millisecond)
				set(t, other, "/n", "x")
				if i%10 == 5 {
					srv.DropConnections(c.Session().ID())
				}
			}
		}()
		for range 9 {
			<-done
		}
		noWatches(t, srv, c)
	})
}

func TestWatchPathInNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		ns, err := c.Namespace("a/b")
		if err != nil {
			t.Fatal(err)
		}
		w := existsW(t, ns, "/n")
		root := existsW(t, c, "/a/b/n")
		create(t, ns, "/n", "")
		if ev := <-w.Event(); ev.Path != "/n" {
			t.Fatalf("path %q in the namespace", ev.Path)
		}
		if ev := <-root.Event(); ev.Path != "/a/b/n" {
			t.Fatalf("path %q", ev.Path)
		}
		if n := srv.WatchCount(); n != 0 {
			t.Fatalf("%d watches", n)
		}
	})
}

// TestExistsWTellsMissingNodes: from the root too, whose transaction is 0.
func TestExistsWTellsMissingNodes(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		for path, missing := range map[string]bool{"/": false, "/zookeeper": false, "/none": true} {
			stat, w, err := c.ExistsW(t.Context(), path)
			if err != nil || w == nil || stat.IsZero() != missing {
				t.Fatalf("%s: %+v, %v, %v", path, stat, w, err)
			}
			w.Stop()
		}
		noWatches(t, srv, c)
	})
}
