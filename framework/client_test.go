package framework_test

import (
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestConnectAndClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := newClient(t, srv)
		st := record(c)
		st.want(t, framework.Connected)
		if _, err := c.Create(t.Context(), "/a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		got, stat, err := c.Get(t.Context(), "/a")
		if err != nil || string(got) != "x" || stat.Version != 0 {
			t.Fatalf("got %q, %+v, %v", got, stat, err)
		}
		id := c.Session().ID()
		if n := len(srv.Sessions()); n != 1 || srv.Sessions()[0].ID != id {
			t.Fatalf("sessions %+v, want %#x", srv.Sessions(), id)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(srv.Sessions()); n != 0 {
			t.Fatalf("%d sessions left after Close", n)
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
