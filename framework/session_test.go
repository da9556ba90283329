package framework_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
)

// allowed is how long after the sending of an answered request a session of
// the tests' timeout lasts.
const allowed = sessionTimeout - sessionTimeout/20

// TestDeadlineCountsFromSending: the server answers a request three seconds
// late, and then falls silent. The session ends a session timeout, less the
// margin, after the request was sent, while the server still has it.
func TestDeadlineCountsFromSending(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		s := c.Session()
		time.Sleep(500 * time.Millisecond)
		sent := time.Now()
		remove := srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "exists" {
				time.Sleep(3 * time.Second)
			}
			if r.Op == "ping" {
				return embedded.Drop
			}
			return embedded.Pass
		})
		defer remove()
		if _, err := c.Exists(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		if time.Since(sent) != 3*time.Second {
			t.Fatalf("answered after %v", time.Since(sent))
		}
		if want := sent.Add(allowed); !s.Deadline().Equal(want) {
			t.Fatalf("deadline %v after the sending, want %v", s.Deadline().Sub(sent), allowed)
		}
		srv.Silence()
		<-s.Context().Done()
		if took := time.Since(sent); took != allowed {
			t.Fatalf("lost %v after the last answered request was sent, want %v", took, allowed)
		}
		if len(srv.Sessions()) != 1 || srv.Sessions()[0].ID != s.ID() {
			t.Fatalf("the server has given up the session first: %+v", srv.Sessions())
		}
		if err := context.Cause(s.Context()); !errors.Is(err, framework.ErrSessionLost) || !errors.Is(s.Err(), framework.ErrSessionLost) {
			t.Fatalf("cause %v, Err %v", err, s.Err())
		}
	})
}

// TestLatePong: an answered ping counts from its sending too.
func TestLatePong(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		s := c.Session()
		var pinged time.Time
		remove := srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "ping" {
				pinged = time.Now()
				time.Sleep(time.Second)
			}
			return embedded.Pass
		})
		time.Sleep(29500 * time.Millisecond)
		remove()
		synctest.Wait()
		if want := pinged.Add(allowed); !s.Deadline().Equal(want) {
			t.Fatalf("deadline %v after the last ping, want %v", s.Deadline().Sub(pinged), allowed)
		}
	})
}

// TestDeadlineFollowsPings: pings alone keep moving it.
func TestDeadlineFollowsPings(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		s := c.Session()
		var pinged time.Time
		remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "ping" {
				pinged = time.Now()
			}
			return embedded.Pass
		})
		time.Sleep(59500 * time.Millisecond)
		remove()
		synctest.Wait()
		if want := pinged.Add(allowed); !s.Deadline().Equal(want) {
			t.Fatalf("deadline %v after the last ping, want %v", s.Deadline().Sub(pinged), allowed)
		}
		st := record(c)
		srv.Silence()
		st.want(t, framework.Suspended, framework.Lost)
		if took := time.Since(pinged); took != allowed {
			t.Fatalf("lost after %v, want %v", took, allowed)
		}
	})
}

// TestErrComparesWithTheClock: in a process that was stopped, no timer has run
// when the session is first looked at.
func TestErrComparesWithTheClock(t *testing.T) {
	for name, look := range map[string]func(s *framework.Session, c *framework.Client) error{
		"Err": func(s *framework.Session, _ *framework.Client) error { return s.Err() },
		"InSession": func(s *framework.Session, c *framework.Client) error {
			return c.Delete(context.Background(), "/none", 0, framework.InSession(s))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				st := record(c)
				s := c.Session()
				if err := s.Err(); err != nil {
					t.Fatal(err)
				}
				s.StopTimer()
				s.Rewind(sessionTimeout)
				if err := look(s, c); !errors.Is(err, framework.ErrSessionLost) {
					t.Fatalf("past the deadline: %v", err)
				}
				select {
				case <-s.Context().Done():
				default:
					t.Fatal("the context goes on after the look")
				}
				if s.Connected() {
					t.Fatal("the connection goes on")
				}
				st.want(t, framework.Lost, framework.Reconnected)
				if c.Session() == s {
					t.Fatal("the old session goes on")
				}
			})
		})
	}
}

func TestConnectionContext(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		st := record(c)
		s := c.Session()
		first := s.ConnectionContext()
		if first.Err() != nil || !s.Connected() {
			t.Fatalf("while connected: %v", first.Err())
		}
		srv.Refuse(true)
		srv.DropConnections()
		st.want(t, framework.Suspended)
		if err := context.Cause(first); !errors.Is(err, framework.ErrConnectionLoss) {
			t.Fatalf("cause %v", err)
		}
		if s.ConnectionContext().Err() == nil || s.Connected() {
			t.Fatal("connected while suspended")
		}
		if s.Context().Err() != nil || s.Err() != nil {
			t.Fatalf("the session ended with its connection: %v", s.Err())
		}
		srv.Refuse(false)
		st.want(t, framework.Reconnected)
		second := s.ConnectionContext()
		if second.Err() != nil {
			t.Fatal(second.Err())
		}
		_ = srv.ExpireSession(s.ID())
		st.want(t, framework.Suspended, framework.Lost)
		if second.Err() == nil {
			t.Fatal("the connection's context outlives the session")
		}
	})
}

// TestSessionOfClosedClient: its end is known before the server is told.
func TestSessionOfClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		s := c.Session()
		told := make(chan error, 1)
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "closeSession" {
				told <- s.Err()
			}
			return embedded.Pass
		})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-told; !errors.Is(err, framework.ErrClosed) {
			t.Fatalf("the session's error when the server was told: %v", err)
		}
		if err := context.Cause(s.Context()); !errors.Is(err, framework.ErrClosed) {
			t.Fatalf("cause %v", err)
		}
		if c.State() != 0 || c.Session() != nil {
			t.Fatalf("state %v, session %v after Close", c.State(), c.Session())
		}
	})
}

// TestServerGrantsLess: deadline, handshake and reconnect go by the timeout
// that was granted.
func TestServerGrantsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t) // grants 10 s at most
		c := connect(t, srv, framework.WithSessionTimeout(time.Hour))
		s := c.Session()
		if s.Timeout() != 10*time.Second {
			t.Fatalf("timeout %v", s.Timeout())
		}
		began := time.Now()
		srv.Silence()
		<-s.Context().Done()
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("lost after %v", took)
		}
		srv.Unsilence()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestServerGrantsMore: a session lasts as long as the server says.
func TestServerGrantsMore(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithSessionTimeout(30*time.Millisecond)) // grants 1 s at least
		s := c.Session()
		if s.Timeout() != time.Second {
			t.Fatalf("timeout %v", s.Timeout())
		}
		time.Sleep(time.Minute)
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}

// TestServerGrantsLessOnReconnect: the session then lasts no longer than this
// server says.
func TestServerGrantsLessOnReconnect(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		timeout := int32(sessionTimeout.Milliseconds())
		switch {
		case n == 1:
			timeout = 2000
		case n > 1:
			c.drain()
			return
		}
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7, TimeoutMillis: timeout}); !ok {
			return
		}
		if n == 0 {
			c.serve(nil)
		}
		c.drain()
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		st := record(c)
		c.Session().DropConnection()
		st.want(t, framework.Suspended, framework.Reconnected)
		s, began := c.Session(), time.Now()
		if s.Timeout() != 2*time.Second {
			t.Fatalf("timeout %v", s.Timeout())
		}
		<-s.Context().Done()
		if took := time.Since(began); took > 1900*time.Millisecond || took < 1800*time.Millisecond {
			t.Fatalf("lost after %v", took)
		}
	})
}

// A server without a quorum cannot keep a session alive, and so cannot grant
// it a longer life either.
func TestReadOnlyServerGrantsNoMoreTime(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		grant := int32(6000)
		if n > 0 {
			grant = 60000
		}
		hello := wire.ConnectResponse{SessionID: 7, ReadOnly: n > 0, HasReadOnly: true, TimeoutMillis: grant}
		if _, ok := c.greet(hello); ok && n > 0 {
			c.serve(nil)
		}
	}, func(t *testing.T, srv *fake) {
		c := newClient(t, srv, framework.WithReadOnly())
		st := record(c)
		began := time.Now()
		st.want(t, framework.Connected, framework.Suspended, framework.ReadOnly, framework.Lost)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("lost %v after the quorum's last answer, of a timeout of 6 s", took)
		}
	})
}
