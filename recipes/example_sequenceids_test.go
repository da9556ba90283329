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
	invoices := recipes.NewSequenceIDs(client, "/ids/invoices")
	for range 3 {
		n, err := invoices.Next(ctx)
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
