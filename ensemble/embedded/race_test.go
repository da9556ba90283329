package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// Many connections resume one session at once. Each is answered or cut off, in
// the end one has it, and it has its nodes and no watch of the others.
func TestResumeRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		first := connect(t, srv)
		first.create("/e", "", wire.ModeEphemeral)
		first.get("/e", true)
		resume := wire.AppendFrame(nil, &wire.ConnectRequest{
			TimeoutMillis: 10_000, SessionID: first.session.SessionID, Password: first.session.Password,
		})
		watch := wire.AppendFrame(nil, &wire.RequestHeader{Xid: 1, Op: wire.OpGetData}, &wire.PathWatchRequest{Path: "/e", Watch: true})
		var all []*client
		var wg sync.WaitGroup
		for range 20 {
			c := dial(t, srv)
			all = append(all, c)
			wg.Go(func() { _, _ = c.nc.Write(append(resume[:len(resume):len(resume)], watch...)) })
		}
		wg.Wait()
		synctest.Wait()
		alive := 0
		for _, c := range all {
			_ = c.nc.SetReadDeadline(time.Now().Add(time.Second))
			for err := error(nil); err == nil; {
				if err = skipFrame(c.in); !ended(err) && err != nil {
					alive++
				}
			}
		}
		if alive != 1 || srv.WatchCount() != 1 {
			t.Errorf("%d connections and %d watches of one session", alive, srv.WatchCount())
		}
		first.gone()
		if s := srv.Sessions(); len(s) != 1 || !s[0].Connected || len(s[0].Ephemerals) != 1 {
			t.Errorf("sessions %+v", s)
		}
	})
}

// A multi of thousands of parts is one transaction, whichever part fails.
func TestLongMulti(t *testing.T) {
	srv := start(t)
	c, watcher := connect(t, srv), connect(t, srv)
	watcher.children("/", true)
	const parts = 5000
	m := new(wire.MultiRequest)
	for i := range parts {
		path := fmt.Sprintf("/%d", i/2)
		op := wire.Op{Code: wire.OpCreate, Request: &wire.CreateRequest{Path: path, ACL: openACL}}
		if i%2 == 1 {
			op = wire.Op{Code: wire.OpSetData, Request: &wire.SetDataRequest{Path: path, Version: 0}}
		}
		m.Ops = append(m.Ops, op)
	}
	for _, bad := range []int{0, parts / 2, parts} {
		failing := &wire.MultiRequest{Ops: append([]wire.Op{}, m.Ops...)}
		failing.Ops = append(failing.Ops[:bad:bad], append([]wire.Op{
			{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: "/none", Version: -1}},
		}, failing.Ops[bad:]...)...)
		var r wire.MultiResponse
		c.ok(wire.OpMulti, failing, &r)
		for i, result := range r.Results {
			want := wire.CodeOK
			switch {
			case i == bad:
				want = wire.CodeNoNode
			case i > bad:
				want = wire.CodeRuntimeInconsistency
			}
			if result.Err != want {
				t.Fatalf("part %d after part %d has failed: %v", i, bad, result.Err)
			}
		}
		if n := len(c.children("/", false)); n != 1 {
			t.Fatalf("%d nodes after part %d has failed", n, bad)
		}
	}
	var r wire.MultiResponse
	c.ok(wire.OpMulti, m, &r)
	if n := len(c.children("/", false)); n != 1+parts/2 || len(r.Results) != parts {
		t.Errorf("%d nodes, %d results", n, len(r.Results))
	}
	if got := show(watcher.sync()); got != "children /;" {
		t.Errorf("events %s", got)
	}
	if first, last := c.stat("/0"), c.stat(fmt.Sprintf("/%d", parts/2-1)); first.Czxid != last.Mzxid {
		t.Errorf("transactions %d to %d", first.Czxid, last.Mzxid)
	}
}

// Hundreds of sessions expire at once: a witness hears of each node once, and
// nothing is left.
func TestAdvanceWithManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		witness := dial(t, srv).open(&wire.ConnectRequest{TimeoutMillis: 40_000})
		const sessions = 300
		for i := range sessions {
			c := connect(t, srv)
			path := fmt.Sprintf("/e%d", i)
			c.create(path, "", wire.ModeEphemeral)
			c.get(path, true)
			witness.get(path, true)
			if i%2 == 0 {
				c.nc.Close()
			}
		}
		srv.Lag(srv.Sessions()[1].ID) // one of them lags
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { srv.Advance(10 * time.Second) })
		}
		wg.Wait()
		if n := len(witness.sync()); n != sessions {
			t.Errorf("%d events of %d nodes", n, sessions)
		}
		if n, left := srv.WatchCount(), srv.Sessions(); n != 0 || len(left) != 1 {
			t.Errorf("%d watches and %d sessions are left", n, len(left))
		}
		if names := witness.children("/", false); len(names) != 1 {
			t.Errorf("%d nodes are left", len(names))
		}
	})
}

// Serve, Listen, connecting and Close come at any time to each other.
func TestServeAndCloseRace(t *testing.T) {
	for range 30 {
		srv := must(embedded.Start())
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, embedded.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
		})
		wg.Go(func() { _, _ = srv.Listen("127.0.0.1:0") })
		for i := range 4 {
			wg.Go(func() {
				nc, err := net.Dial("tcp", l.Addr().String())
				if i%2 == 0 {
					nc, err = srv.DialContext(context.Background(), "", "")
				}
				if err != nil {
					return // it is closed
				}
				defer nc.Close()
				_, _ = nc.Write(wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000}))
				_, _ = nc.Read(make([]byte, 10))
			})
		}
		for range 2 {
			wg.Go(func() { srv.Close() })
		}
		wg.Wait()
	}
}

// A starved listener fails a few times for want of files, then goes on.
type starved struct {
	net.Listener
	failures int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// Clients that use up all files do not end the server.
func TestAcceptGoesOn(t *testing.T) {
	srv, j := logged(t)
	l := &starved{must(net.Listen("tcp", "127.0.0.1:0")), 3}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	wrap(t, must(net.Dial("tcp", l.Addr().String()))).open(&wire.ConnectRequest{TimeoutMillis: 10_000}).sync()
	srv.Close()
	if err := <-served; !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Serve: %v; log: %s", err, j)
	}
}

// However a client with very many watches goes, all of them go, and none tells
// it of anything any more.
func TestManyWatchesGo(t *testing.T) {
	for name, leave := range map[string]func(srv *embedded.Server, c *client){
		"hangs up": func(_ *embedded.Server, c *client) { c.nc.Close() },
		"expires":  func(srv *embedded.Server, c *client) { _ = srv.ExpireSession(c.session.SessionID) },
		"closes": func(_ *embedded.Server, c *client) {
			c.ok(wire.OpCloseSession, new(wire.Empty), nil)
			c.take() // of its own nodes, before the reply
		},
		"moves": func(srv *embedded.Server, c *client) {
			c.resume(must(srv.DialContext(context.Background(), "", "")))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := start(t)
			c := connect(t, srv)
			r := new(wire.SetWatches2Request)
			for i := range 5000 {
				r.PersistentRecursive = append(r.PersistentRecursive, fmt.Sprintf("/%d", i))
			}
			c.ok(wire.OpSetWatches2, r, nil)
			for i := range 100 {
				c.create(fmt.Sprintf("/%d", i*50), "", wire.ModeEphemeral)
			}
			c.sync()
			leave(srv, c)
			if name != "hangs up" {
				c.gone()
			}
			synctest.Wait()
			if n := srv.WatchCount(); n != 0 || len(c.events) > 0 {
				t.Errorf("%s: %d watches are left, %d events", name, n, len(c.events))
			}
		})
	}
}
