package framework_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/retry"
)

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
		if _, ok := c.greet(wire.ConnectResponse{SessionID: id}); ok {
			c.serve(nil)
		}
	}, func(t *testing.T, srv *fake) {
		c, st := recorded(t, srv)
		st.want(t, framework.Connected)
		c.Session().DropConnection()
		st.want(t, framework.Suspended, framework.Lost)
		if got := st.next(t); got.State != framework.Reconnected || got.Session != 8 {
			t.Fatalf("%+v", got)
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

// TestRefusedCredentials: operations fail for good and at once, whatever goes
// wrong afterwards. The client goes on trying, without haste and without a
// change of state, and recovers when a server accepts.
func TestRefusedCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var refuse atomic.Bool
		refuse.Store(true)
		srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "auth" && refuse.Load() {
				return embedded.Answer(int32(wire.CodeAuthFailed))
			}
			return embedded.Pass
		})
		var tries steps
		c, st := recorded(t, srv, framework.WithAuth("digest", []byte("ann:secret")), framework.WithHooks(&tries))
		check := func(within time.Duration) {
			t.Helper()
			began := time.Now()
			for _, err := range []error{c.Delete(t.Context(), "/n", 0), c.WaitConnected(t.Context())} {
				if !errors.Is(err, framework.ErrAuthFailed) || framework.IsRetryable(err) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("%v, want ErrAuthFailed", err)
				}
			}
			if took := time.Since(began); took > within {
				t.Fatalf("failed after %v", took)
			}
		}
		check(time.Second)
		srv.Refuse(true)
		time.Sleep(time.Minute)
		check(0)
		srv.Refuse(false)
		time.Sleep(time.Hour)
		check(0)
		if n := len(tries.get()); n > 2000 {
			t.Fatalf("%d attempts in an hour", n)
		}
		if c.State() != 0 || len(st.ch) != 0 {
			t.Fatalf("state %v, %d changes", c.State(), len(st.ch))
		}
		refuse.Store(false)
		st.want(t, framework.Connected)
		create(t, c, "/n", "", framework.WithACL(framework.AuthACL(framework.PermAll)...))

		// And later in its life, with a delete that is to go on.
		refuse.Store(true)
		srv.DropConnections()
		st.want(t, framework.Suspended)
		time.Sleep(time.Second)
		if err := c.Delete(t.Context(), "/n", 0, framework.Guaranteed()); !errors.Is(err, framework.ErrAuthFailed) {
			t.Fatal(err)
		}
		st.want(t, framework.Lost)
		time.Sleep(time.Minute)
		refuse.Store(false)
		st.want(t, framework.Reconnected)
		time.Sleep(time.Minute)
		if _, ok := srv.Node("/n"); ok {
			t.Fatal("the delete was given up")
		}
	})
}

// TestSilenceForCredentials: a server that does not answer them is left, as
// one that does not answer at all.
func TestSilenceForCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var dropped atomic.Bool
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "auth" && dropped.CompareAndSwap(false, true) {
				return embedded.Drop
			}
			return embedded.Pass
		})
		began := time.Now()
		connect(t, srv, framework.WithAuth("digest", []byte("ann:pw")), framework.WithAuth("digest", []byte("bob:pw")))
		if took := time.Since(began); took < sessionTimeout/3 || took > sessionTimeout/3+time.Second {
			t.Fatalf("connected after %v", took)
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
		if ok && hello.ReadOnly {
			c.serve(nil)
		}
	}, func(t *testing.T, srv *fake) {
		c, st := recorded(t, srv, framework.WithReadOnly())
		began := time.Now()
		st.want(t, framework.Connected)
		c.Session().DropConnection()
		st.want(t, framework.Suspended, framework.ReadOnly)
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

// TestExpiredByAnswer: by the server's word the session is over, whatever the
// request was, and whether or not it was executed. Nothing that awaits an
// answer is left waiting.
func TestExpiredByAnswer(t *testing.T) {
	eachAnswer(t, wire.CodeSessionExpired, func(t *testing.T, srv *embedded.Server, c *framework.Client, st *states, do func() error) {
		s := c.Session()
		var dropped atomic.Bool
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "getACL" && dropped.CompareAndSwap(false, true) {
				return embedded.Drop
			}
			return embedded.Pass
		})
		waiting := make(chan error)
		go func() { _, _, err := c.GetACL(context.Background(), "/"); waiting <- err }()
		synctest.Wait()
		w := getW(t, c, "/")
		deadline := s.Deadline()
		if err := do(); !errors.Is(err, framework.ErrSessionLost) || framework.IsRetryable(err) {
			t.Fatal(err)
		}
		if err := s.Err(); !errors.Is(err, framework.ErrSessionLost) || s.Deadline().After(deadline) {
			t.Fatalf("%v, deadline moved by %v", err, s.Deadline().Sub(deadline))
		}
		if ev := <-w.Event(); ev.Type != framework.EventSessionEnded {
			t.Fatalf("%+v", ev)
		}
		st.want(t, framework.Lost, framework.Reconnected)
		if err := <-waiting; err != nil {
			t.Fatal(err)
		}
		if c.Session() == s {
			t.Fatal("the session goes on")
		}
	})
}

// TestMovedByAnswer: another connection has the session. This one is given
// up, and its answer is no sign of life.
func TestMovedByAnswer(t *testing.T) {
	eachAnswer(t, wire.CodeSessionMoved, func(t *testing.T, srv *embedded.Server, c *framework.Client, st *states, do func() error) {
		s, deadline := c.Session(), c.Session().Deadline()
		srv.Refuse(true)
		finished := make(chan error)
		go func() { finished <- do() }()
		st.want(t, framework.Suspended)
		if !s.Deadline().Equal(deadline) {
			t.Fatalf("the deadline moved by %v", s.Deadline().Sub(deadline))
		}
		srv.Refuse(false)
		st.want(t, framework.Reconnected)
		if err := <-finished; err != nil || c.Session() != s {
			t.Fatal(err)
		}
	})
}

// eachAnswer runs f with a client whose next request of a kind, a write bound
// to the session that do makes, a read or a ping, is answered with code.
func eachAnswer(t *testing.T, code wire.Code, f func(*testing.T, *embedded.Server, *framework.Client, *states, func() error)) {
	for _, op := range []string{"setData", "exists", "ping"} {
		for name, hook := range map[string]func(*embedded.Server, func(embedded.Request) embedded.Verdict) func(){
			"instead": (*embedded.Server).OnRequest, "executed": (*embedded.Server).OnReply,
		} {
			t.Run(op+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *embedded.Server) {
					c := connect(t, srv)
					create(t, c, "/n", "")
					time.Sleep(time.Second)
					var answered atomic.Bool
					hook(srv, func(r embedded.Request) embedded.Verdict {
						if r.Op != op || !answered.CompareAndSwap(false, true) {
							return embedded.Pass
						}
						return embedded.Answer(int32(code))
					})
					s := c.Session()
					f(t, srv, c, record(c), func() error {
						switch op {
						case "exists":
							_, _ = c.Exists(t.Context(), "/n")
						case "ping":
							time.Sleep(sessionTimeout / 2)
						}
						_, err := c.Set(context.Background(), "/n", []byte("x"), framework.AnyVersion, framework.InSession(s))
						return err
					})
				})
			})
		}
	}
}
