package recipes_test

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/recipes"
)

// Numbers that rise among all processes, whoever asks.
func ExampleSequenceIDs() {
	ctx := context.Background()
	client, stop := start()
	defer stop()
	tickets := recipes.NewSequenceIDs(client, "/ids/tickets")
	for range 3 {
		n, err := tickets.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("invoice", n)
	}
	// Output:
	// invoice 0
	// invoice 1
	// invoice 2
}
