package embedded_test

import (
	"fmt"
	"strings"
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

func TestMaxSessions(t *testing.T) {
	srv, j := logged(t, embedded.WithMaxSessions(2))
	connect(t, srv).nc.Close() // its session lives on
	c := connect(t, srv)
	third := dial(t, srv)
	third.write(wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000}))
	third.gone()
	c.ok(wire.OpCloseSession, new(wire.Empty), nil)
	connect(t, srv)
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
		srv, j := logged(t, embedded.WithMaxQueue(1<<20))
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
