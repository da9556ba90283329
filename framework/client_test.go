package framework_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
)

func TestConnectAndClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := newClient(t, srv)
		st := record(c)
		st.want(t, framework.Connected)
		create(t, c, "/a", "x", framework.WithMode(framework.Ephemeral))
		id := c.Session().ID()
		if n := len(srv.Sessions()); n != 1 || srv.Sessions()[0].ID != id {
			t.Fatalf("sessions %+v, want %#x", srv.Sessions(), id)
		}
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(srv.Sessions()); n != 0 || time.Since(began) != 0 {
			t.Fatalf("%d sessions left after Close, which took %v", n, time.Since(began))
		}
		if len(st.ch) != 0 {
			t.Fatalf("state %+v at Close", <-st.ch)
		}
	})
}

func TestIdleForAnHour(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		id, st := c.Session().ID(), record(c)
		time.Sleep(time.Hour)
		if s := c.Session(); s == nil || s.ID() != id || s.Err() != nil {
			t.Fatalf("session %v, want %#x", s, id)
		}
		if len(st.ch) != 0 {
			t.Fatalf("state %+v while idle", <-st.ch)
		}
	})
}

func TestStartTwice(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := newClient(t, srv)
		if err := c.Start(); !errors.Is(err, framework.ErrStarted) {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := c.Start(); !errors.Is(err, framework.ErrClosed) {
			t.Fatal(err)
		}
		if err := c.WaitConnected(t.Context()); !errors.Is(err, framework.ErrClosed) {
			t.Fatal(err)
		}
		if c.Go(func() { t.Error("ran after Close") }) {
			t.Fatal("Go after Close")
		}
		c.OnState(func(framework.StateChange) { t.Error("a state after Close") })()
	})
}

func TestWaitConnected(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := framework.New(srv)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WaitConnected(t.Context()); !errors.Is(err, framework.ErrNotStarted) {
			t.Fatal(err)
		}
		_ = c.Close()
		srv.Refuse(true)
		c = newClient(t, srv)
		waiting := make(chan error)
		go func() { waiting <- c.WaitConnected(context.Background()) }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, framework.ErrClosed) {
			t.Fatal(err)
		}
		srv.Refuse(false)
		c = connect(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.WaitConnected(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("a done context: %v", err)
		}
	})
}

// TestCloseCompletesCalls: all that is pending, frozen at the server, waiting
// for a connection or for its turn, ends with ErrClosed at once.
func TestCloseCompletesCalls(t *testing.T) {
	for _, connected := range []bool{true, false} {
		eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
			c := connect(t, srv, framework.WithMaxInFlight(2))
			create(t, c, "/n", "")
			came, release := holdOp(srv, op.name)
			defer release()
			if !connected {
				srv.Refuse(true)
				srv.DropConnections()
				synctest.Wait()
			}
			const callers = 5
			finished := make(chan error, callers)
			for range callers {
				go func() { finished <- op.do(context.Background(), c) }()
			}
			if connected {
				<-came
			}
			synctest.Wait()
			began := time.Now()
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			for range callers {
				if err := <-finished; !errors.Is(err, framework.ErrClosed) {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Fatalf("the calls took %v to end", took)
			}
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Fatalf("Close took %v", took)
			}
		})
	}
}

func TestCloseAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		ns, _ := c.Namespace("a")
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCloseAtAnyMoment of connecting.
func TestCloseAtAnyMoment(t *testing.T) {
	for name, setUp := range map[string]func(srv *embedded.Server){
		"serving": func(*embedded.Server) {},
		"refused": func(srv *embedded.Server) { srv.Refuse(true) },
		"silent":  func(srv *embedded.Server) { srv.Silence() },
	} {
		for _, after := range []time.Duration{0, 1, time.Millisecond, 30 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second} {
			t.Run(name+" "+after.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *embedded.Server) {
					setUp(srv)
					c := newClient(t, srv)
					time.Sleep(after)
					began := time.Now()
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > 1100*time.Millisecond {
						t.Fatalf("took %v", took)
					}
				})
			})
		}
	}
}

// TestCloseSilent: the server has fallen silent on an established session.
func TestCloseSilent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithSessionTimeout(time.Minute))
		srv.Silence()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Fatalf("took %v", took)
		}
	})
}

// TestCloseWaitsForGo and for listeners, but only so long.
func TestCloseWaitsForGo(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := framework.New(srv, framework.WithCloseTimeout(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		c.Go(func() { time.Sleep(5 * time.Second) })
		for range 2 {
			began := time.Now()
			if err := c.Close(); err == nil || !strings.Contains(err.Error(), "2s") || time.Since(began) != 2*time.Second {
				t.Fatal(err, time.Since(began))
			}
		}
		if err := c.Close(); err != nil {
			t.Fatalf("Close when all has ended: %v", err)
		}
	})
}

// TestNothingAfterClose: no request is sent once the session is over.
func TestNothingAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					_, err := c.Create(context.Background(), "/n", nil, framework.Protected())
					if errors.Is(err, framework.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
					}
					if rand.N(20) == 0 {
						time.Sleep(time.Microsecond) // lets the time go on
					}
				}
			})
		}
		time.Sleep(3 * time.Microsecond)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		ops := log.ops()
		if ops[len(ops)-1] != "closeSession" {
			t.Fatalf("%q after closeSession", ops[len(ops)-1])
		}
	})
}

// TestHooksMayCallClient: they and the logger run without a lock.
func TestHooksMayCallClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		h := &curious{}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(writer(func(p []byte) { h.ask(); log.Write(p) }), nil))
		c, err := framework.New(srv, framework.WithHooks(h), framework.WithLogger(logger), framework.WithSessionTimeout(sessionTimeout))
		if err != nil {
			t.Fatal(err)
		}
		h.client.Store(c)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		srv.DropConnections()
		time.Sleep(time.Second)
		if _, err := c.Exists(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := h.connections; len(got) != 4 || !got[0].Up || got[1].Up || !got[2].Up || got[3].Up || got[1].Err == nil || got[3].Err == nil {
			t.Fatalf("connection hook was told %+v", got)
		}
		if h.operations != 1 || !strings.Contains(log.String(), "Reconnected") {
			t.Fatalf("%d operations, log %s", h.operations, log.String())
		}
	})
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

type curious struct {
	client      atomic.Pointer[framework.Client]
	connections []framework.ConnectionInfo
	operations  int
}

func (h *curious) ask() {
	c := h.client.Load()
	_, _ = c.State(), c.Session()
}

func (h *curious) OnConnection(info framework.ConnectionInfo) {
	h.ask()
	h.connections = append(h.connections, info)
}

func (h *curious) OnOperation(framework.OperationInfo) { h.ask(); h.operations++ }

// TestCoalescedWrites: while a write is under way the frames of other callers
// gather, and go out together.
func TestCoalescedWrites(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var writes atomic.Int32
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialContext(ctx, network, address)
			return &slowWriter{raw, &writes}, err
		}))
		const callers, rounds = 64, 10
		writes.Store(0)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					if _, err := c.Exists(context.Background(), "/"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := writes.Load(); n > callers*rounds/10 {
			t.Fatalf("%d writes for %d requests", n, callers*rounds)
		}
	})
}

// slowWriter takes a millisecond for each write.
type slowWriter struct {
	net.Conn
	writes *atomic.Int32
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.writes.Add(1)
	time.Sleep(time.Millisecond)
	return w.Conn.Write(p)
}

// TestWriterBlocked: more is written than the pipe holds, to a server that
// has stopped reading. The connection is given up, and the client recovers.
func TestWriterBlocked(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); !ok {
			return
		}
		if n == 0 {
			time.Sleep(time.Hour) // without reading
			return
		}
		c.serve(func(wire.RequestHeader, *wire.Decoder) wire.Record { return &wire.StatResponse{} })
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		began := time.Now()
		if _, err := c.Set(t.Context(), "/n", make([]byte, 900_000), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > sessionTimeout {
			t.Fatalf("took %v", took)
		}
	})
}

// TestSlowClose: a socket whose Close blocks delays nobody's bad news.
func TestSlowClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialContext(ctx, network, address)
			return slowCloser{raw}, err
		}))
		st := record(c)
		began := time.Now()
		srv.DropConnections()
		st.want(t, framework.Suspended)
		if took := time.Since(began); took != 0 {
			t.Fatalf("Suspended after %v", took)
		}
	})
}

type slowCloser struct{ net.Conn }

func (c slowCloser) Close() error {
	time.Sleep(time.Second)
	return c.Conn.Close()
}
