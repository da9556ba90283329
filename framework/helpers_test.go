package framework_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// getW, existsW and childrenW set a watch that must succeed, or find no node.
func getW(t testing.TB, c *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, _, w, err := c.GetW(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func existsW(t testing.TB, c *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, w, err := c.ExistsW(context.Background(), path)
	if err != nil || w == nil {
		t.Fatalf("watch %v, %v", w, err)
	}
	return w
}

func childrenW(t testing.TB, c *framework.Client, path string) *framework.Watch {
	t.Helper()
	_, _, w, err := c.ChildrenW(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func create(t testing.TB, c *framework.Client, path, data string, opts ...framework.CreateOption) framework.Created {
	t.Helper()
	made, err := c.Create(context.Background(), path, []byte(data), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func set(t testing.TB, c *framework.Client, path, data string) {
	t.Helper()
	if _, err := c.Set(context.Background(), path, []byte(data), framework.AnyVersion); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, c *framework.Client, path string) {
	t.Helper()
	if err := c.Delete(context.Background(), path, framework.AnyVersion); err != nil {
		t.Fatal(err)
	}
}

// pending returns the event that is there after all has come to rest.
func pending(w *framework.Watch) framework.EventType {
	synctest.Wait()
	select {
	case ev := <-w.Event():
		return ev.Type
	default:
		return 0
	}
}

// noWatches checks that nobody waits for anything, at either end.
func noWatches(t *testing.T, srv *embedded.Server, c *framework.Client) {
	t.Helper()
	synctest.Wait()
	if n := c.Session().Watched(); n != 0 {
		t.Errorf("%d entries left in the hub", n)
	}
	if n := srv.WatchCount(); n != 0 {
		t.Errorf("watches left on the server: %+v", srv.Watches())
	}
	if n := c.InFlight(); n != 0 {
		t.Errorf("%d requests in flight", n)
	}
}

// holdOp holds requests of an operation until release is called; the channel
// is closed when the first has come.
func holdOp(srv *embedded.Server, op string) (first <-chan struct{}, release func()) {
	came, open := make(chan struct{}), make(chan struct{})
	n := 0
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op != op {
			return embedded.Pass
		}
		if n++; n == 1 {
			close(came)
		}
		select {
		case <-open:
		case <-r.Done:
		}
		return embedded.Pass
	})
	return came, func() { remove(); close(open) }
}

func node(t *testing.T, srv *embedded.Server, path string) embedded.NodeInfo {
	t.Helper()
	n, ok := srv.Node(path)
	if !ok {
		t.Fatalf("no node %s", path)
	}
	return n
}

// onceCut cuts the connection in place of the first reply to an operation,
// and runs f before that on another goroutine, so that it may use the server.
func onceCut(op string, f func()) func(embedded.Request) embedded.Verdict {
	var used atomic.Bool
	return func(r embedded.Request) embedded.Verdict {
		if r.Op != op || !used.CompareAndSwap(false, true) {
			return embedded.Pass
		}
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
		return embedded.Cut
	}
}
