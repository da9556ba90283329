package embedded_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// A session that lags reads what was, until it is told to catch up; then its
// watches fire, also those that were left on what was no longer so.
func TestLag(t *testing.T) {
	srv := start(t)
	writer, reader := connect(t, srv), connect(t, srv)
	writer.create("/l", "old", wire.ModePersistent)
	writer.create("/l/gone", "", wire.ModePersistent)
	reader.get("/l", true)
	srv.Lag(reader.session.SessionID)
	behind := reader.zxid

	writer.set("/l", "new")
	writer.create("/l/x", "", wire.ModePersistent)
	writer.delete("/l/gone")
	if got, stat := reader.get("/l", false); got != "old" || stat.Version != 0 || reader.zxid != behind {
		t.Errorf("%q, version %d, zxid %d after %d", got, stat.Version, reader.zxid, behind)
	}
	if names := reader.children("/l", true); len(names) != 1 || names[0] != "gone" {
		t.Errorf("children %v", names)
	}
	reader.get("/l/gone", true)
	reader.fails(wire.CodeNoNode, wire.OpExists, &wire.PathWatchRequest{Path: "/l/x", Watch: true})
	if e := reader.take(); len(e) > 0 {
		t.Errorf("events while it lags: %v", show(e))
	}
	srv.CatchUp()
	want := map[string]bool{"changed /l;": true, "children /l;": true, "deleted /l/gone;": true, "created /l/x;": true}
	for range want {
		e, ok := reader.event()
		if got := show([]wire.WatcherEvent{e}); !ok || !want[got] {
			t.Errorf("event %s", got)
		}
	}
	if got, _ := reader.get("/l", false); got != "new" {
		t.Errorf("%q after catching up", got)
	}
	if n := srv.WatchCount(); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// A client that changes something, or asks for a sync, sees at least that.
func TestLagEnds(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"sync":  func(c *client) { c.sync() },
		"write": func(c *client) { c.create("/mine", "", wire.ModePersistent) },
	} {
		srv := start(t)
		writer, reader := connect(t, srv), connect(t, srv)
		writer.create("/l", "old", wire.ModePersistent)
		reader.get("/l", true)
		srv.Lag()
		writer.set("/l", "new")
		if got, _ := reader.get("/l", false); got != "old" {
			t.Errorf("%s: %q while it lags", name, got)
		}
		end(reader)
		if got, _ := reader.get("/l", false); got != "new" {
			t.Errorf("%s: %q after it", name, got)
		}
	}
}

func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		short, long := connect(t, srv), dial(t, srv).open(&wire.ConnectRequest{TimeoutMillis: 40_000})
		short.create("/short", "", wire.ModeEphemeral)
		long.create("/long", "", wire.ModeEphemeral)
		srv.Freeze()
		xid := long.send(wire.OpGetChildren, &wire.PathWatchRequest{Path: "/"})
		time.Sleep(20 * time.Second)
		if n := len(srv.Sessions()); n != 2 {
			t.Errorf("%d sessions while frozen", n)
		}
		srv.Unfreeze()
		var names wire.StringsResponse
		if code, err := long.receive(xid, &names); code != 0 || err != nil || len(names.Names) != 2 {
			t.Errorf("%v, %v, %v: want /long and /zookeeper", code, err, names)
		}
		short.gone()
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		slow, quick := connect(t, srv), connect(t, srv)
		stop := srv.Delay(3*time.Second, slow.session.SessionID)
		took := func(c *client) time.Duration {
			began := time.Now()
			c.sync()
			return time.Since(began)
		}
		if a, b := took(slow), took(quick); a != 3*time.Second || b != 0 {
			t.Errorf("took %v and %v", a, b)
		}
		stop()
		if d := took(slow); d != 0 {
			t.Errorf("took %v after all", d)
		}
	})
}

func TestServeAlone(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	served := make(chan error)
	go func() { served <- embedded.Serve(l) }()
	wrap(t, must(net.Dial("tcp", l.Addr().String()))).open(&wire.ConnectRequest{TimeoutMillis: 10_000}).create("/x", "", wire.ModePersistent)
	l.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := embedded.Serve(must(net.Listen("tcp", "127.0.0.1:0")), embedded.WithTick(-1)); err == nil {
		t.Error("Serve took an option that makes no sense")
	}
}

// To stand still and to be silent do not end each other.
func TestFreezeAndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		a.create("/e", "", wire.ModeEphemeral)
		srv.Lag(b.session.SessionID)
		a.set("/e", "new")
		heard := func(c *client, within time.Duration) bool {
			c.send(wire.OpPing, new(wire.Empty))
			c.deadline = within
			_, err := c.frame()
			return err == nil
		}
		srv.Freeze()
		srv.Silence(a.session.SessionID)
		srv.Unsilence()
		if heard(a, time.Minute) {
			t.Error("the end of silence has ended the freeze")
		}
		if len(srv.Sessions()) != 2 {
			t.Error("a session has expired while frozen")
		}
		srv.Silence(a.session.SessionID)
		srv.Unfreeze() // both sessions are over by now
		b.gone()
		if _, there := srv.Node("/e"); there {
			t.Error("the session has not expired")
		}
		if _, err := a.receive(wire.XidPing, nil); ended(err) {
			t.Error("the silenced connection has ended")
		}
		srv.Unsilence()
		a.deadline = 10 * time.Second
		a.gone()
	})
}
