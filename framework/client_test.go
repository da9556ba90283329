package framework_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestConnectAndClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, st := recorded(t, srv)
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

func TestConnectionError(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.Refuse(true)
		c := newClient(t, srv)
		synctest.Wait()
		if err := c.ConnectionError(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("with all connections refused: %v", err)
		}
		srv.Refuse(false)
		if err := c.WaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.ConnectionError(); err != nil {
			t.Errorf("connected: %v", err)
		}
		srv.Refuse(true)
		srv.DropConnections()
		synctest.Wait()
		if err := c.ConnectionError(); err == nil {
			t.Error("no reason after the connection was dropped")
		}
		srv.Refuse(false)
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
