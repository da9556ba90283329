package recipes_test

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func ExampleInterProcessMultiLock() {
	client, stop := start()
	defer stop()

	// In whatever order two transfers name the accounts, they take the locks in
	// the same order.
	accounts := recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{
		recipes.NewInterProcessMutex(client, "/accounts/4711"),
		recipes.NewInterProcessMutex(client, "/accounts/42"),
	})
	err := accounts.Do(context.Background(), func(ctx context.Context, lease *recipes.MultiLease) error {
		for _, l := range lease.Leases() {
			parent, _ := framework.SplitPath(l.Path())
			fmt.Println("holds", parent)
		}
		// The write takes place only while all the locks are held.
		write := framework.CreateOp("/transfer", nil, framework.Persistent)
		_, err := client.Multi(ctx, append(lease.Checks(), write)...)
		return err
	})
	fmt.Println("error:", err)
	// Output:
	// holds /accounts/42
	// holds /accounts/4711
	// error: <nil>
}
