package framework_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// serve starts a server and a client for an example. A program would take
// its servers from package ensemble, and look at every error.
func serve() (*framework.Client, func()) {
	srv, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	client, err := framework.New(srv)
	if err != nil {
		panic(err)
	}
	if err := client.Start(); err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		_ = srv.Close()
	}
}

func Example() {
	srv, err := embedded.Start() // or ensemble.NewFixed("zk1,zk2,zk3")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	client, err := framework.New(srv, framework.WithNamespace("app"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if err := client.Start(); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	made, err := client.Create(ctx, "/jobs/first", []byte("hello"), framework.WithParents())
	fmt.Println(made.Path, client.FullPath(made.Path), err)
	_, err = client.Create(ctx, "/jobs/first", nil)
	fmt.Println(errors.Is(err, framework.ErrNodeExists), err)
	data, stat, err := client.Get(ctx, "/jobs/first")
	fmt.Printf("%s, version %d, %v\n", data, stat.Version, err)
	// Output:
	// /jobs/first /app/jobs/first <nil>
	// true create2 /jobs/first: framework: node exists
	// hello, version 0, <nil>
}

func ExampleClient_OnState() {
	client, done := serve()
	connected := make(chan struct{})
	client.OnState(func(change framework.StateChange) {
		fmt.Println(change.State)
		if change.State == framework.Connected {
			close(connected)
		}
	})
	<-connected
	done()
	// Output: Connected
}

func ExampleWatch() {
	client, done := serve()
	defer done()
	ctx := context.Background()
	stat, watch, err := client.ExistsW(ctx, "/config")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("missing:", stat.IsZero())
	defer watch.Stop()
	if _, err := client.Create(ctx, "/config", nil); err != nil {
		fmt.Println(err)
	}
	event := <-watch.Event()
	fmt.Println(event.Type, event.Path)
	// Output:
	// missing: true
	// created /config
}

func ExampleClient_Multi() {
	client, done := serve()
	defer done()
	ctx := context.Background()
	if _, err := client.Create(ctx, "/leader", []byte("me")); err != nil {
		fmt.Println(err)
	}
	// The result is stored only while /leader is what it was.
	results, err := client.Multi(ctx,
		framework.CheckOp("/leader", 0),
		framework.CreateOp("/result-", []byte("42"), framework.PersistentSequential))
	fmt.Println(results[1].Path, err)
	_, err = client.Multi(ctx,
		framework.CheckOp("/leader", 5),
		framework.DeleteOp("/result-0000000001", framework.AnyVersion))
	fmt.Println(err)
	// Output:
	// /result-0000000001 <nil>
	// multi /leader: operation 0: check: framework: version does not match
}

func ExampleProtected() {
	client, done := serve()
	defer done()
	var line []string
	made, err := client.Create(context.Background(), "/lock/place-", nil,
		framework.Protected(), framework.WithMode(framework.EphemeralSequential),
		framework.WithParents(), framework.Siblings(&line))
	fmt.Println(len(made.Path), len(line), err)
	fmt.Println(made.Stat.EphemeralOwner == client.Session().ID())
	// Output:
	// 62 1 <nil>
	// true
}
