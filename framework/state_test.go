package framework_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestDropKeepsSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		_, st := recorded(t, srv)
		first := st.next(t)
		srv.DropConnections()
		suspended, again := st.next(t), st.next(t)
		if suspended.State != framework.Suspended || again.State != framework.Reconnected {
			t.Fatalf("states %v, %v", suspended, again)
		}
		if again.Session != first.Session || suspended.Session != first.Session {
			t.Fatalf("session %#x after %#x", again.Session, first.Session)
		}
		if suspended.Err == nil {
			t.Fatal("Suspended gives no reason")
		}
	})
}

func TestExpiryByServer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, st := recorded(t, srv)
		first := st.next(t)
		old, began := c.Session(), time.Now()
		if err := srv.ExpireSession(first.Session); err != nil {
			t.Fatal(err)
		}
		st.want(t, framework.Suspended)
		lost, again := st.next(t), st.next(t)
		if lost.State != framework.Lost || lost.Session != first.Session || !errors.Is(lost.Err, framework.ErrSessionLost) {
			t.Fatalf("%+v, want Lost of %#x", lost, first.Session)
		}
		if again.State != framework.Reconnected || again.Session == first.Session {
			t.Fatalf("%+v, want Reconnected in a new session", again)
		}
		if err := old.Err(); !errors.Is(err, framework.ErrSessionLost) {
			t.Fatalf("old session: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("a new session after %v", took)
		}
		if c.Session().ID() != again.Session {
			t.Fatalf("session %#x, want %#x", c.Session().ID(), again.Session)
		}
	})
}

// TestSlowListener blocks one of two listeners through hundreds of changes:
// the other is not delayed, and the slow one gets all of them in the end.
func TestSlowListener(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := unstarted(t, srv)
		gate := make(chan struct{})
		var slow, fast []framework.StateChange
		c.OnState(func(ch framework.StateChange) { <-gate; slow = append(slow, ch) })
		c.OnState(func(ch framework.StateChange) { fast = append(fast, ch) })
		start(t, c)
		for range 150 {
			time.Sleep(10 * time.Second)
			srv.DropConnections()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(fast) != 301 {
			t.Fatalf("%d states seen while another listener blocks, want 301", len(fast))
		}
		if len(slow) != 0 {
			t.Fatalf("%d states seen by the blocked listener", len(slow))
		}
		close(gate)
		synctest.Wait()
		if len(slow) != len(fast) {
			t.Fatalf("the slow listener saw %d states, want %d", len(slow), len(fast))
		}
		for i := range slow {
			if slow[i].State != fast[i].State {
				t.Fatalf("state %d: %v and %v", i, slow[i].State, fast[i].State)
			}
		}
	})
}

func TestListenerMayCallClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := unstarted(t, srv)
		got := make(chan error, 10)
		c.OnState(func(ch framework.StateChange) {
			_, err := c.Exists(t.Context(), "/")
			_, _ = c.State(), c.Session()
			got <- err
		})
		start(t, c)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})
}

func TestRemoveListener(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := unstarted(t, srv)
		var seen []framework.State
		remove := c.OnState(func(ch framework.StateChange) { seen = append(seen, ch.State) })
		start(t, c)
		time.Sleep(time.Second)
		synctest.Wait()
		remove()
		srv.DropConnections()
		time.Sleep(10 * time.Second)
		remove()
		synctest.Wait()
		if len(seen) != 1 {
			t.Fatalf("states %v, want Connected alone", seen)
		}
	})
}

// TestRemoveWithinListener: a listener may remove itself.
func TestRemoveWithinListener(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := framework.New(srv)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		n := 0
		var remove func()
		remove = c.OnState(func(framework.StateChange) { n++; remove() })
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		srv.DropConnections()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n != 1 {
			t.Fatalf("called %d times", n)
		}
	})
}

// TestStatesUnderRandomFaults checks the rules that states follow, whatever
// the server does.
func TestStatesUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 7), 1, 25).Draw(rt, "steps")
		waits := rapid.SliceOfN(rapid.IntRange(0, 12_000), len(steps), len(steps)).Draw(rt, "waits")
		var mu sync.Mutex
		var logs [2][]framework.StateChange
		synctest.Test(t, func(t *testing.T) {
			srv := startServer(t)
			c := unstarted(t, srv)
			for i := range logs {
				c.OnState(func(ch framework.StateChange) {
					mu.Lock()
					defer mu.Unlock()
					logs[i] = append(logs[i], ch)
				})
			}
			start(t, c)
			for i, step := range steps {
				randomFault(srv, step)
				time.Sleep(time.Duration(waits[i]) * time.Millisecond)
			}
			srv.Refuse(false)
			srv.Unsilence()
			time.Sleep(time.Minute)
			if !c.State().IsConnected() {
				t.Errorf("state %v a minute after the last fault", c.State())
			}
			synctest.Wait()
		})
		mu.Lock()
		defer mu.Unlock()
		checkStates(rt, logs[0])
		if len(logs[0]) != len(logs[1]) {
			rt.Fatalf("listeners saw %v and %v", logs[0], logs[1])
		}
		for i := range logs[0] {
			if a, b := logs[0][i], logs[1][i]; a.State != b.State || a.Session != b.Session {
				rt.Fatalf("listeners saw %v and %v", a, b)
			}
		}
	})
}

func randomFault(srv *embedded.Server, step int) {
	switch step {
	case 0, 1:
		srv.DropConnections()
	case 2:
		for _, s := range srv.Sessions() {
			_ = srv.ExpireSession(s.ID)
		}
	case 3:
		srv.Silence()
	case 4:
		srv.Unsilence()
	case 5:
		srv.Refuse(true)
	case 6:
		srv.Refuse(false)
	case 7:
		srv.Advance(7 * time.Second)
	}
}

func checkStates(t *rapid.T, log []framework.StateChange) {
	if len(log) == 0 || log[0].State != framework.Connected {
		t.Fatalf("states %v do not begin with Connected", log)
	}
	for i := 1; i < len(log); i++ {
		before, now := log[i-1], log[i]
		if now.State == before.State {
			t.Fatalf("%v twice in a row", now.State)
		}
		switch now.State {
		case framework.Connected:
			t.Fatalf("Connected again: %v", log)
		case framework.Suspended:
			if !before.State.IsConnected() || now.Session != before.Session {
				t.Fatalf("%v after %v", now, before)
			}
		case framework.Lost:
			if now.Session != before.Session {
				t.Fatalf("%v after %v", now, before)
			}
		case framework.Reconnected:
			if before.State != framework.Lost && now.Session != before.Session {
				t.Fatalf("a new session without Lost: %v after %v", now, before)
			}
			if before.State == framework.Lost && now.Session == before.Session {
				t.Fatalf("a lost session is back: %v after %v", now, before)
			}
		}
	}
}
