package apache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
)

// Three servers elect a leader; when it is killed, another one takes over.
func ExampleStart() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ens, err := apache.Start(ctx, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ens.Close()

	first, err := ens.Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := first.Kill(); err != nil {
		fmt.Println(err)
		return
	}
	second, err := ens.Leader(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("server %d took over from server %d\n", second.ID(), first.ID())
}
