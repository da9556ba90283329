package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// clientOf returns a client of srv that needs no socket: a server is an
// ensemble. For clients in other processes there is Listen.
func clientOf(srv *embedded.Server) *framework.Client {
	client, err := framework.New(srv)
	if err == nil {
		err = client.Start()
	}
	if err == nil {
		err = client.WaitConnected(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func Example() {
	srv, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client := clientOf(srv)
	defer client.Close()

	made, err := client.Create(context.Background(), "/greeting", []byte("hello"))
	fmt.Println(made.Path, err)
	fmt.Print(srv.Dump())
	// Output:
	// /greeting <nil>
	// / 0 persistent
	// /greeting 5 persistent
}

// The create is carried out and its reply lost. The client cannot tell, tries
// again, and meets its own first try: what it says is that the outcome is
// unknown, unless it was told how to recognise its own work.
func ExampleServer_LoseReply() {
	srv, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client := clientOf(srv)
	defer client.Close()
	ctx := context.Background()

	lost := srv.LoseReply(func(r embedded.Request) bool { return r.Op == "create2" && r.Path == "/job" })
	_, err = client.Create(ctx, "/job", []byte("mine"))
	<-lost
	fmt.Println(errors.Is(err, framework.ErrNodeExists), framework.IsUnknown(err))

	lost = srv.LoseReply(func(r embedded.Request) bool { return r.Op == "create2" && r.Path == "/task" })
	_, err = client.Create(ctx, "/task", []byte("mine"), framework.Idempotent())
	<-lost
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}

// A request is held at an exact step, and meanwhile the world changes.
func ExampleServer_OnRequest() {
	srv, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client, other := clientOf(srv), clientOf(srv)
	defer client.Close()
	defer other.Close()
	ctx := context.Background()

	arrived, proceed := make(chan struct{}), make(chan struct{})
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op == "delete" {
			close(arrived)
			<-proceed
		}
		return embedded.Pass
	})
	defer remove()

	if _, err := client.Create(ctx, "/n", nil); err != nil {
		log.Fatal(err)
	}
	deleted := make(chan error)
	go func() { deleted <- client.Delete(ctx, "/n", 0) }()
	<-arrived
	if _, err := other.Set(ctx, "/n", []byte("news"), 0); err != nil {
		log.Fatal(err)
	}
	close(proceed)
	fmt.Println(errors.Is(<-deleted, framework.ErrBadVersion))
	// Output:
	// true
}

// A session ends when the test says so, not when a timeout does.
func ExampleServer_ExpireSession() {
	srv, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client, other := clientOf(srv), clientOf(srv)
	defer client.Close()
	defer other.Close()
	ctx := context.Background()

	if _, err := client.Create(ctx, "/worker", nil, framework.WithMode(framework.Ephemeral)); err != nil {
		log.Fatal(err)
	}
	_, _, watch, err := other.GetW(ctx, "/worker")
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.ExpireSession(client.Session().ID()); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-watch.Event()).Type)
	// Output:
	// deleted
}
