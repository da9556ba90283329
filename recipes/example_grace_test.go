package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func ExampleGraceAfterCrash() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	const grace = 50 * time.Millisecond
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report", recipes.GraceAfterCrash(grace))
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	// The holder loses the lock without having released it.
	if err := client.Delete(ctx, lease.Path(), framework.AnyVersion); err != nil {
		panic(err)
	}
	began := time.Now()
	_, err = mutex.TryAcquire(ctx)
	fmt.Println("closed:", errors.Is(err, recipes.ErrHeld))

	next, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("open after the grace:", time.Since(began) >= grace)
	fmt.Println("released:", next.Release() == nil)
	// Output:
	// closed: true
	// open after the grace: true
	// released: true
}
