package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/recipes"
)

func ExampleSnowflake() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	ids := recipes.NewSnowflake(recipes.NewWorkerIDs(client, "/ids/orders"), recipes.WithReclaim())
	if err := ids.Start(ctx); err != nil { // a number for this process
		panic(err)
	}
	defer ids.Close()

	first, err := ids.Next(ctx)
	if err != nil {
		panic(err)
	}
	more, err := ids.NextN(ctx, 3)
	if err != nil {
		panic(err)
	}
	fmt.Println("rising:", first < more[0] && more[0] < more[1] && more[1] < more[2])
	fmt.Println("as text, too:", first.String() < more[0].String())

	layout := recipes.DefaultLayout()
	fmt.Println("of this worker:", first.Worker(layout) == ids.Worker().ID())
	fmt.Println("of now:", time.Since(first.Time(layout)) < time.Minute)
	// Output:
	// rising: true
	// as text, too: true
	// of this worker: true
	// of now: true
}

// A number for each process, for whatever needs one.
func ExampleWorkerIDs() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	workers := recipes.NewWorkerIDs(client, "/ids/shards", recipes.WithRange(0, 2), recipes.WithPreferred(1))
	worker, err := workers.Claim(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("number", worker.ID())
	ctx = worker.Context(ctx) // ends with the claim

	for range 2 {
		other, err := workers.Claim(ctx) // as other processes do
		if err != nil {
			panic(err)
		}
		defer other.Release()
	}
	_, err = workers.Claim(ctx)
	var full *recipes.NoWorkerSlotError
	if errors.As(err, &full) {
		fmt.Printf("%d of %d in use\n", full.Live, full.Total)
	}
	fmt.Println("released:", worker.Release())
	fmt.Println("over:", errors.Is(context.Cause(ctx), recipes.ErrReleased))
	// Output:
	// number 1
	// 3 of 3 in use
	// released: <nil>
	// over: true
}

// What an ID says, from a log or a ticket.
func ExampleLayout_Describe() {
	id, err := recipes.ParseID("0716JNBJ0NAG0")
	if err != nil {
		panic(err)
	}
	fmt.Println(recipes.DefaultLayout().Describe(id))
	// Output:
	// 0716JNBJ0NAG0: 2026-12-01T16:33:22.832Z, worker 170, sequence 2560
}
