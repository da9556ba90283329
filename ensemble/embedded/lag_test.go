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

// Each watch of a client that lags tells of each change once when it catches
// up, whenever it was left, and as often as it was left.
func TestLagTellsOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(c *client)
		want  string
		left  int // watches
	}{
		{"one-shot", func(c *client) { c.get("/l", true) }, "changed /l;", 0},
		{"of both kinds", func(c *client) { c.get("/l", true); c.children("/l", true) }, "changed /l;children /l;", 0},
		{"persistent", func(c *client) { persist(c, "/l", wire.AddWatchPersistent) }, "changed /l;changed /l;children /l;", 2},
		{"recursive", func(c *client) { persist(c, "/l", wire.AddWatchPersistentRecursive) }, "changed /l;changed /l;created /l/x;", 2},
	} {
		for _, name := range []string{"before", "meanwhile", "twice"} {
			srv := start(t)
			writer, reader := connect(t, srv), connect(t, srv)
			writer.create("/l", "", wire.ModePersistent)
			if name != "meanwhile" {
				tt.leave(reader)
			}
			srv.Lag(reader.session.SessionID)
			writer.set("/l", "1")
			if name != "before" {
				tt.leave(reader)
			}
			writer.set("/l", "2")
			writer.create("/l/x", "", wire.ModePersistent)
			if got := show(reader.take()); got != "" {
				t.Errorf("%s, %s: %q while it lags", tt.name, name, got)
			}
			srv.CatchUp()
			if got := show(reader.sync()); got != tt.want {
				t.Errorf("%s, %s: %q, want %q", tt.name, name, got, tt.want)
			}
			if n := srv.WatchCount(); n != tt.left {
				t.Errorf("%s, %s: %d watches are left", tt.name, name, n)
			}
		}
	}
}

func persist(c *client, path string, mode int32) {
	c.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: path, Type: mode}, new(wire.ErrorResponse))
}

// A watch that is removed while its client lags tells of nothing.
func TestRemovedWatchOfALag(t *testing.T) {
	srv := start(t)
	writer, reader := connect(t, srv), connect(t, srv)
	writer.create("/l", "", wire.ModePersistent)
	reader.get("/l", true)
	srv.Lag(reader.session.SessionID)
	writer.set("/l", "new")
	reader.ok(wire.OpRemoveWatches, &wire.WatchTypeRequest{Path: "/l", Type: wire.WatcherAny}, nil)
	srv.CatchUp()
	if got := show(reader.sync()); got != "" || srv.WatchCount() != 0 {
		t.Errorf("events %q, %d watches", got, srv.WatchCount())
	}
}
