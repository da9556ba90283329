package framework_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
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
		srv.Unsilence()
		st := record(c)
		if got := st.next(t); got.State == framework.Lost {
			t.Fatal("lost, though the server was back in time")
		}
	})
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
func (dialed) Chroot() string                              { return "" }

func (d dialed) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }

// TestLastZxidIsSent: on a reconnect the server hears of the highest
// transaction that the session saw in any reply.
func TestLastZxidIsSent(t *testing.T) {
	hellos := make(chan wire.ConnectRequest, 10)
	fakeBubble(t, func(n int, c *fakeConn) {
		hello, ok := c.greet(wire.ConnectResponse{SessionID: 7})
		if !ok {
			return
		}
		hellos <- hello
		if n > 0 {
			c.serve(nil)
			return
		}
		for _, zxid := range []int64{5, 900, 30} {
			h, _, ok := c.request()
			if !ok || !c.send(&wire.ReplyHeader{Xid: h.Xid, Zxid: zxid}, &wire.StatResponse{}) {
				return
			}
		}
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		st := record(c)
		for range 3 {
			if _, err := c.Exists(t.Context(), "/a"); err != nil {
				t.Fatal(err)
			}
		}
		st.want(t, framework.Suspended, framework.Reconnected)
		if first := <-hellos; first.LastZxidSeen != 0 || first.SessionID != 0 {
			t.Fatalf("first connect request %+v", first)
		}
		if second := <-hellos; second.LastZxidSeen != 900 || second.SessionID != 7 {
			t.Fatalf("second connect request %+v, want zxid 900 of session 7", second)
		}
	})
}

// TestBrokenServers: whatever a server sends, the connection is dropped and
// the client tries again, until a sound one answers.
func TestBrokenServers(t *testing.T) {
	greeted := func(f func(c *fakeConn)) func(c *fakeConn) {
		return func(c *fakeConn) {
			if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); ok {
				f(c)
			}
		}
	}
	raw := func(b ...byte) func(c *fakeConn) {
		return func(c *fakeConn) { _, _ = c.Write(b); c.drain() }
	}
	after := func(b ...byte) func(c *fakeConn) {
		return greeted(func(c *fakeConn) { _, _ = c.Write(b); c.serve(nil) })
	}
	for name, script := range map[string]func(c *fakeConn){
		"closes at once":             func(*fakeConn) {},
		"HTTP":                       raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")...),
		"half a length":              raw(0, 0),
		"half a handshake":           raw(0, 0, 0, 37, 0, 0, 0, 0, 0, 0),
		"empty handshake":            raw(0, 0, 0, 0),
		"negative length":            raw(0xff, 0xff, 0xff, 0xff),
		"handshake garbage":          raw(append([]byte{0, 0, 0, 37}, bytes.Repeat([]byte{0xaa}, 37)...)...),
		"timeout 0":                  func(c *fakeConn) { _, _ = c.hello(); c.send(&wire.ConnectResponse{SessionID: 7}); c.drain() },
		"no session":                 func(c *fakeConn) { c.greet(wire.ConnectResponse{}); c.drain() },
		"long password":              func(c *fakeConn) { c.greet(wire.ConnectResponse{SessionID: 7, Password: make([]byte, 5000)}) },
		"closes after the handshake": greeted(func(*fakeConn) {}),
		"giant frame":                after(0x7f, 0xff, 0xff, 0xff),
		"negative frame":             after(0x80, 0, 0, 0),
		"empty frame":                after(0, 0, 0, 0),
		"short header":               after(0, 0, 0, 4, 0, 0, 0, 1),
		"unknown xid":                after(0, 0, 0, 16, 0x40, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"unknown small xid":          after(0, 0, 0, 16, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"reserved xid":               after(0, 0, 0, 16, 0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"event without body":         after(0, 0, 0, 16, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"half a frame":               greeted(raw(0, 0, 0, 16, 0xff, 0xff)),
		"large pong": greeted(func(c *fakeConn) {
			c.send(&wire.ReplyHeader{Xid: wire.XidPing}, &wire.GetDataResponse{Data: make([]byte, 10_000)})
			c.drain()
		}),
		"unasked pong": greeted(func(c *fakeConn) { c.send(&wire.ReplyHeader{Xid: wire.XidPing}) }),
	} {
		t.Run(name, func(t *testing.T) {
			fakeBubble(t, func(n int, c *fakeConn) {
				if n == 0 {
					script(c)
					return
				}
				if hello, ok := c.hello(); ok {
					hello.TimeoutMillis = max(hello.TimeoutMillis, 1000)
					c.send(&wire.ConnectResponse{SessionID: 7, TimeoutMillis: hello.TimeoutMillis, Password: make([]byte, 16)})
					c.serve(nil)
				}
			}, func(t *testing.T, srv *fake) {
				c := newClient(t, srv)
				time.Sleep(2 * sessionTimeout)
				synctest.Wait()
				if !c.State().IsConnected() || srv.dials() != 2 {
					t.Fatalf("state %v after %d connections", c.State(), srv.dials())
				}
			})
		})
	}
}

// TestUndecodableReply: the call fails as by a broken connection, and is
// tried again on the next.
func TestUndecodableReply(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); !ok {
			return
		}
		c.serve(func(wire.RequestHeader, *wire.Decoder) wire.Record {
			if n == 0 {
				return &wire.Empty{} // in place of data and stat
			}
			return &wire.GetDataResponse{Data: []byte("x")}
		})
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		got, _, err := c.Get(t.Context(), "/a")
		if err != nil || string(got) != "x" || srv.dials() != 2 {
			t.Fatalf("%q, %v after %d connections", got, err, srv.dials())
		}
	})
}

// TestOtherSessionResumed: a server that gives another session than it was
// asked for is not believed.
func TestOtherSessionResumed(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		id := int64(7)
		if n > 0 {
			id = 8
		}
		if _, ok := c.greet(wire.ConnectResponse{SessionID: id}); ok && n > 0 {
			c.serve(nil)
		}
	}, func(t *testing.T, srv *fake) {
		c := newClient(t, srv)
		st := record(c)
		st.want(t, framework.Connected, framework.Suspended, framework.Lost)
		if got := st.next(t); got.State != framework.Reconnected || got.Session != 8 {
			t.Fatalf("%+v", got)
		}
	})
}

// TestDialerThatBlocks: a dialler that ignores its context wedges the driver,
// which is abandoned for a new one.
func TestDialerThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 1 {
				<-release
			}
			return srv.DialContext(ctx, network, address)
		}
		c, err := framework.New(srv, framework.WithDialer(dial), framework.WithSessionTimeout(sessionTimeout))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*sessionTimeout)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "goroutines") {
			t.Fatalf("Close with a goroutine stuck: %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Fatalf("Close took %v", took)
		}
		close(release)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if err := c.Close(); err != nil {
			t.Fatalf("Close once the goroutine is gone: %v", err)
		}
		if s := srv.Sessions(); len(s) != 0 {
			t.Fatalf("sessions left: %+v", s)
		}
	})
}

// TestLateDial: a connection that an abandoned driver gets after all is not
// used for a second session.
func TestLateDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 1 {
				<-release
			}
			return srv.DialContext(context.WithoutCancel(ctx), network, address)
		}))
		close(release)
		synctest.Wait()
		if s := srv.Sessions(); len(s) != 1 {
			t.Fatalf("sessions %+v", s)
		}
	})
}

// TestDialerThatBlocksInSession: the same when a session is to be resumed.
func TestDialerThatBlocksInSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 2 {
				<-release
			}
			return srv.DialContext(ctx, network, address)
		}
		c := connect(t, srv, framework.WithDialer(dial))
		st := record(c)
		srv.DropConnections()
		st.want(t, framework.Suspended, framework.Lost, framework.Reconnected)
		close(release)
	})
}

// TestBackOff: a server that drops each connection at once is not hammered.
func TestBackOff(t *testing.T) {
	fakeBubble(t, func(_ int, c *fakeConn) {
		c.greet(wire.ConnectResponse{SessionID: 7})
	}, func(t *testing.T, srv *fake) {
		newClient(t, srv, framework.WithReconnect(retry.BoundedExponential(20*time.Millisecond, 5*time.Second, retry.Unlimited)))
		time.Sleep(time.Minute)
		if n := srv.dials(); n > 60 {
			t.Fatalf("%d connections in a minute", n)
		}
	})
}

// TestReconnectPolicyThatEnds is begun again: a client never gives up.
func TestReconnectPolicyThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.Refuse(true)
		c := newClient(t, srv, framework.WithReconnect(retry.OneTime(time.Second)))
		time.Sleep(time.Hour)
		srv.Refuse(false)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCredentialsComeFirst: on each connection, before any other request.
func TestCredentialsComeFirst(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		log := logRequests(srv)
		c := connect(t, srv, framework.WithAuth("digest", []byte("ann:pw")), framework.WithAuth("digest", []byte("bob:pw")),
			framework.WithRetry(retry.NTimes(3, time.Millisecond)))
		for range 3 {
			synctest.Wait()
			log.reset()
			srv.Refuse(true)
			srv.DropConnections()
			done := make(chan error, 20)
			for range cap(done) {
				go func() {
					_, err := c.Exists(t.Context(), "/")
					done <- err
				}()
			}
			synctest.Wait()
			srv.Refuse(false)
			for range cap(done) {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			ops := log.ops()
			if len(ops) < 22 || ops[0] != "auth" || ops[1] != "auth" || slices.Contains(ops[2:], "auth") {
				t.Fatalf("requests %v", ops)
			}
		}
	})
}

// TestRefusedCredentials: the server drops the connection; the error says why.
func TestRefusedCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "auth" {
				return embedded.Answer(int32(wire.CodeAuthFailed))
			}
			if r.Op == "exists" {
				return embedded.Drop
			}
			return embedded.Pass
		})
		c := newClient(t, srv, framework.WithAuth("digest", []byte("ann:pw")), framework.WithRetry(retry.OneTime(time.Millisecond)))
		_, err := c.Exists(t.Context(), "/")
		if !errors.Is(err, framework.ErrAuthFailed) {
			t.Fatalf("%v, want ErrAuthFailed", err)
		}
	})
}

// TestReadOnlyServer: the state says so, and such a server cannot keep alive
// a session that the others may expire meanwhile.
func TestReadOnlyServer(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		readOnly := n == 1 || n == 2
		id := int64(7)
		if n >= 2 {
			id = 8
		}
		hello, ok := c.greet(wire.ConnectResponse{SessionID: id, ReadOnly: readOnly, HasReadOnly: true})
		if !ok || !hello.ReadOnly {
			return
		}
		if n == 0 {
			return
		}
		c.serve(nil)
	}, func(t *testing.T, srv *fake) {
		c := newClient(t, srv, framework.WithReadOnly())
		st := record(c)
		began := time.Now()
		st.want(t, framework.Connected, framework.Suspended, framework.ReadOnly)
		if !c.State().IsConnected() {
			t.Fatal("not connected when read-only")
		}
		st.want(t, framework.Lost)
		if took := time.Since(began); took != allowed {
			t.Fatalf("lost after %v, want %v", took, allowed)
		}
		st.want(t, framework.ReadOnly)
		time.Sleep(time.Minute)
		if c.State() != framework.ReadOnly {
			t.Fatalf("a session that began read-only does not last: %v", c.State())
		}
	})
}
