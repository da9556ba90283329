package embedded_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

func TestExpireSession(t *testing.T) {
	srv := start(t)
	a, b := connect(t, srv), connect(t, srv)
	a.create("/e", "", wire.ModeEphemeral)
	b.get("/e", true)
	if err := srv.ExpireSession(a.session.SessionID); err != nil {
		t.Fatal(err)
	}
	a.gone()
	if got := show(b.sync()); got != "deleted /e;" {
		t.Errorf("events %q", got)
	}
	again := a.resume(must(srv.DialContext(context.Background(), "", "")))
	if again.session.SessionID != 0 {
		t.Error("an expired session was resumed")
	}
	if err := srv.ExpireSession(a.session.SessionID); err == nil {
		t.Error("a session expired twice")
	}
}

func TestDropConnections(t *testing.T) {
	srv := start(t)
	a, b := connect(t, srv), connect(t, srv)
	a.create("/e", "", wire.ModeEphemeral)
	srv.DropConnections(a.session.SessionID)
	a.gone()
	b.sync()
	a = a.resume(must(srv.DialContext(context.Background(), "", "")))
	if a.stat("/e").EphemeralOwner != a.session.SessionID {
		t.Error("the session did not keep its node")
	}
	srv.DropConnections()
	a.gone()
	b.gone()
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		a.create("/e", "", wire.ModeEphemeral)
		srv.Silence(a.session.SessionID)
		xid := a.send(wire.OpCreate, &wire.CreateRequest{Path: "/late", ACL: openACL})
		synctest.Wait()
		if _, ok := srv.Node("/late"); ok {
			t.Error("a silenced request was carried out")
		}
		if n := len(b.children("/", false)); n != 2 {
			t.Errorf("%d children", n)
		}
		time.Sleep(time.Second)
		srv.Unsilence()
		if code, err := a.receive(xid, new(wire.CreateResponse)); code != 0 || err != nil {
			t.Error(code, err)
		}

		// Silent beyond the timeout: the session is gone, the connection is not.
		srv.Silence(a.session.SessionID)
		for range 10 {
			time.Sleep(4 * time.Second)
			b.sync()
		}
		if _, ok := srv.Node("/e"); ok {
			t.Error("the silenced session did not expire")
		}
		a.deadline = time.Minute
		if _, err := a.receive(1, nil); ended(err) {
			t.Errorf("the silenced connection ended: %v", err)
		}
		srv.Unsilence()
		a.gone()
	})
}

func TestSilenceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a := connect(t, srv)
		srv.Silence()
		a.send(wire.OpPing, new(wire.Empty))
		late := dial(t, srv)
		late.write(wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000}))
		for _, c := range []*client{a, late} {
			c.deadline = 5 * time.Minute
			if _, err := c.frame(); ended(err) || err == nil {
				t.Errorf("expected silence, got %v", err)
			}
		}
		srv.Unsilence()
		if _, err := late.frame(); err != nil {
			t.Errorf("no answer after the silence: %v", err)
		}
		a.gone() // it expired
	})
}

func TestHoldARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		let := make(chan struct{})
		var seen []string
		remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Session == a.session.SessionID {
				seen = append(seen, r.Op+" "+r.Path)
				<-let
			}
			return embedded.Pass
		})
		xid := a.send(wire.OpCreate2, &wire.CreateRequest{Path: "/held", ACL: openACL})
		synctest.Wait()
		if !slices.Equal(seen, []string{"create2 /held"}) {
			t.Errorf("seen %q", seen)
		}
		if names := b.children("/", false); len(names) != 1 {
			t.Errorf("children %v: the request was not held", names)
		}
		close(let)
		if code, err := a.receive(xid, new(wire.Create2Response)); code != 0 || err != nil {
			t.Error(code, err)
		}
		remove()
		a.sync()
		if len(seen) != 1 {
			t.Errorf("seen %q after the hook was removed", seen)
		}
	})
}

// A request that was held while its session moved on is not carried out: the
// server closed its connection before it took it.
func TestHeldRequestOfAMovedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a := connect(t, srv)
		let := make(chan struct{})
		remove := srv.OnRequest(func(embedded.Request) embedded.Verdict { <-let; return embedded.Pass })
		a.send(wire.OpCreate, &wire.CreateRequest{Path: "/held", ACL: openACL})
		synctest.Wait()
		remove()
		again := a.resume(must(srv.DialContext(context.Background(), "", "")))
		close(let)
		a.gone()
		again.fails(wire.CodeNoNode, wire.OpExists, &wire.PathWatchRequest{Path: "/held"})
	})
}

// While a reply is held, events of later transactions wait behind it.
func TestHoldAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		a.create("/x", "", wire.ModePersistent)
		let := make(chan struct{})
		remove := srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "getData" {
				<-let
			}
			return embedded.Pass
		})
		defer remove()
		xid := a.send(wire.OpGetData, &wire.PathWatchRequest{Path: "/x", Watch: true})
		synctest.Wait()
		b.set("/x", "new")
		close(let)
		var r wire.GetDataResponse
		if _, err := a.receive(xid, &r); err != nil || string(r.Data) != "" {
			t.Errorf("data %q, %v", r.Data, err)
		}
		if len(a.events) > 0 {
			t.Error("the event came before the reply")
		}
		if got := show(a.sync()); got != "changed /x;" {
			t.Errorf("events %q", got)
		}
	})
}

func TestVerdicts(t *testing.T) {
	srv := start(t)
	create := &wire.CreateRequest{Path: "/x", ACL: openACL}
	exists := func(want bool) {
		t.Helper()
		if _, ok := srv.Node("/x"); ok != want {
			t.Errorf("the node exists: %v", ok)
		}
		if want {
			connect(t, srv).delete("/x")
		}
	}
	answer := func(v embedded.Verdict) func(embedded.Request) embedded.Verdict {
		return func(r embedded.Request) embedded.Verdict {
			if r.Op == "create" {
				return v
			}
			return embedded.Pass
		}
	}

	remove := srv.OnRequest(answer(embedded.Drop))
	c := connect(t, srv)
	c.send(wire.OpCreate, create)
	c.sync()
	exists(false)
	remove()

	remove = srv.OnRequest(answer(embedded.Answer(-4)))
	c.fails(wire.CodeConnectionLoss, wire.OpCreate, create)
	exists(false)
	remove()

	remove = srv.OnReply(answer(embedded.Drop))
	c.send(wire.OpCreate, create)
	c.sync()
	exists(true)
	remove()

	remove = srv.OnReply(answer(embedded.Answer(-7)))
	c.fails(wire.CodeOperationTimeout, wire.OpCreate, create)
	exists(true)
	remove()

	remove = srv.OnRequest(answer(embedded.Cut))
	c.send(wire.OpCreate, create)
	c.gone()
	exists(false)
	remove()

	remove = srv.OnReply(answer(embedded.Cut))
	c = connect(t, srv)
	c.send(wire.OpCreate, create)
	c.gone()
	exists(true)
	remove()
}

func TestCutBeforeAndLoseReply(t *testing.T) {
	srv := start(t)
	matches := func(path string) func(embedded.Request) bool {
		return func(r embedded.Request) bool {
			return r.Op == "create" && r.Path == path || slices.Contains(r.Paths, path)
		}
	}
	cut, lost := srv.CutBefore(matches("/cut")), srv.LoseReply(matches("/lost"))
	a := connect(t, srv)
	a.create("/other", "", wire.ModePersistent)
	a.send(wire.OpCreate, &wire.CreateRequest{Path: "/cut", ACL: openACL})
	a.gone()
	<-cut
	a = a.resume(must(srv.DialContext(context.Background(), "", "")))
	a.fails(wire.CodeNoNode, wire.OpExists, &wire.PathWatchRequest{Path: "/cut"})
	a.create("/cut", "", wire.ModePersistent) // once only

	a.send(wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{
		{Code: wire.OpCheck, Request: &wire.PathVersionRequest{Path: "/cut", Version: 0}},
		{Code: wire.OpCreate, Request: &wire.CreateRequest{Path: "/lost", ACL: openACL}},
	}})
	a.gone()
	<-lost
	a = a.resume(must(srv.DialContext(context.Background(), "", "")))
	a.stat("/lost")
}

func TestRequestsThatHooksSee(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	var got []embedded.Request
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		r.Done = nil
		got = append(got, r)
		return embedded.Pass
	})
	c.create("/n", "", wire.ModeEphemeral)
	c.get("/n", true)
	c.ok(wire.OpPing, new(wire.Empty), nil)
	c.ok(wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{
		{Code: wire.OpCreate, Request: &wire.CreateRequest{Path: "/m", ACL: openACL}},
		{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: "/m", Version: -1}},
	}}, new(wire.MultiResponse))
	c.ok(wire.OpCloseSession, new(wire.Empty), nil)
	remove()
	id := c.session.SessionID
	want := []embedded.Request{
		{Session: id, Xid: 1, Op: "create", Path: "/n", Flags: wire.ModeEphemeral},
		{Session: id, Xid: 2, Op: "getData", Path: "/n", Watch: true},
		{Session: id, Xid: -2, Op: "ping"},
		{Session: id, Xid: 4, Op: "multi", Paths: []string{"/m", "/m"}},
		{Session: id, Xid: 5, Op: "closeSession"},
	}
	if !slices.EqualFunc(got, want, func(a, b embedded.Request) bool {
		paths := slices.Equal(a.Paths, b.Paths)
		a.Paths, b.Paths = nil, nil
		return paths && a.Session == b.Session && a.Xid == b.Xid && a.Op == b.Op && a.Path == b.Path && a.Flags == b.Flags && a.Watch == b.Watch
	}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A client may count on its session for a timeout after each answer, also one
// that a hook has given; and a session that is over gets none.
func TestAnsweredRequestsKeepTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		c := connect(t, srv)
		remove := srv.OnRequest(func(embedded.Request) embedded.Verdict { return embedded.Answer(int32(wire.CodeThrottledOp)) })
		for range 5 {
			time.Sleep(8 * time.Second)
			c.fails(wire.CodeThrottledOp, wire.OpExists, &wire.PathWatchRequest{Path: "/"})
		}
		if n := len(srv.Sessions()); n != 1 {
			t.Errorf("%d sessions after 40 s of answers", n)
		}
		remove()
		let := make(chan struct{})
		remove = srv.OnRequest(func(embedded.Request) embedded.Verdict {
			<-let
			return embedded.Answer(int32(wire.CodeThrottledOp))
		})
		defer remove()
		c.send(wire.OpPing, new(wire.Empty))
		synctest.Wait()
		again := c.resume(must(srv.DialContext(context.Background(), "", "")))
		close(let)
		c.gone()
		again.fails(wire.CodeThrottledOp, wire.OpExists, &wire.PathWatchRequest{Path: "/"})
	})
}
