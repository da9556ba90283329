package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
			_, err := c.Multi(ctx, framework.CheckOp("/n", framework.AnyVersion))
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
		if got := done.last(); got.Op != "exists" || got.Path != "/" || got.Attempts != 5 || got.Err == nil || got.Duration <= 0 {
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

func (a *attempts) OnOperation(info framework.OperationInfo) {
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

// TestFinalErrors: the server's word, at once, with path and code.
func TestFinalErrors(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		want error
		code wire.Code
		path string
		do   func(c *framework.Client) error
	}{
		{framework.ErrNoNode, wire.CodeNoNode, "/none", func(c *framework.Client) error {
			_, _, err := c.Get(ctx, "/none")
			return err
		}},
		{framework.ErrNoNode, wire.CodeNoNode, "/none/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/none/c", nil)
			return err
		}},
		{framework.ErrNodeExists, wire.CodeNodeExists, "/n", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/n", nil)
			return err
		}},
		{framework.ErrBadVersion, wire.CodeBadVersion, "/n", func(c *framework.Client) error {
			_, err := c.Set(ctx, "/n", nil, 7)
			return err
		}},
		{framework.ErrBadVersion, wire.CodeBadVersion, "/n/c", func(c *framework.Client) error { return c.Delete(ctx, "/n/c", 7) }},
		{framework.ErrNotEmpty, wire.CodeNotEmpty, "/n", func(c *framework.Client) error { return c.Delete(ctx, "/n", 0) }},
		{framework.ErrNoChildrenForEphemerals, wire.CodeNoChildrenForEphemerals, "/e/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/e/c", nil)
			return err
		}},
		{framework.ErrNoAuth, wire.CodeNoAuth, "/secret", func(c *framework.Client) error {
			_, _, err := c.Get(ctx, "/secret")
			return err
		}},
		{framework.ErrNoAuth, wire.CodeNoAuth, "/secret/c", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/secret/c", nil, framework.WithParents(), framework.Protected())
			return err
		}},
		{framework.ErrInvalidACL, wire.CodeInvalidACL, "/m", func(c *framework.Client) error {
			_, err := c.Create(ctx, "/m", nil, framework.WithACL(framework.AuthACL(framework.PermAll)...))
			return err
		}},
	} {
		t.Run(fmt.Sprint(tc.path, tc.want), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				create(t, c, "/n", "")
				create(t, c, "/n/c", "")
				create(t, c, "/e", "", framework.WithMode(framework.Ephemeral))
				create(t, c, "/secret", "", framework.WithACL(framework.DigestACL(framework.PermAll, "ann", "pw")...))
				began := time.Now()
				err := tc.do(c)
				var e *framework.Error
				if !errors.Is(err, tc.want) || !errors.As(err, &e) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
				if e.Code != int32(tc.code) || e.Path != tc.path || e.Unknown || framework.IsRetryable(err) {
					t.Fatalf("%+v", e)
				}
				if time.Since(began) != 0 {
					t.Fatalf("took %v", time.Since(began))
				}
			})
		})
	}
}

func TestErrorCodes(t *testing.T) {
	for code, want := range map[wire.Code]error{
		-4: framework.ErrConnectionLoss, -6: framework.ErrUnimplemented, -8: framework.ErrBadArguments,
		-115: framework.ErrAuthFailed, -118: framework.ErrConnectionLoss, -119: framework.ErrNotReadOnly,
		-125: framework.ErrQuotaExceeded, -112: framework.ErrSessionLost, -99: framework.ErrServer, -13: framework.ErrServer,
	} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv, framework.WithRetry(retry.OneTime(time.Millisecond)))
				srv.OnRequest(func(r embedded.Request) embedded.Verdict {
					if r.Op == "exists" {
						return embedded.Answer(int32(code))
					}
					return embedded.Pass
				})
				_, err := c.Exists(t.Context(), "/")
				var e *framework.Error
				if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != int32(code) {
					t.Fatalf("%v, want %v", err, want)
				}
			})
		})
	}
}

// TestTransientCodes are tried again.
func TestTransientCodes(t *testing.T) {
	for _, code := range []int32{-7, -122, -127, -118} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv)
			n := 0
			srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if r.Op == "exists" {
					if n++; n == 1 {
						return embedded.Answer(code)
					}
				}
				return embedded.Pass
			})
			if _, err := c.Exists(t.Context(), "/"); err != nil || n != 2 {
				t.Fatalf("code %d: %v after %d tries", code, err, n)
			}
		})
	}
}

// TestTooLarge: refused before any I/O, and nothing else suffers.
func TestTooLarge(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	half := big[:600_000]
	for name, do := range map[string]func(ctx context.Context, c *framework.Client) error{
		"create": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Create(ctx, "/big", big, framework.WithParents(), framework.Protected())
			return err
		},
		"set": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Set(ctx, "/n", big, framework.AnyVersion)
			return err
		},
		"multi": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Multi(ctx, framework.SetOp("/n", half, framework.AnyVersion), framework.CreateOp("/m", half, framework.Persistent))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := newClient(t, srv)
				srv.Refuse(true)
				began := time.Now()
				if err := do(t.Context(), c); !errors.Is(err, framework.ErrTooLarge) || framework.IsRetryable(err) {
					t.Fatalf("without a connection: %v", err)
				}
				if time.Since(began) != 0 {
					t.Fatal("it waited for a connection")
				}
			})
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				create(t, c, "/n", "")
				st, log := record(c), logRequests(srv)
				if err := do(t.Context(), c); !errors.Is(err, framework.ErrTooLarge) || framework.IsUnknown(err) {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(log.ops()) != 0 || len(st.ch) != 0 {
					t.Fatalf("requests %v, %d states", log.ops(), len(st.ch))
				}
				set(t, c, "/n", string(half))
			})
		})
	}
}

// TestTooLargeWithoutData: a request whose size is not data is caught too.
func TestTooLargeWithoutData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithMaxRequest(2000))
		log := logRequests(srv)
		long := "/" + string(bytes.Repeat([]byte("x"), 2000))
		if _, err := c.Exists(t.Context(), long); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		if _, _, err := c.ExistsW(t.Context(), long); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		noWatches(t, srv, c)
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

// TestLargestRequest is let through by both sides.
func TestLargestRequest(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		st := record(c)
		const header = 8 + 4 + 2 + 4 + 4
		if _, err := c.Set(t.Context(), "/n", make([]byte, 1<<20-1-header), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(t.Context(), "/n", make([]byte, 1<<20-header), framework.AnyVersion); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		if data, _, err := c.Get(t.Context(), "/n"); err != nil || len(data) != 1<<20-1-header {
			t.Fatal(len(data), err)
		}
		if len(st.ch) != 0 {
			t.Fatal("the connection did not survive")
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
