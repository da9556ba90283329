package embedded_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

func TestMaxConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t, embedded.WithMaxConnections(2))
		first := connect(t, srv)
		connect(t, srv)
		dial(t, srv).gone()
		first.nc.Close()
		synctest.Wait()
		connect(t, srv)
		if !strings.Contains(j.String(), "too many connections") {
			t.Errorf("log: %s", j)
		}
	})
}

// An attended listener's connections do something just before they close.
type attended struct {
	net.Listener
	closing func()
}

func (l attended) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return attendedConn{nc, l.closing}, err
}

type attendedConn struct {
	net.Conn
	closing func()
}

func (c attendedConn) Close() error {
	c.closing()
	return c.Conn.Close()
}

// A client that has seen the end of a connection finds its place free.
func TestEndedConnectionHasNoPlace(t *testing.T) {
	srv := start(t, embedded.WithMaxConnections(1))
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	var once sync.Once
	var another string
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = srv.Serve(attended{l, func() { once.Do(func() { another = ask(dialPipe(srv)(), "ruok") }) }})
	})
	if got := ask(must(net.Dial("tcp", l.Addr().String())), "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
	srv.Close()
	wg.Wait()
	if another != "imok" {
		t.Errorf("ruok, while the connection before is being closed: %q", another)
	}
}

func TestMaxSessions(t *testing.T) {
	srv, j := logged(t, embedded.WithMaxSessions(2))
	connect(t, srv).nc.Close() // its session lives on
	c := connect(t, srv)
	third := dial(t, srv)
	third.write(wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000}))
	third.gone()
	c.ok(wire.OpCloseSession, new(wire.Empty), nil)
	connect(t, srv)
	srv.Close()
	if !strings.Contains(j.String(), "too many sessions") {
		t.Errorf("log: %s", j)
	}
}

func TestMaxWatches(t *testing.T) {
	for _, limits := range [][2]int{{3, 100}, {100, 3}} {
		srv, j := logged(t, embedded.WithMaxWatches(limits[0], limits[1]))
		c := connect(t, srv)
		watch := func(i int) *wire.PathWatchRequest {
			return &wire.PathWatchRequest{Path: fmt.Sprintf("/%d", i), Watch: true}
		}
		for i := range 3 {
			c.fails(wire.CodeNoNode, wire.OpExists, watch(i))
			c.fails(wire.CodeNoNode, wire.OpExists, watch(i)) // is the same
		}
		other := connect(t, srv)
		other.create("/0", "", wire.ModePersistent) // makes room
		c.fails(wire.CodeNoNode, wire.OpExists, watch(7))
		c.send(wire.OpExists, watch(8))
		c.gone()
		other.sync()
		srv.Close()
		if n := srv.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		if !strings.Contains(j.String(), "too many watches") {
			t.Errorf("log: %s", j)
		}
	}
}

func TestMaxQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t, embedded.WithMaxQueue(1<<20, 1<<30))
		deaf, busy := connect(t, srv), connect(t, srv)
		long := "/" + strings.Repeat("x", 100_000)
		busy.create(long, "", wire.ModePersistent)
		deaf.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: long, Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
		for range 20 {
			busy.set(long, "")
		}
		synctest.Wait()
		if srv.Sessions()[0].Connected || !strings.Contains(j.String(), "client does not read") {
			t.Errorf("2 MB of events wait for it; log: %s", j)
		}
	})
}

// Clients that do not read are cut off when too much waits for all of them,
// the one first for which most is waiting.
func TestMaxQueueInTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t, embedded.WithMaxQueue(64<<20, 4<<20))
		deaf, deafer, busy := connect(t, srv), connect(t, srv), connect(t, srv)
		long := func(c string) string { return "/" + strings.Repeat(c, 100_000) }
		for _, path := range []string{long("x"), long("y")} {
			busy.create(path, "", wire.ModePersistent)
			deafer.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: path, Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
		}
		deaf.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: long("x"), Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
		for range 16 { // 3.2 MB for one, 1.6 MB for the other
			busy.set(long("x"), "")
			busy.set(long("y"), "")
		}
		synctest.Wait()
		if s := srv.Sessions(); !s[0].Connected || s[1].Connected || !s[2].Connected {
			t.Errorf("sessions %+v; log: %s", s, j)
		}
		if !strings.Contains(j.String(), "too much waits") {
			t.Errorf("log: %s", j)
		}
	})
}

// The tree does not grow beyond its limits, by whatever request, and what is
// deleted makes room.
func TestMaxTree(t *testing.T) {
	const nodes = 3 // besides the four that are always there
	srv := start(t, embedded.WithMaxTree(4+nodes, 10_000))
	c := connect(t, srv)
	create := func(path string) *wire.CreateRequest { return &wire.CreateRequest{Path: path, ACL: openACL} }
	for i := range nodes {
		c.create(fmt.Sprintf("/%d", i), "", wire.ModePersistent)
	}
	for _, op := range []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer} {
		c.fails(wire.CodeQuotaExceeded, op, create("/x"))
	}
	var both wire.MultiResponse
	c.ok(wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{
		{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: "/0", Version: -1}},
		{Code: wire.OpCreate, Request: create("/0")},
	}}, &both)
	if code := both.Results[0].Err; code != wire.CodeOK {
		t.Errorf("a multi that does not grow the tree: %v", code)
	}
	c.ok(wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{
		{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: "/0", Version: -1}},
		{Code: wire.OpCreate, Request: create("/0")},
		{Code: wire.OpCreate, Request: create("/x")},
	}}, &both)
	if code := both.Results[2].Err; code != wire.CodeQuotaExceeded {
		t.Errorf("a multi that does: %v", code)
	}
	c.delete("/2")

	set := func(n int) *wire.SetDataRequest {
		return &wire.SetDataRequest{Path: "/0", Data: make([]byte, n), Version: -1}
	}
	acl := []wire.ACL{{Perms: wire.PermAll, Scheme: "digest", ID: strings.Repeat("x", 5000) + ":y"}, openACL[0]}
	c.ok(wire.OpSetACL, &wire.SetACLRequest{Path: "/1", ACL: acl, Version: -1}, new(wire.StatResponse))
	c.ok(wire.OpSetData, set(4000), new(wire.StatResponse))
	c.fails(wire.CodeQuotaExceeded, wire.OpSetData, set(6000))
	c.fails(wire.CodeQuotaExceeded, wire.OpSetACL, &wire.SetACLRequest{Path: "/0", ACL: acl, Version: -1})
	c.fails(wire.CodeQuotaExceeded, wire.OpCreate, &wire.CreateRequest{Path: "/2", Data: make([]byte, 2000), ACL: openACL})
	c.fails(wire.CodeQuotaExceeded, wire.OpCreate, &wire.CreateRequest{Path: "/2", ACL: acl})
	c.ok(wire.OpSetACL, &wire.SetACLRequest{Path: "/1", ACL: openACL, Version: -1}, new(wire.StatResponse))
	c.ok(wire.OpSetData, set(9000), new(wire.StatResponse))
	c.ok(wire.OpSetData, set(0), new(wire.StatResponse))
	c.create("/2", strings.Repeat("x", 9000), wire.ModePersistent)
}

func TestMaxAuth(t *testing.T) {
	srv, j := logged(t, embedded.WithMaxAuth(1000))
	c := connect(t, srv)
	prove := func(user string) *wire.AuthRequest {
		return &wire.AuthRequest{Scheme: "digest", Auth: []byte(user + ":password")}
	}
	for i := range 100 {
		c.ok(wire.OpAuth, prove(fmt.Sprint(i%5)), nil)
	}
	c.send(wire.OpAuth, prove(strings.Repeat("x", 1000)))
	c.gone()
	srv.Close()
	if !strings.Contains(j.String(), "too many identities") {
		t.Errorf("log: %s", j)
	}
}

// An ACL of tens of thousands of entries fits into a request, and would be
// gone through for each later one.
func TestLongACL(t *testing.T) {
	c := connect(t, start(t))
	acl := make([]wire.ACL, 40_000)
	for i := range acl {
		acl[i] = wire.ACL{Perms: int32(i), Scheme: "ip", ID: "10.0.0.1"}
	}
	c.fails(wire.CodeInvalidACL, wire.OpCreate, &wire.CreateRequest{Path: "/x", ACL: acl})
	for i := range 20 {
		c.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "user%d:password", i)}, nil)
	}
	for i := range acl {
		acl[i] = wire.ACL{Perms: int32(i), Scheme: "auth"}
	}
	c.fails(wire.CodeInvalidACL, wire.OpCreate, &wire.CreateRequest{Path: "/x", ACL: acl[:100]}) // 20 for each
	c.ok(wire.OpCreate, &wire.CreateRequest{Path: "/x", ACL: acl[:50]}, new(wire.CreateResponse))
}

// What is held back for a client that lags counts as if it were waiting.
func TestLagHoldsBackSoMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t, embedded.WithMaxQueue(1<<20, 1<<30))
		late, busy := connect(t, srv), connect(t, srv)
		long := "/" + strings.Repeat("x", 100_000)
		busy.create(long, "", wire.ModePersistent)
		late.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: long, Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
		srv.Lag(late.session.SessionID)
		for range 20 {
			busy.set(long, "")
		}
		synctest.Wait()
		if srv.Sessions()[0].Connected || !strings.Contains(j.String(), "held back") {
			t.Errorf("2 MB of events are held back; log: %s", j)
		}
		again := late.resume(must(srv.DialContext(context.Background(), "", "")))
		srv.CatchUp()
		if e := again.sync(); len(e) > 0 {
			t.Errorf("events of the earlier connection: %s", show(e)[:40])
		}
	})
}
