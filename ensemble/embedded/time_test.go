package embedded_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

func TestTimeoutIsNegotiated(t *testing.T) {
	srv := start(t, embedded.WithTick(time.Second))
	for asked, want := range map[int32]int32{-5: 2000, 0: 2000, 2000: 2000, 5500: 5500, 20_000: 20_000, 1 << 30: 20_000} {
		c := dial(t, srv).open(&wire.ConnectRequest{TimeoutMillis: asked})
		if c.session.TimeoutMillis != want || c.session.HasReadOnly || len(c.session.Password) != 16 {
			t.Errorf("asked for %d ms, got %+v", asked, c.session)
		}
	}
}

// A session ends on the first tick after its timeout, not before, and what it
// owned goes in one transaction.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		b.deadline = time.Minute
		for _, path := range []string{"/z", "/a", "/m"} {
			a.create(path, "", wire.ModeEphemeral)
			b.get(path, true)
		}
		before := b.zxid
		began := time.Now()
		for time.Since(began) < 11*time.Second {
			b.sync()
			time.Sleep(time.Second)
		}
		time.Sleep(999 * time.Millisecond)
		if n := len(srv.Sessions()); n != 2 {
			t.Fatalf("%d sessions before the timeout", n)
		}
		time.Sleep(2 * time.Millisecond) // the tick at 12 s has passed
		if got := show(b.sync()); got != "deleted /a;deleted /z;deleted /m;" {
			t.Errorf("events %q", got)
		}
		if b.zxid != before+1 {
			t.Errorf("zxid %d, expected %d", b.zxid, before+1)
		}
		a.gone()
	})
}

func TestAdvance(t *testing.T) {
	srv := start(t)
	a := connect(t, srv)
	a.create("/e", "", wire.ModeEphemeral)
	a.create("/p", "", wire.ModePersistent)
	srv.Advance(9 * time.Second)
	a.sync() // alive, and has its whole timeout again
	srv.Advance(9 * time.Second)
	a.sync()
	first := a.stat("/p")
	a.set("/p", "x")
	if late := a.stat("/p"); late.Mtime < first.Ctime+18_000 {
		t.Errorf("mtime %d, created at %d: the clock did not move", late.Mtime, first.Ctime)
	}
	srv.Advance(time.Minute)
	a.gone()
	if _, ok := srv.Node("/e"); ok {
		t.Error("the ephemeral node outlived its session")
	}
}

func TestContainersAreReaped(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	made := new(wire.Create2Response)
	for _, path := range []string{"/used", "/unused", "/full"} {
		c.ok(wire.OpCreateContainer, &wire.CreateRequest{Path: path, ACL: openACL, Flags: wire.ModeContainer}, made)
	}
	c.ok(wire.OpCreateTTL, &wire.CreateTTLRequest{
		CreateRequest: wire.CreateRequest{Path: "/ttl", ACL: openACL, Flags: wire.ModePersistentTTL}, TTL: 5000,
	}, made)
	c.create("/full/x", "", wire.ModePersistent)
	c.create("/used/x", "", wire.ModePersistent)
	c.delete("/used/x")
	c.get("/used", true)
	before := c.zxid
	srv.ReapContainers()
	if got := show(c.sync()); got != "deleted /used;" || c.zxid != before+1 {
		t.Errorf("events %q, zxid %d after %d", got, c.zxid, before)
	}
	if want := "/ 0 persistent\n/full 0 container\n/full/x 0 persistent\n/ttl 0 ttl 5s\n/unused 0 container\n"; srv.Dump() != want {
		t.Errorf("tree:\n%s", srv.Dump())
	}
	srv.Advance(6 * time.Second)
	if _, ok := srv.Node("/ttl"); !ok {
		t.Error("the TTL node was reaped before the interval was over")
	}
	srv.ReapContainers()
	if _, ok := srv.Node("/ttl"); ok {
		t.Error("the TTL node was not reaped")
	}
}

func TestContainerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, embedded.WithContainerInterval(7*time.Second))
		c := connect(t, srv)
		c.ok(wire.OpCreateContainer, &wire.CreateRequest{Path: "/c", ACL: openACL}, new(wire.Create2Response))
		c.create("/c/x", "", wire.ModePersistent)
		c.delete("/c/x")
		time.Sleep(6 * time.Second)
		c.stat("/c")
		time.Sleep(2 * time.Second)
		c.fails(wire.CodeNoNode, wire.OpExists, &wire.PathWatchRequest{Path: "/c"})
	})
}

func TestWithoutContainers(t *testing.T) {
	c := connect(t, start(t, embedded.WithoutContainers()))
	c.fails(wire.CodeUnimplemented, wire.OpCreateContainer, &wire.CreateRequest{Path: "/c", ACL: openACL})
	c.fails(wire.CodeUnimplemented, wire.OpCreateTTL, &wire.CreateTTLRequest{
		CreateRequest: wire.CreateRequest{Path: "/t", ACL: openACL, Flags: wire.ModePersistentTTL}, TTL: 1000,
	})
	c.create("/p", "", wire.ModePersistent)
}

// The numbers in this test were read off a ZooKeeper 3.8.0 that was started
// on a snapshot with such a counter.
func TestSequenceSticks(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	c.create("/wrap", "", wire.ModePersistent)
	if err := srv.SetSequence("/wrap", 2147483646); err != nil {
		t.Fatal(err)
	}
	sequential := &wire.CreateRequest{Path: "/wrap/n-", ACL: openACL, Flags: wire.ModePersistentSequential}
	for _, want := range []string{"/wrap/n-2147483646", "/wrap/n-2147483647"} {
		if got := c.create("/wrap/n-", "", wire.ModePersistentSequential); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	pzxid := c.zxid - 1
	c.fails(wire.CodeNodeExists, wire.OpCreate, sequential)
	if got := c.create("/wrap/k-", "", wire.ModePersistentSequential); got != "/wrap/k-2147483647" {
		t.Error(got)
	}
	if st := c.stat("/wrap"); st.Cversion != -5 || st.Pzxid != pzxid {
		t.Errorf("%+v, expected cversion -5 and pzxid %d", st, pzxid)
	}
	var m wire.MultiResponse
	part := wire.Op{Code: wire.OpCreate, Request: &wire.CreateRequest{Path: "/wrap/m-", ACL: openACL, Flags: wire.ModePersistentSequential}}
	c.ok(wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{part, part, part}}, &m)
	for i, want := range []string{"/wrap/m-2147483647", "/wrap/m--2147483648", "/wrap/m--2147483647"} {
		if got := m.Results[i].Reply.(*wire.CreateResponse).Path; got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	srv := start(t, embedded.WithWrappingSequence())
	c := connect(t, srv)
	c.create("/wrap", "", wire.ModePersistent)
	if err := srv.SetSequence("/wrap", 2147483647); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/wrap/n-2147483647", "/wrap/n--2147483648", "/wrap/n--2147483647"} {
		if got := c.create("/wrap/n-", "", wire.ModePersistentSequential); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	if err := srv.SetSequence("/wrap", -7); err != nil {
		t.Fatal(err)
	}
	if got := c.create("/wrap/n", "", wire.ModePersistentSequential); got != "/wrap/n-000000007" {
		t.Error(got)
	}
	if err := srv.SetSequence("/none", 1); err == nil {
		t.Error("the counter of a missing node was set")
	}
}
