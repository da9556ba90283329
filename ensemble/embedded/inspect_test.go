package embedded_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		a, b := connect(t, srv), connect(t, srv)
		a.create("/z", "", wire.ModeEphemeral)
		a.create("/a", "", wire.ModeEphemeral)
		b.nc.Close()
		synctest.Wait()
		want := []embedded.SessionInfo{
			{ID: a.session.SessionID, Timeout: 10 * time.Second, Connected: true, Ephemerals: []string{"/z", "/a"}},
			{ID: b.session.SessionID, Timeout: 10 * time.Second, Connected: false},
		}
		if got := srv.Sessions(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if high := a.session.SessionID >> 56; high != 1 || b.session.SessionID != a.session.SessionID+1 {
			t.Errorf("sessions %x and %x", a.session.SessionID, b.session.SessionID)
		}
	})
}

func TestNode(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	c.create("/n", "data", wire.ModePersistent)
	c.create("/n/e", "", wire.ModeEphemeral)
	c.set("/n", "more")
	n, ok := srv.Node("/n")
	if !ok || string(n.Data) != "more" || n.Mode != "persistent" || n.Version != 1 || n.Sequence != 1 ||
		len(n.Children) != 1 || n.Children[0] != "e" || n.Czxid != c.zxid-2 || n.Mzxid != c.zxid || n.Pzxid != c.zxid-1 {
		t.Errorf("%+v", n)
	}
	n.Data[0] = 'X'
	if data, _ := c.get("/n", false); data != "more" {
		t.Error("the data is shared with the server")
	}
	if e, _ := srv.Node("/n/e"); e.Mode != "ephemeral" || e.Owner != c.session.SessionID {
		t.Errorf("%+v", e)
	}
	if _, ok := srv.Node("/none"); ok {
		t.Error("a node that is not")
	}
}

func TestWatches(t *testing.T) {
	srv := start(t)
	a, b := connect(t, srv), connect(t, srv)
	a.create("/w", "", wire.ModePersistent)
	b.get("/w", true)
	a.get("/w", true)
	a.children("/w", true)
	b.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: "/r", Type: wire.AddWatchPersistentRecursive}, new(wire.ErrorResponse))
	b.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: "/p", Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
	idA, idB := a.session.SessionID, b.session.SessionID
	want := []embedded.WatchInfo{
		{Session: idB, Path: "/p", Kind: "data", Mode: "persistent"},
		{Session: idB, Path: "/p", Kind: "children", Mode: "persistent"},
		{Session: idB, Path: "/r", Kind: "data", Mode: "recursive"},
		{Session: idB, Path: "/r", Kind: "children", Mode: "recursive"},
		{Session: idA, Path: "/w", Kind: "data", Mode: "one-shot"},
		{Session: idA, Path: "/w", Kind: "children", Mode: "one-shot"},
		{Session: idB, Path: "/w", Kind: "data", Mode: "one-shot"},
	}
	if got := srv.Watches(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := srv.WatchCount(); n != 7 {
		t.Errorf("%d watches", n)
	}
	b.ok(wire.OpCloseSession, new(wire.Empty), nil)
	a.set("/w", "")
	if n := srv.WatchCount(); n != 1 {
		t.Errorf("%d watches, expected the one on children", n)
	}
}

func TestSuper(t *testing.T) {
	srv := start(t, embedded.WithSuper("super:D/InIHSb7yEEbrWz8b9l71RjZJU="))
	c := connect(t, srv)
	c.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("joe:joe")}, nil)
	c.ok(wire.OpCreate, &wire.CreateRequest{Path: "/mine", ACL: []wire.ACL{{Perms: wire.PermAll, Scheme: "auth"}}}, new(wire.CreateResponse))
	other := connect(t, srv)
	get := &wire.PathWatchRequest{Path: "/mine"}
	other.fails(wire.CodeNoAuth, wire.OpGetData, get)
	other.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("super:wrong")}, nil)
	other.fails(wire.CodeNoAuth, wire.OpGetData, get)
	other.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("super:test")}, nil)
	other.get("/mine", false)
}

func TestCheckOutsideAMulti(t *testing.T) {
	c := connect(t, start(t))
	c.create("/n", "x", wire.ModePersistent)
	var r wire.StatResponse
	c.ok(wire.OpCheck, &wire.PathVersionRequest{Path: "/n", Version: 0}, &r)
	if r.Stat.DataLength != 1 {
		t.Errorf("%+v", r.Stat)
	}
	c.fails(wire.CodeBadVersion, wire.OpCheck, &wire.PathVersionRequest{Path: "/n", Version: 1})
}
