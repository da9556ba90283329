package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/batonzk/baton/ensemble/embedded"
)

// open lets anyone do anything.
var open = zk.WorldACL(zk.PermAll)

// example starts a server and a client of it.
func example(opts ...embedded.Option) (srv *embedded.Server, conn *zk.Conn, end func()) {
	srv, err := embedded.Start(opts...)
	if err != nil {
		panic(err)
	}
	conn = dialTo(srv)
	return srv, conn, func() { conn.Close(); srv.Close() }
}

// The connection breaks; the session and its nodes live on.
func ExampleServer_DropConnections() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/worker", nil, zk.FlagEphemeral, open)
	srv.DropConnections(conn.SessionID())
	node, there := srv.Node("/worker")
	fmt.Println(there, node.Owner == conn.SessionID())
	// Output:
	// true true
}

// Nobody gets through, for a while.
func ExampleServer_Refuse() {
	srv, _, end := example()
	defer end()
	srv.Refuse(true)
	_, err := srv.DialContext(context.Background(), "", "")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	srv.Refuse(false)
	nc, err := srv.DialContext(context.Background(), "", "")
	fmt.Println(err)
	nc.Close()
	// Output:
	// true
	// <nil>
}

// The network is slow for one session.
func ExampleServer_Delay() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Sync("/")
	stop := srv.Delay(20*time.Millisecond, conn.SessionID())
	began := time.Now()
	_, _ = conn.Sync("/")
	fmt.Println(time.Since(began) >= 20*time.Millisecond)
	stop()
	// Output:
	// true
}

// The server's process is stopped, and goes on.
func ExampleServer_Freeze() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Sync("/")
	srv.Freeze()
	created := make(chan error)
	go func() {
		_, err := conn.Create("/late", nil, 0, open)
		created <- err
	}()
	_, there := srv.Node("/late")
	fmt.Println("while it stands still:", there)
	srv.Unfreeze()
	fmt.Println(<-created)
	// Output:
	// while it stands still: false
	// <nil>
}

// A client hears nothing more, and loses its session without knowing.
func ExampleServer_Silence() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/worker", nil, zk.FlagEphemeral, open)
	srv.Silence(conn.SessionID())
	srv.Advance(time.Minute)
	_, there := srv.Node("/worker")
	fmt.Println("there:", there, "connection:", conn.State())
	srv.Unsilence()
	// Output:
	// there: false connection: StateHasSession
}

// The connection breaks before the create is carried out.
func ExampleServer_CutBefore() {
	srv, conn, end := example()
	defer end()
	cut := srv.CutBefore(func(r embedded.Request) bool { return r.Op == "create" && r.Path == "/job" })
	_, err := conn.Create("/job", nil, 0, open)
	<-cut
	_, there := srv.Node("/job")
	fmt.Println(err, there)
	// Output:
	// zk: connection closed false
}

// Each third read fails, though it was carried out.
func ExampleServer_OnReply() {
	srv, conn, end := example()
	defer end()
	reads := 0
	remove := srv.OnReply(func(r embedded.Request) embedded.Verdict {
		if r.Op != "getData" {
			return embedded.Pass
		}
		if reads++; reads%3 != 0 {
			return embedded.Pass
		}
		return embedded.Answer(-7) // operation timeout
	})
	defer remove()
	for range 3 {
		_, _, err := conn.Get("/")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// unknown error: -7
}

// A server that cannot do a thing says so.
func ExampleAnswer() {
	srv, conn, end := example()
	defer end()
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op == "delete" {
			return embedded.Answer(-102) // NoAuth
		}
		return embedded.Pass
	})
	defer remove()
	_, _ = conn.Create("/n", nil, 0, open)
	fmt.Println(conn.Delete("/n", -1))
	// Output:
	// zk: not authenticated
}

// A client reads from a follower that has fallen behind, until a sync.
func ExampleServer_Lag() {
	srv, conn, end := example()
	defer end()
	other := dialTo(srv)
	defer other.Close()
	_, _ = conn.Create("/config", []byte("old"), 0, open)

	srv.Lag(conn.SessionID())
	_, _ = other.Set("/config", []byte("new"), 0)
	data, _, _ := conn.Get("/config")
	fmt.Printf("%s\n", data)
	_, _ = conn.Sync("/config")
	data, _, _ = conn.Get("/config")
	fmt.Printf("%s\n", data)
	// Output:
	// old
	// new
}

// The follower catches up by itself: the watch fires now.
func ExampleServer_CatchUp() {
	srv, conn, end := example()
	defer end()
	other := dialTo(srv)
	defer other.Close()
	_, _ = conn.Create("/config", []byte("old"), 0, open)
	srv.Lag(conn.SessionID())
	_, _ = other.Set("/config", []byte("new"), 0)
	data, _, changed, _ := conn.GetW("/config")
	srv.CatchUp()
	fmt.Printf("%s, then %v\n", data, (<-changed).Type)
	// Output:
	// old, then EventNodeDataChanged
}

// A container is deleted when it has lost its last child: here, not up to a
// minute later.
func ExampleServer_ReapContainers() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.CreateContainer("/lock", nil, zk.FlagContainer, open)
	_, _ = conn.Create("/lock/x", nil, 0, open)
	_ = conn.Delete("/lock/x", 0)
	srv.ReapContainers()
	_, there := srv.Node("/lock")
	fmt.Println(there)
	// Output:
	// false
}

// The two billionth lock is near.
func ExampleServer_SetSequence() {
	srv, conn, end := example(embedded.WithWrappingSequence())
	defer end()
	_, _ = conn.Create("/locks", nil, 0, open)
	_ = srv.SetSequence("/locks", 2147483647)
	for range 2 {
		path, _ := conn.Create("/locks/lock-", nil, zk.FlagSequence, open)
		fmt.Println(path)
	}
	// Output:
	// /locks/lock-2147483647
	// /locks/lock--2147483648
}

// A node with a TTL of an hour is gone at once.
func ExampleServer_Advance() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.CreateTTL("/hour", nil, zk.FlagTTL, open, time.Hour)
	srv.Advance(61 * time.Minute)
	_, there := srv.Node("/hour")
	fmt.Println(there)
	// Output:
	// false
}

// What a test looks at, past the client.
func ExampleServer_Node() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/jobs", []byte("3"), 0, open)
	_, _ = conn.Create("/jobs/a", nil, zk.FlagEphemeral, open)
	node, _ := srv.Node("/jobs")
	fmt.Printf("%s %q %s %v, next %d\n", node.Path, node.Data, node.Mode, node.Children, node.Sequence)
	// Output:
	// /jobs "3" persistent [a], next 1
}

// Nobody should be left.
func ExampleServer_Sessions() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/worker", nil, zk.FlagEphemeral, open)
	for _, session := range srv.Sessions() {
		fmt.Println(session.Timeout, session.Connected, session.Ephemerals)
	}
	// Output:
	// 10s true [/worker]
}

// A waiter watches its predecessor, and nothing else.
func ExampleServer_Watches() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/first", nil, 0, open)
	_, _, _, _ = conn.GetW("/first")
	for _, watch := range srv.Watches() {
		fmt.Println(watch.Path, watch.Kind, watch.Mode)
	}
	fmt.Println(srv.WatchCount())
	// Output:
	// /first data one-shot
	// 1
}

// The tree as text, to be compared or printed.
func ExampleServer_Dump() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/a", []byte("abc"), 0, open)
	_, _ = conn.CreateContainer("/a/locks", nil, zk.FlagContainer, open)
	fmt.Print(srv.Dump())
	// Output:
	// / 0 persistent
	// /a 3 persistent
	// /a/locks 0 container
}

// A process that is nothing but a server, for tests in any language.
func ExampleServe() {
	l, err := net.Listen("tcp", "127.0.0.1:2181")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(embedded.Serve(l))
}

// What was sent while the server was silent is carried out when it is over.
func ExampleServer_Unsilence() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Sync("/")
	srv.Silence()
	created := make(chan error)
	go func() {
		_, err := conn.Create("/late", nil, 0, open)
		created <- err
	}()
	srv.Unsilence()
	fmt.Println(<-created)
	// Output:
	// <nil>
}

// Sessions whose time has passed while the server stood still expire first.
func ExampleServer_Unfreeze() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/worker", nil, zk.FlagEphemeral, open)
	srv.Freeze()
	srv.Advance(time.Minute)
	fmt.Println("frozen:", len(srv.Sessions()))
	srv.Unfreeze()
	_, there := srv.Node("/worker")
	fmt.Println("after that:", there)
	// Output:
	// frozen: 1
	// after that: false
}

// A watch that nobody waits for any more is a leak.
func ExampleServer_WatchCount() {
	srv, conn, end := example()
	defer end()
	_, _ = conn.Create("/first", nil, 0, open)
	_, _, _, _ = conn.GetW("/first")
	fmt.Println(srv.WatchCount())
	_, _ = conn.Set("/first", nil, -1)
	fmt.Println(srv.WatchCount())
	// Output:
	// 1
	// 0
}

// Clients in other processes and languages need an address.
func ExampleServer_Listen() {
	srv, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("ruok"))
	answer, _ := io.ReadAll(conn)
	fmt.Printf("%s\n", answer)
	// Output:
	// imok
}
