package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// lead does one step after the other for as long as the lease lasts. It looks
// at the context before each: after a pause of the process, tick may come
// first.
func lead(ctx context.Context, tick <-chan time.Time, step func(ctx context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
}

// serve has the process work whenever it holds the lock, until ctx is done or
// something fails that will not pass. A lost lock, or servers that are away, are
// no reason to end: it stands in line again.
func serve(ctx context.Context, mutex *recipes.InterProcessMutex, work func(context.Context, *recipes.Lease) error) error {
	for {
		err := mutex.Do(ctx, work)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, recipes.ErrClosed):
			return err // the client's end is final
		case errors.Is(err, recipes.ErrLost), framework.IsRetryable(err):
			continue // Acquire waits for servers, so that this is no busy loop
		default:
			return err
		}
	}
}

// A service that works in one process at a time, for as long as the program
// runs.
func ExampleInterProcessMutex_service() {
	client, stop := start()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	mutex := recipes.NewInterProcessMutex(client, "/services/reports")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	turns := 0
	err := serve(ctx, mutex, func(ctx context.Context, lease *recipes.Lease) error {
		fmt.Println("leading")
		turns++
		return lead(ctx, tick.C, func(ctx context.Context) error {
			if turns > 1 {
				cancel() // the program is to end
				return nil
			}
			// The lock is lost, as if an administrator had taken it away.
			err := client.Delete(ctx, lease.Path(), framework.AnyVersion)
			<-ctx.Done()
			return err
		})
	})
	fmt.Println("ended:", errors.Is(err, context.Canceled))
	// Output:
	// leading
	// leading
	// ended: true
}

func ExampleLease_Check() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	if _, err := client.Create(ctx, "/report", nil); err != nil {
		panic(err)
	}
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	check := lease.Check() // taken while the lock is held
	write := framework.SetOp("/report", []byte("done"), framework.AnyVersion)
	_, err = client.Multi(ctx, check, write)
	fmt.Println("the holder writes:", err == nil)

	if err := lease.Release(); err != nil { // or lost, without the writer's knowing it yet
		panic(err)
	}
	_, err = client.Multi(ctx, check, write)
	fmt.Println("one who held is refused:", errors.Is(err, recipes.ErrLost))
	// Output:
	// the holder writes: true
	// one who held is refused: true
}

func ExampleRevoke() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report", recipes.EndWhenRevoked())
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	// Somebody else, who needs the lock more, asks the first in line for it.
	line, err := mutex.Participants(ctx)
	if err != nil {
		panic(err)
	}
	if err := recipes.Revoke(ctx, client, line[0].Path); err != nil {
		panic(err)
	}

	<-lease.Done() // the holder stops its work, and then releases
	fmt.Println("the lease is", lease.State())
	fmt.Println("released:", lease.Release() == nil)
	// Output:
	// the lease is revoked
	// released: true
}
