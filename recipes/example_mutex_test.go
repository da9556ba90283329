package recipes_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// start returns a connected client of a server within the process, and what
// ends both.
func start() (*framework.Client, func()) {
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
		client.Close()
		srv.Close()
	}
}

func ExampleInterProcessMutex() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	defer lease.Release()

	fmt.Println("the lock is", lease.State())
	_, err = mutex.TryAcquire(ctx) // a contender of its own
	fmt.Println("held by another:", errors.Is(err, recipes.ErrHeld))
	again, err := mutex.TryAcquire(lease.Context(ctx)) // re-enters
	if err != nil {
		panic(err)
	}
	fmt.Println("the same token:", again.Token() == lease.Token())
	fmt.Println("released:", again.Release() == nil && lease.Release() == nil)
	// Output:
	// the lock is held
	// held by another: true
	// the same token: true
	// released: true
}

func ExampleInterProcessMutex_Do() {
	client, stop := start()
	defer stop()

	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
	err := mutex.Do(context.Background(), func(ctx context.Context, lease *recipes.Lease) error {
		// ctx ends if the lock is lost. Inside ZooKeeper, a write can depend on
		// the lease; elsewhere, a resource can compare tokens.
		_, err := client.Multi(ctx, lease.Check(), framework.CreateOp("/report", []byte("done"), framework.Persistent))
		return err
	})
	fmt.Println("error:", err)
	// Output:
	// error: <nil>
}

func ExampleInterProcessMutex_Participants() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report", recipes.WithData([]byte("web-3")))
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	defer lease.Release()

	line, err := mutex.Participants(ctx)
	if err != nil {
		panic(err)
	}
	for _, p := range line {
		fmt.Printf("%s holds it: %v\n", p.Data, p.Holder)
	}
	// Output:
	// web-3 holds it: true
}
