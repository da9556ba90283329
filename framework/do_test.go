package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/retry"
)

// An anOperation is any public operation, on the node /n.
type anOperation struct {
	name  string // the server's
	write bool
	do    func(ctx context.Context, c *framework.Client) error
}

func operations() []anOperation {
	return []anOperation{
		{"getData", false, func(ctx context.Context, c *framework.Client) error {
			_, _, err := c.Get(ctx, "/n")
			return err
		}},
		{"exists", false, func(ctx context.Context, c *framework.Client) error {
			_, err := c.Exists(ctx, "/n")
			return err
		}},
		{"getChildren2", false, func(ctx context.Context, c *framework.Client) error {
			_, _, err := c.Children(ctx, "/n")
			return err
		}},
		{"getACL", false, func(ctx context.Context, c *framework.Client) error {
			_, _, err := c.GetACL(ctx, "/n")
			return err
		}},
		{"sync", false, func(ctx context.Context, c *framework.Client) error { return c.Sync(ctx, "/n") }},
		{"getData", false, func(ctx context.Context, c *framework.Client) error {
			_, _, w, err := c.GetW(ctx, "/n")
			if err == nil {
				w.Stop()
			}
			return err
		}},
		{"create2", true, func(ctx context.Context, c *framework.Client) error {
			_, err := c.Create(ctx, "/n/c", nil)
			return err
		}},
		{"setData", true, func(ctx context.Context, c *framework.Client) error {
			_, err := c.Set(ctx, "/n", nil, framework.AnyVersion)
			return err
		}},
		{"setACL", true, func(ctx context.Context, c *framework.Client) error {
			_, err := c.SetACL(ctx, "/n", framework.WorldACL(framework.PermAll), framework.AnyVersion)
			return err
		}},
		{"multi", true, func(ctx context.Context, c *framework.Client) error {
			_, err := c.Multi(ctx, framework.SetOp("/n", nil, framework.AnyVersion))
			return err
		}},
		{"delete", true, func(ctx context.Context, c *framework.Client) error {
			return c.Delete(ctx, "/n", framework.AnyVersion)
		}},
	}
}

func eachOperation(t *testing.T, f func(t *testing.T, srv *embedded.Server, op anOperation)) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) { f(t, srv, op) })
		})
	}
}

func TestOperationsSucceed(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		if err := op.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		noWatches(t, srv, c)
	})
}

func TestNotStartedAndClosed(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c, err := framework.New(srv)
		if err != nil {
			t.Fatal(err)
		}
		if err := op.do(t.Context(), c); !errors.Is(err, framework.ErrNotStarted) {
			t.Fatalf("not started: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		var e *framework.Error
		if err := op.do(t.Context(), c); !errors.Is(err, framework.ErrClosed) || !errors.As(err, &e) || e.Unknown {
			t.Fatalf("closed: %v", err)
		}
	})
}

// TestDoneContext: it fails before any I/O, although the answer is near.
func TestDoneContext(t *testing.T) {
	cause := errors.New("the user has left")
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		log := logRequests(srv)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := op.do(ctx, c)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Fatalf("%v, want Canceled and its cause", err)
		}
		if framework.IsUnknown(err) {
			t.Fatalf("unknown, although nothing was sent: %v", err)
		}
		synctest.Wait()
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

func TestCancelBeforeConnected(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		srv.Refuse(true)
		c := newClient(t, srv)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := op.do(ctx, c)
		if !errors.Is(err, context.DeadlineExceeded) || framework.IsUnknown(err) {
			t.Fatalf("%v", err)
		}
	})
}

// TestCancelInFlight: a write given up in flight is unknown, a read is not;
// neither waits, and nothing is left when the answer comes after all.
func TestCancelInFlight(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		came, release := holdOp(srv, op.name)
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan error)
		go func() { finished <- op.do(ctx, c) }()
		<-came
		cancel()
		err := <-finished
		if !errors.Is(err, context.Canceled) || framework.IsUnknown(err) != op.write {
			t.Fatalf("%v, unknown %v", err, framework.IsUnknown(err))
		}
		if n := c.InFlight(); n != 1 {
			t.Fatalf("%d requests in flight, want the one given up", n)
		}
		release()
		noWatches(t, srv, c)
	})
}

// TestLostReply: a read is tried again; so is a write, which then may meet
// its own first try.
func TestLostReply(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		log := logRequests(srv)
		srv.LoseReply(isOp(op.name))
		err := op.do(t.Context(), c)
		tries := 2
		switch op.name {
		case "create2":
			if !errors.Is(err, framework.ErrNodeExists) || !framework.IsUnknown(err) {
				t.Fatalf("%v", err)
			}
		case "delete":
			if !errors.Is(err, framework.ErrNoNode) || !framework.IsUnknown(err) {
				t.Fatalf("%v", err)
			}
		case "multi":
			tries = 1
			if !errors.Is(err, framework.ErrConnectionLoss) || !framework.IsUnknown(err) || framework.IsRetryable(err) {
				t.Fatalf("%v", err)
			}
		default:
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := log.count(op.name); n != tries {
			t.Fatalf("%d tries, want %d", n, tries)
		}
		time.Sleep(time.Second)
		noWatches(t, srv, c)
	})
}

// TestCutBefore: the request was not executed, which the client cannot know.
func TestCutBefore(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		srv.CutBefore(isOp(op.name))
		err := op.do(t.Context(), c)
		if op.name == "multi" {
			if !framework.IsUnknown(err) {
				t.Fatal(err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestRetryBudget: as many tries as the policy says, also within the
// operation of another loop, which alone counts.
func TestRetryBudget(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		log := logRequests(srv)
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "exists" {
				return embedded.Cut
			}
			return embedded.Pass
		})
		var done attempts
		c := connect(t, srv, framework.WithRetry(retry.NTimes(4, time.Millisecond)), framework.WithHooks(&done))
		_, err := c.Exists(t.Context(), "/")
		if !errors.Is(err, framework.ErrConnectionLoss) || !framework.IsRetryable(err) {
			t.Fatal(err)
		}
		if n := log.count("exists"); n != 5 {
			t.Fatalf("%d tries, want 5", n)
		}
		if got := done.last(); got.Op != "exists" || got.Path != "/" || got.Attempts != 5 || got.Err == nil || got.Duration <= 0 || got.Session != c.Session().ID() || got.Unknown {
			t.Fatalf("hook was told %+v", got)
		}
		create(t, c, "/plain", "")
		if got := done.last(); got.Op != "create2" || got.Unknown || got.Err != nil {
			t.Fatalf("hook was told %+v", got)
		}
		log.reset()
		err = retry.Do(t.Context(), retry.NTimes(2, time.Millisecond), func(ctx context.Context) error {
			_, err := c.Exists(ctx, "/")
			return err
		}, retry.If(framework.IsRetryable))
		if !errors.Is(err, framework.ErrConnectionLoss) {
			t.Fatal(err)
		}
		if n := log.count("exists"); n != 3 {
			t.Fatalf("%d tries in a nested loop, want 3", n)
		}
	})
}

type attempts struct {
	mu  sync.Mutex
	all []framework.OperationInfo
}

func (a *attempts) OnOperation(_ context.Context, info framework.OperationInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, info)
}

func (a *attempts) last() framework.OperationInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[len(a.all)-1]
}

func TestConnectionTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.Refuse(true)
		c := newClient(t, srv, framework.WithConnectionTimeout(3*time.Second), framework.WithRetry(retry.NTimes(2, time.Second)))
		began := time.Now()
		_, err := c.Create(t.Context(), "/n", nil)
		if !errors.Is(err, framework.ErrConnectionLoss) || framework.IsUnknown(err) {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second { // the pauses are jittered
			t.Fatalf("failed after %v, want three tries of 3 s and two pauses of 1 s", took)
		}
	})
}

// TestInSession: bound to a session, a write ends with it.
func TestInSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		s := c.Session()
		if _, err := c.Create(t.Context(), "/n", nil, framework.InSession(s)); err != nil {
			t.Fatal(err)
		}
		// One that waits for a connection when the session ends.
		srv.Refuse(true)
		srv.DropConnections()
		_ = srv.ExpireSession(s.ID())
		finished := make(chan error)
		go func() {
			_, err := c.Set(t.Context(), "/n", []byte("x"), framework.AnyVersion, framework.InSession(s))
			finished <- err
		}()
		synctest.Wait()
		srv.Refuse(false)
		if err := <-finished; !errors.Is(err, framework.ErrSessionLost) || framework.IsRetryable(err) {
			t.Fatal(err)
		}
		if err := c.WaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		// And after.
		for name, err := range map[string]error{
			"set": func() error {
				_, err := c.Set(t.Context(), "/n", nil, framework.AnyVersion, framework.InSession(s))
				return err
			}(),
			"delete": c.Delete(t.Context(), "/n", framework.AnyVersion, framework.InSession(s)),
			"create": func() error {
				_, err := c.Create(t.Context(), "/m", nil, framework.InSession(s), framework.WithParents())
				return err
			}(),
		} {
			if !errors.Is(err, framework.ErrSessionLost) || framework.IsRetryable(err) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if node, ok := srv.Node("/n"); !ok || len(node.Data) != 0 {
			t.Fatalf("executed in the new session: %+v, %v", node, ok)
		}
		// Another client's session is a mistake.
		err := c.Delete(t.Context(), "/n", framework.AnyVersion, framework.InSession(connect(t, srv).Session()))
		if !errors.Is(err, framework.ErrInvalidOption) {
			t.Fatal(err)
		}
	})
}

// TestMaxInFlight: no more requests than allowed await their replies, those
// that were given up included.
func TestMaxInFlight(t *testing.T) {
	fakeBubble(t, func(_ int, c *fakeConn) {
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); !ok {
			return
		}
		reads := 0
		c.serve(func(h wire.RequestHeader, _ *wire.Decoder) wire.Record {
			if reads++; reads <= 5 {
				return nil // no answer
			}
			return &wire.StatResponse{}
		})
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv, framework.WithMaxInFlight(5))
		for range 20 { // given up one after the other
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if _, err := c.Exists(ctx, "/a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			if n := c.InFlight(); n > 5 {
				t.Fatalf("%d in flight", n)
			}
		}
	})
}

// lost is an embedded server whose whereabouts are not known for a while,
// because who knows them has been closed.
type lost struct {
	*embedded.Server
	until time.Time
}

func (l lost) Servers(ctx context.Context) ([]net.Addr, error) {
	if time.Now().Before(l.until) {
		return nil, fmt.Errorf("reading the configuration: %w", framework.ErrClosed)
	}
	return l.Server.Servers(ctx)
}

// That another client is closed does not mean that this one is.
func TestForeignErrClosedIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := newClient(t, lost{srv, time.Now().Add(17 * time.Second)})
		if _, err := c.Exists(context.Background(), "/"); err != nil {
			t.Error(err)
		}
	})
}
