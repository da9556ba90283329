package recipes_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/recipes"
)

// wideLayout has more sequence numbers than a machine can make.
func wideLayout() recipes.Layout {
	l := recipes.DefaultLayout()
	l.TimeBits, l.WorkerBits, l.SequenceBits = 39, 4, 20
	return l
}

func benchIDs(b *testing.B, layout recipes.Layout) *recipes.Snowflake {
	b.Helper()
	srv, err := embedded.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { srv.Close() })
	workers := recipes.NewWorkerIDs(benchClient(b, srv), idRoot, recipes.WithLayout(layout))
	ids := recipes.NewSnowflake(workers, recipes.WithMaxLead(100*time.Millisecond))
	b.Cleanup(func() { ids.Close() })
	// What may be borrowed from the time ahead does not count.
	for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
		if _, err := ids.NextN(b.Context(), 4096); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// BenchmarkSnowflakeNext makes IDs of the default layout, whose own limit is
// 244 ns each, and of one without such a limit.
func BenchmarkSnowflakeNext(b *testing.B) {
	for _, l := range []struct {
		name   string
		layout recipes.Layout
	}{{"default", recipes.DefaultLayout()}, {"wide", wideLayout()}} {
		for _, n := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", l.name, n), func(b *testing.B) {
				ids := benchIDs(b, l.layout)
				ctx := b.Context()
				b.ReportAllocs()
				b.ResetTimer()
				var work sync.WaitGroup
				for i := range n {
					share := b.N / n
					if i == 0 {
						share += b.N % n
					}
					work.Go(func() {
						for range share {
							if _, err := ids.Next(ctx); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				work.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mids/s")
			})
		}
	}
}
