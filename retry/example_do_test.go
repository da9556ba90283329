package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/retry"
)

func ExampleDo() {
	errLost := errors.New("connection lost")
	policy := retry.BoundedExponential(time.Millisecond, 10*time.Millisecond, 5)

	tries := 0
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		tries++
		if tries < 3 {
			return errLost
		}
		return nil
	}, retry.If(func(err error) bool { return errors.Is(err, errLost) }))

	fmt.Println(tries, err)
	// Output: 3 <nil>
}

func ExampleStop() {
	err := retry.Do(context.Background(), retry.Forever(time.Second), func(context.Context) error {
		return retry.Stop(errors.New("not authorised"))
	})
	fmt.Println(err)
	// Output: not authorised
}

// A loop of another shape drives the waits itself.
func ExamplePolicy_Schedule() {
	waits := retry.BoundedExponential(time.Second, 5*time.Second, 4).WithJitter(0).Schedule()
	for {
		wait, ok := waits.Next()
		if !ok {
			break
		}
		fmt.Println(wait)
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 5s
}
