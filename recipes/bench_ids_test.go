package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/recipes"
)

// BenchmarkBlockIDs takes numbers from blocks, on some goroutines at once, with a
// context that can end and is shared, as is usual.
func BenchmarkBlockIDs(b *testing.B) {
	for _, goroutines := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			srv, err := embedded.Start()
			if err != nil {
				b.Fatal(err)
			}
			defer srv.Close()
			ids := recipes.NewBlockIDs(benchClient(b, srv), idsRoot)
			defer ids.Close()
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range goroutines {
				all.Go(func() {
					for range (b.N + i) / goroutines {
						if _, err := ids.Next(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}

// BenchmarkSequenceIDs asks servers for one number after the other.
func BenchmarkSequenceIDs(b *testing.B) {
	srv, err := embedded.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	ids := recipes.NewSequenceIDs(benchClient(b, srv), idsRoot)
	for b.Loop() {
		if _, err := ids.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
