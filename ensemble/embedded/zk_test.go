package embedded_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/batonzk/baton/ensemble/embedded"
)

// zkConn returns a session of the go-zookeeper client, which nobody here
// wrote, and the events that its callback got. The test ends it.
func zkConn(t *testing.T, srv *embedded.Server) *zk.Conn {
	t.Helper()
	dial := func(_, address string, _ time.Duration) (net.Conn, error) {
		return srv.DialContext(context.Background(), "pipe", address)
	}
	conn, events, err := zk.Connect([]string{"127.0.0.1:1", "127.0.0.1:2"}, 10*time.Second, zk.WithDialer(dial),
		zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range events {
		}
	}()
	t.Cleanup(func() { conn.Close(); <-drained })
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func TestAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		conn := zkConn(t, srv)
		open := zk.WorldACL(zk.PermAll)
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		_, err := conn.CreateContainer("/c", nil, zk.FlagContainer, open)
		check("container", err)
		_, err = conn.CreateTTL("/t", nil, zk.FlagTTL, open, time.Hour)
		check("TTL", err)
		path, err := conn.CreateProtectedEphemeralSequential("/c/lock-", nil, open)
		check("protected", err)
		_, stat, watch, err := conn.ChildrenW("/c")
		check("children", err)
		if stat.NumChildren != 1 || len(path) != len("/c/_c_0123456789abcdef0123456789abcdef-lock-0000000000") {
			t.Errorf("%s, %+v", path, stat)
		}
		res, err := conn.Multi(&zk.CreateRequest{Path: "/c/m", Acl: open}, &zk.SetDataRequest{Path: "/c/m", Data: []byte("x"), Version: 0})
		check("multi", err)
		if len(res) != 2 || res[0].String != "/c/m" || res[1].Stat.Version != 1 {
			t.Errorf("%+v", res)
		}
		if e := <-watch; e.Type != zk.EventNodeChildrenChanged || e.Path != "/c" {
			t.Errorf("%+v", e)
		}
		if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/c/m", Version: 0}, &zk.DeleteRequest{Path: "/c/m"}); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("multi: %v", err)
		}
		check("auth", conn.AddAuth("digest", []byte("u:p")))
		_, err = conn.Create("/mine", nil, 0, zk.AuthACL(zk.PermAll))
		check("create", err)
		acl, _, err := conn.GetACL("/mine")
		if check("ACL", err); !slices.Equal(acl, zk.DigestACL(zk.PermAll, "u", "p")) {
			t.Errorf("ACL %v", acl)
		}
		_, err = conn.Sync("/c")
		check("sync", err)
		time.Sleep(10 * time.Minute) // it pings
		if ok, _, err := conn.Exists(path); !ok || err != nil {
			t.Errorf("%v, %v after ten minutes", ok, err)
		}
	})
}

func TestAnotherClientReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		conn := zkConn(t, srv)
		open := zk.WorldACL(zk.PermAll)
		if _, err := conn.Create("/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		id := conn.SessionID()
		_, _, watch, err := conn.GetW("/e")
		if err != nil {
			t.Fatal(err)
		}
		srv.DropConnections()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		if _, err := conn.Set("/e", []byte("x"), 0); err != nil || conn.SessionID() != id {
			t.Fatalf("%v, session %x after %x", err, conn.SessionID(), id)
		}
		if e := <-watch; e.Type != zk.EventNodeDataChanged {
			t.Errorf("%+v", e)
		}
		if err := srv.ExpireSession(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if ok, _, err := conn.Exists("/e"); ok || err != nil || conn.SessionID() == id {
			t.Errorf("%v, %v, session %x after %x", ok, err, conn.SessionID(), id)
		}
	})
}

// dialTo returns a client of srv for the examples of faults: one that shows
// what happens to it, whereas Baton's own copes.
func dialTo(srv *embedded.Server) *zk.Conn {
	dial := func(_, address string, _ time.Duration) (net.Conn, error) {
		return srv.DialContext(context.Background(), "pipe", address)
	}
	conn, _, err := zk.Connect([]string{"127.0.0.1:2181"}, 10*time.Second, zk.WithDialer(dial), zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	return conn
}
