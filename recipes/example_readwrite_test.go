package recipes_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/recipes"
)

func ExampleInterProcessReadWriteLock() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	rw := recipes.NewInterProcessReadWriteLock(client, "/locks/catalogue")
	first, err := rw.ReadLock().Acquire(ctx)
	if err != nil {
		panic(err)
	}
	second, err := rw.ReadLock().Acquire(ctx) // another reader
	if err != nil {
		panic(err)
	}
	_, err = rw.WriteLock().TryAcquire(ctx)
	fmt.Println("a writer beside readers:", !errors.Is(err, recipes.ErrHeld))
	_, err = rw.WriteLock().Acquire(first.Context(ctx))
	fmt.Println("a reader that wants to write:", errors.Is(err, recipes.ErrDeadlock))
	fmt.Println("released:", errors.Join(first.Release(), second.Release()) == nil)
	// Output:
	// a writer beside readers: false
	// a reader that wants to write: true
	// released: true
}

// A writer that has changed something reads on, with no other writer in
// between.
func ExampleReadLock_downgrade() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	rw := recipes.NewInterProcessReadWriteLock(client, "/locks/catalogue")
	writing, err := rw.WriteLock().Acquire(ctx)
	if err != nil {
		panic(err)
	}
	// … write …
	reading, err := rw.ReadLock().Acquire(writing.Context(ctx)) // at once
	if err != nil {
		panic(err)
	}
	fmt.Println("the same token:", reading.Token() == writing.Token())
	if err := writing.Release(); err != nil { // from now on others may read
		panic(err)
	}
	// … read, with reading.Context(ctx) …
	fmt.Println("the reader's lease is", reading.State())
	fmt.Println("released:", reading.Release() == nil)
	// Output:
	// the same token: true
	// the reader's lease is held
	// released: true
}

func ExampleWriteLock_Do() {
	client, stop := start()
	defer stop()

	rw := recipes.NewInterProcessReadWriteLock(client, "/locks/catalogue")
	err := rw.WriteLock().Do(context.Background(), func(ctx context.Context, writing *recipes.Lease) error {
		// ctx may read, too, and may write: it re-enters.
		return rw.WriteLock().Do(ctx, func(_ context.Context, again *recipes.Lease) error {
			fmt.Println("the same hold:", again.Path() == writing.Path())
			return nil
		})
	})
	fmt.Println("error:", err)
	// Output:
	// the same hold: true
	// error: <nil>
}
