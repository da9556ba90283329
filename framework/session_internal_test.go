package framework

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// The tests in this file build by hand what is a race of a few instructions
// in a running client.

func handMade() (*core, *Session) {
	k := newCore(nil, "", defaults())
	k.started = true
	s := newSession(k)
	k.session = s
	return k, s
}

func handMadeConn(s *Session) *conn {
	client, server := net.Pipe()
	_ = server.Close()
	return newConn(s, client, "test")
}

// TestAttachBeforeDetach: the old connection has failed, and says so only
// after the new one is up.
func TestAttachBeforeDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := handMade()
		var states []State
		k.listeners = append(k.listeners, &mailbox[StateChange]{f: func(c StateChange) { states = append(states, c.State) }, spawn: k.goLocked})
		hello := &wire.ConnectResponse{SessionID: 7, TimeoutMillis: 60_000}
		first, second := handMadeConn(s), handMadeConn(s)
		if err := errors.Join(s.attach(first, hello, false, 0), s.attach(second, hello, false, 0)); err != nil {
			t.Fatal(err)
		}
		alive := s.ConnectionContext()
		s.detach(first, errConnClosed)
		synctest.Wait()
		if s.conn != second || alive.Err() != nil {
			t.Fatal("the end of the first connection has hit the second")
		}
		if len(states) != 3 || states[0] != Connected || states[1] != Suspended || states[2] != Reconnected {
			t.Fatalf("states %v", states)
		}
		s.end(ErrClosed)
	})
}

// TestAttachWhileClosing: a handshake that ends after Close has begun.
func TestAttachWhileClosing(t *testing.T) {
	k, s := handMade()
	k.closing = true
	err := s.attach(handMadeConn(s), &wire.ConnectResponse{SessionID: 7, TimeoutMillis: 60_000}, false, 0)
	if !errors.Is(err, ErrClosed) || k.state != 0 {
		t.Fatalf("%v, state %v", err, k.state)
	}
	s.conn, s.established = handMadeConn(s), true
	s.connCancel = func(error) {}
	s.detach(s.conn, errConnClosed)
	if k.state != 0 {
		t.Fatalf("state %v", k.state)
	}
}

// TestCurrentOfLostSession: the session ends, and the next is connected,
// between the look at the session and that at the connection.
func TestCurrentOfLostSession(t *testing.T) {
	k, old := handMade()
	old.timeout.Store(1 << 40)
	old.over = true
	k.session = newSession(k)
	k.session.conn = handMadeConn(k.session)
	if c, _, _ := k.current(old); c != nil {
		t.Fatal("got the connection of the next session")
	}
	if c, _, err := k.current(nil); c == nil {
		t.Fatal(err)
	}
}

// TestSubmitRefused: once a session is over at Close, only the driver's
// farewell is still sent.
func TestSubmitRefused(t *testing.T) {
	_, s := handMade()
	c := handMadeConn(s)
	s.conn, s.established = c, true
	s.end(ErrClosed)
	if err := c.submit(newCall(wire.OpSync, &wire.PathRequest{Path: "/"}, &wire.PathRequest{})); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if len(c.out) != 0 {
		t.Fatalf("%d bytes to be sent", len(c.out))
	}
}

// TestAttachWithSmallerTimeout: whoever looks at a session that was just
// resumed sees the old timeout, or the new one and the answer that came with it.
func TestAttachWithSmallerTimeout(t *testing.T) {
	for range 600 {
		k, s := handMade()
		old := &wire.ConnectResponse{SessionID: 7, TimeoutMillis: 60_000}
		if err := s.attach(handMadeConn(s), old, false, 0); err != nil {
			t.Fatal(err)
		}
		k.epoch = k.epoch.Add(-30 * time.Second)
		var stop atomic.Bool
		begun, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(begun)
			for !stop.Load() {
				if k.now() >= s.deadline() {
					t.Error("past the deadline")
					return
				}
			}
		}()
		<-begun
		if err := s.attach(handMadeConn(s), &wire.ConnectResponse{SessionID: 7, TimeoutMillis: 10_000}, false, k.now()); err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		<-done
		s.end(ErrClosed)
	}
}
