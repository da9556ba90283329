package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/recipes"
)

func ExampleLease_Revocation() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	heard := make(chan *recipes.Lease)
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report",
		recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l }))
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	err = recipes.Revoke(ctx, client, lease.Path(),
		recipes.WithReason("a deploy"), recipes.WithDeadline(time.Minute))
	if err != nil {
		panic(err)
	}

	request, _ := (<-heard).Revocation()
	fmt.Println("asked because of", request.Reason)
	fmt.Println("in time:", time.Now().Before(request.Deadline))
	fmt.Println("released:", lease.Release() == nil)
	// Output:
	// asked because of a deploy
	// in time: true
	// released: true
}

func ExampleWithForce() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
	lease, err := mutex.Acquire(ctx) // by one who never gives it up
	if err != nil {
		panic(err)
	}
	err = recipes.Revoke(ctx, client, lease.Path(), recipes.WithReason("it hangs"),
		recipes.WithDeadline(10*time.Millisecond), recipes.WithForce())
	if err != nil {
		panic(err)
	}

	next, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("another has it:", next.Release() == nil)
	<-lease.Done()
	fmt.Println("the first one's is", lease.State())
	fmt.Println("and says so:", errors.Is(lease.Release(), recipes.ErrLost))
	// Output:
	// another has it: true
	// the first one's is lost
	// and says so: true
}
