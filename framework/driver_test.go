package framework_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

func TestNoServer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.Refuse(true)
		var tries steps
		c := newClient(t, srv, framework.WithHooks(&tries))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.WaitConnected(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("WaitConnected: %v, want a deadline and the reason", err)
		}
		// 20 ms doubling to 5 s, and a minute of these.
		if n := len(tries.get()); n < 10 || n > 60 {
			t.Fatalf("%d attempts in a minute", n)
		}
		srv.Refuse(false)
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSilentServer: one that accepts and never answers is left after a third
// of the session timeout, and the next one is tried.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pair{startServer(t), startServer(t)}
		p.a.Silence()
		began := time.Now()
		connect(t, p)
		if took := time.Since(began); took != sessionTimeout/3 {
			t.Fatalf("connected after %v, want %v", took, sessionTimeout/3)
		}
	})
}

// TestSilentServerOnReconnect: the same when a session is to be resumed, by
// the timeout that the server granted.
func TestSilentServerOnReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var tries steps
		c := connect(t, srv, framework.WithSessionTimeout(time.Hour), framework.WithHooks(&tries))
		srv.Silence()
		srv.DropConnections()
		time.Sleep(9 * time.Second) // of 10 s that were granted
		if n := len(tries.get()); n < 3 {
			t.Fatalf("%d attempts, want several within the session timeout: %+v", n, tries.get())
		}
		st := record(c)
		srv.Unsilence()
		if got := st.next(t); got.State == framework.Lost {
			t.Fatal("lost, though the server was back in time")
		}
	})
}

// TestServerBackInTime: no pause outlasts the session.
func TestServerBackInTime(t *testing.T) {
	for away := 500 * time.Millisecond; away < 9*time.Second; away += time.Second {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c, st := recorded(t, srv, framework.WithSessionTimeout(10*time.Second))
			st.want(t, framework.Connected)
			time.Sleep(20 * time.Second)
			if _, err := c.Exists(t.Context(), "/"); err != nil {
				t.Fatal(err)
			}
			srv.Refuse(true)
			srv.DropConnections()
			time.Sleep(away)
			srv.Refuse(false)
			st.want(t, framework.Suspended, framework.Reconnected)
		})
	}
}

// TestServersMove: after a connection that lasted, the ensemble is asked for
// the addresses anew, and at once.
func TestServersMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moving{srv: startServer(t)}
		var tries steps
		_, st := recorded(t, m, framework.WithHooks(&tries))
		st.want(t, framework.Connected)
		time.Sleep(time.Hour)
		m.moves.Store(1)
		m.srv.DropConnections()
		began := time.Now()
		st.want(t, framework.Suspended, framework.Reconnected)
		if took := time.Since(began); took != 0 {
			t.Errorf("reconnected after %v", took)
		}
		synctest.Wait()
		if all := tries.get(); all[len(all)-1].Address != "1" || len(all) != 3 {
			t.Errorf("%+v, want up, down, and up at the new address", all)
		}
	})
}

// moving is an ensemble whose one server changes its addresses.
type moving struct {
	srv   *embedded.Server
	moves atomic.Int32
}

func (m *moving) address() named { return named(strconv.Itoa(int(m.moves.Load()))) }

func (m *moving) Servers(context.Context) ([]net.Addr, error) {
	return []net.Addr{m.address(), m.address(), m.address()}, nil
}
func (m *moving) Chroot() string { return "" }

func (m *moving) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address != m.address().String() {
		return nil, errors.New("nobody lives here")
	}
	return m.srv.DialContext(ctx, network, address)
}

func TestServersFail(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		ens := &moody{Server: srv}
		ens.err.Store(true)
		c := newClient(t, ens)
		time.Sleep(time.Minute)
		if c.State() != 0 {
			t.Fatal("connected without servers")
		}
		ens.err.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// moody is an ensemble that at times knows no server: it returns an error or
// nothing, in turn.
type moody struct {
	*embedded.Server
	err atomic.Bool
	n   atomic.Int32
}

func (m *moody) Servers(ctx context.Context) ([]net.Addr, error) {
	if !m.err.Load() {
		return m.Server.Servers(ctx)
	}
	if m.n.Add(1)%2 == 0 {
		return nil, nil
	}
	return nil, errors.New("no name service")
}

// TestEnsembleWiped: a new ensemble turns away a session whose last zxid lies
// in its future, without a word. The session ends at its deadline.
func TestEnsembleWiped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv atomic.Pointer[embedded.Server]
		srv.Store(startServer(t))
		ens := dialed{func(ctx context.Context) (net.Conn, error) { return srv.Load().DialContext(ctx, "", "") }}
		c := connect(t, ens)
		st := record(c)
		for range 5 {
			if _, err := c.Create(t.Context(), "/n", nil, framework.WithMode(framework.PersistentSequential)); err != nil {
				t.Fatal(err)
			}
		}
		began, old := time.Now(), srv.Load()
		srv.Store(startServer(t))
		_ = old.Close()
		st.want(t, framework.Suspended, framework.Lost, framework.Reconnected)
		if took := time.Since(began); took > 2*sessionTimeout {
			t.Fatalf("a new session after %v", took)
		}
		if _, err := c.Exists(t.Context(), "/n0000000000"); !errors.Is(err, framework.ErrNoNode) {
			t.Fatal(err)
		}
	})
}

// dialed is an ensemble of one server that is reached in its own way.
type dialed struct {
	dial func(ctx context.Context) (net.Conn, error)
}

func (dialed) Servers(context.Context) ([]net.Addr, error) { return []net.Addr{named("server")}, nil }

func (dialed) Chroot() string { return "" }

func (d dialed) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }

func TestReconnectPolicyWithoutWaits(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var dials atomic.Int64
		newClient(t, srv, framework.WithReconnect(retry.None()),
			framework.WithDialer(func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, syscall.ECONNREFUSED
			}))
		time.Sleep(time.Second)
		if n := dials.Load(); n < 2 || n > 1000 {
			t.Errorf("%d attempts in a second", n)
		}
	})
}
