package recipes_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func ExampleInterProcessSemaphore() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	encoders := recipes.NewInterProcessSemaphore(client, "/limits/encoders", recipes.FixedLimit(3))
	leases, err := encoders.AcquireN(ctx, 2) // both at once, or none
	if err != nil {
		panic(err)
	}
	defer leases.Release()

	_, err = encoders.TryAcquireN(ctx, 2)
	fmt.Println("two more:", errors.Is(err, recipes.ErrHeld))
	err = encoders.Do(ctx, func(context.Context, *recipes.Lease) error {
		fmt.Println("but one")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// two more: true
	// but one
	// error: <nil>
}

// The limit is a number that all processes share, and that an operator changes
// while they work.
func ExampleSharedLimit() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	atOnce := recipes.NewSharedCount(client, "/limits/encoders-at-once", 1)
	encoders := recipes.NewInterProcessSemaphore(client, "/limits/encoders", recipes.SharedLimit(atOnce))
	first, err := encoders.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	defer first.Release()

	granted := make(chan *recipes.Lease)
	go func() {
		second, err := encoders.Acquire(ctx) // waits
		if err != nil {
			panic(err)
		}
		granted <- second
	}()
	if err := atOnce.Set(ctx, 2); err != nil {
		panic(err)
	}
	second := <-granted
	fmt.Println("both are held:", first.Err() == nil && second.Err() == nil)
	fmt.Println("released:", second.Release() == nil)
	// Output:
	// both are held: true
	// released: true
}

// What needs several permits is given all of them for as long as it runs.
func ExampleInterProcessSemaphore_DoN() {
	client, stop := start()
	defer stop()

	encoders := recipes.NewInterProcessSemaphore(client, "/limits/encoders", recipes.FixedLimit(3))
	err := encoders.DoN(context.Background(), 2, func(ctx context.Context, leases recipes.Leases) error {
		_, err := client.Multi(ctx, append(leases.Checks(),
			framework.CreateOp("/encoding", nil, framework.Persistent))...) // only while both are held
		fmt.Println(len(leases), "permits, error:", err)
		return leases.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// 2 permits, error: <nil>
	// error: <nil>
}

func ExampleSharedCount_TrySet() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	count := recipes.NewSharedCount(client, "/limits/encoders-at-once", 8)
	double := func() error {
		for {
			value, version, err := count.Get(ctx)
			if err != nil {
				return err
			}
			err = count.TrySet(ctx, version, 2*value)
			if !errors.Is(err, framework.ErrBadVersion) { // else somebody was faster
				return err
			}
		}
	}
	fmt.Println("error:", double())
	value, _, err := count.Get(ctx)
	fmt.Println(value, err)
	// Output:
	// error: <nil>
	// 16 <nil>
}

// A lock that its holder cannot enter again, and that any goroutine may
// release.
func ExampleInterProcessSemaphoreMutex() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessSemaphoreMutex(client, "/locks/migration")
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	_, err = mutex.Acquire(lease.Context(ctx))
	fmt.Println("waits for itself:", errors.Is(err, recipes.ErrDeadlock))
	done := make(chan error)
	go func() { done <- lease.Release() }()
	fmt.Println("released:", <-done == nil)
	// Output:
	// waits for itself: true
	// released: true
}
