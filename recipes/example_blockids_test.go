package recipes_test

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/recipes"
)

// Order numbers without gaps, for a service of several processes.
func ExampleBlockIDs() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	orders := recipes.NewBlockIDs(client, "/ids/orders", recipes.WithFirst(1000))
	for range 2 {
		n, err := orders.Next(ctx) // nearly always without a request
		if err != nil {
			panic(err)
		}
		fmt.Println("order", n)
	}
	lines, err := orders.NextN(ctx, 3)
	fmt.Println("lines", lines, err)
	fmt.Println(orders.Close()) // gives back what is left

	orders = recipes.NewBlockIDs(client, "/ids/orders")
	defer orders.Close()
	n, err := orders.Next(ctx)
	fmt.Println("order", n, err)
	// Output:
	// order 1000
	// order 1001
	// lines [1002 1003 1004] <nil>
	// <nil>
	// order 1005 <nil>
}
