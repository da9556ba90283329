package framework_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs f with an embedded server in virtual time. When f returns, all
// that was opened in it is closed, and the bubble itself fails the test if a
// goroutine is left.
func bubble(t *testing.T, f func(t *testing.T, srv *embedded.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		f(t, srv)
	})
}

func startServer(t *testing.T, opts ...embedded.Option) *embedded.Server {
	t.Helper()
	srv, err := embedded.Start(append([]embedded.Option{embedded.WithTick(500 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

const sessionTimeout = 6 * time.Second

// newClient returns a started client, closed at the test's end.
func newClient(t *testing.T, ens framework.Ensemble, opts ...framework.Option) *framework.Client {
	t.Helper()
	c := unstarted(t, ens, opts...)
	start(t, c)
	return c
}

func start(t *testing.T, c *framework.Client) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
}

// unstarted returns a client, closed at the test's end.
func unstarted(t *testing.T, ens framework.Ensemble, opts ...framework.Option) *framework.Client {
	t.Helper()
	c, err := framework.New(ens, append([]framework.Option{framework.WithSessionTimeout(sessionTimeout)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// recorded returns a started client whose states are recorded from the first.
func recorded(t *testing.T, ens framework.Ensemble, opts ...framework.Option) (*framework.Client, *states) {
	t.Helper()
	c := unstarted(t, ens, opts...)
	st := record(c)
	start(t, c)
	return c, st
}

// connect returns a connected client.
func connect(t *testing.T, ens framework.Ensemble, opts ...framework.Option) *framework.Client {
	t.Helper()
	c := newClient(t, ens, opts...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// states records the states of a client from now on.
type states struct{ ch chan framework.StateChange }

func record(c *framework.Client) *states {
	s := &states{make(chan framework.StateChange, 1000)}
	c.OnState(func(ch framework.StateChange) { s.ch <- ch })
	return s
}

// next returns the next state, which must come within five virtual minutes.
func (s *states) next(t *testing.T) framework.StateChange {
	t.Helper()
	select {
	case c := <-s.ch:
		return c
	case <-time.After(5 * time.Minute):
		t.Fatal("no state came")
		panic("unreachable")
	}
}

func (s *states) want(t *testing.T, states ...framework.State) {
	t.Helper()
	for _, want := range states {
		if got := s.next(t); got.State != want {
			t.Fatalf("state %v (%v), want %v", got.State, got.Err, want)
		}
	}
}

// steps is a hook that records a connection's steps.
type steps struct {
	mu  sync.Mutex
	all []framework.ConnectionInfo
}

func (s *steps) OnConnection(info framework.ConnectionInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, info)
}

func (s *steps) get() []framework.ConnectionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// requests records what reaches a server, pings left out.
type requests struct {
	mu  sync.Mutex
	all []embedded.Request
}

func logRequests(srv *embedded.Server) *requests {
	l := new(requests)
	srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op != "ping" {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, r)
		}
		return embedded.Pass
	})
	return l
}

func (l *requests) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

func (l *requests) ops() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ops []string
	for _, r := range l.all {
		ops = append(ops, r.Op)
	}
	return ops
}

// count returns how many requests of an operation came.
func (l *requests) count(op string) int {
	n := 0
	for _, o := range l.ops() {
		if o == op {
			n++
		}
	}
	return n
}

func isOp(op string) func(embedded.Request) bool {
	return func(r embedded.Request) bool { return r.Op == op }
}
