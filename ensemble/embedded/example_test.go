package embedded_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/batonzk/baton/ensemble/embedded"
)

// dialTo returns a client of srv that needs no socket. Any client that can be
// given a dial function works like this; for others there is Listen.
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

func Example() {
	srv, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()

	conn := dialTo(srv)
	defer conn.Close()
	path, err := conn.Create("/greeting", []byte("hello"), 0, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	fmt.Print(srv.Dump())
	// Output:
	// /greeting <nil>
	// / 0 persistent
	// /greeting 5 persistent
}

// The create is carried out and its reply lost: the client cannot tell, and a
// program that is right looks before it tries again.
func ExampleServer_LoseReply() {
	srv, _ := embedded.Start()
	defer srv.Close()
	conn := dialTo(srv)
	defer conn.Close()

	lost := srv.LoseReply(func(r embedded.Request) bool { return r.Op == "create" && r.Path == "/job" })
	_, err := conn.Create("/job", nil, 0, zk.WorldACL(zk.PermAll))
	<-lost
	_, there := srv.Node("/job")
	fmt.Println(err)
	fmt.Println("created all the same:", there)
	// Output:
	// zk: connection closed
	// created all the same: true
}

// A request is held at an exact step, and meanwhile the world changes.
func ExampleServer_OnRequest() {
	srv, _ := embedded.Start()
	defer srv.Close()
	conn, other := dialTo(srv), dialTo(srv)
	defer conn.Close()
	defer other.Close()

	arrived, let := make(chan struct{}), make(chan struct{})
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op != "delete" {
			return embedded.Pass
		}
		close(arrived)
		<-let
		return embedded.Pass
	})
	defer remove()

	_, _ = conn.Create("/n", nil, 0, zk.WorldACL(zk.PermAll))
	deleted := make(chan error)
	go func() { deleted <- conn.Delete("/n", 0) }()
	<-arrived
	_, _ = other.Set("/n", []byte("news"), 0)
	close(let)
	fmt.Println(<-deleted)
	// Output:
	// zk: version conflict
}

// A session ends when the test says so, not when a timeout does.
func ExampleServer_ExpireSession() {
	srv, _ := embedded.Start()
	defer srv.Close()
	conn, other := dialTo(srv), dialTo(srv)
	defer conn.Close()
	defer other.Close()

	_, _ = conn.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	_, _, gone, _ := other.ExistsW("/worker")
	_ = srv.ExpireSession(conn.SessionID())
	fmt.Println((<-gone).Type)
	// Output:
	// EventNodeDeleted
}
