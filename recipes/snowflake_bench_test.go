package recipes_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"

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
// 244 ns each, and of one without such a limit; and, beside it, those of other
// generators, whose limits are 244 ns and 39 µs.
func BenchmarkSnowflakeNext(b *testing.B) {
	for _, g := range []struct {
		name string
		next func(b *testing.B) func() error
	}{
		{"default", func(b *testing.B) func() error { return benchNext(b, recipes.DefaultLayout()) }},
		{"wide", func(b *testing.B) func() error { return benchNext(b, wideLayout()) }},
		{"bwmarrin", func(b *testing.B) func() error {
			node, err := bwmarrin.NewNode(1)
			if err != nil {
				b.Fatal(err)
			}
			return func() error {
				node.Generate()
				return nil
			}
		}},
		{"sonyflake", func(b *testing.B) func() error {
			s, err := sonyflake.New(sonyflake.Settings{MachineID: func() (int, error) { return 1, nil }})
			if err != nil {
				b.Fatal(err)
			}
			return func() error {
				_, err := s.NextID()
				return err
			}
		}},
	} {
		for _, n := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", g.name, n), func(b *testing.B) {
				next := g.next(b)
				b.ReportAllocs()
				b.ResetTimer()
				among(n, b.N, func(share int) {
					for range share {
						if err := next(); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mids/s")
			})
		}
	}
}

func benchNext(b *testing.B, layout recipes.Layout) func() error {
	ids, ctx := benchIDs(b, layout), b.Context()
	return func() error {
		_, err := ids.Next(ctx)
		return err
	}
}

// among shares total among n goroutines.
func among(n, total int, f func(share int)) {
	var work sync.WaitGroup
	for i := range n {
		share := total / n
		if i == 0 {
			share += total % n
		}
		work.Go(func() { f(share) })
	}
	work.Wait()
}

// BenchmarkSnowflakeUnique makes IDs with 64 goroutines and checks that each is
// above the goroutine's last, and none is there twice. For a thousand million,
// which take under a minute and a gigabyte:
//
//	go test -run '^$' -bench SnowflakeUnique -benchtime 1000000000x ./recipes
func BenchmarkSnowflakeUnique(b *testing.B) {
	l := recipes.DefaultLayout()
	l.WorkerBits, l.SequenceBits = 7, 15
	ids, ctx := benchIDs(b, l), b.Context()
	const perUnit = 1 << 15 / 64 // words with a bit for each ID
	first, err := ids.Next(ctx)
	if err != nil {
		b.Fatal(err)
	}
	began := first.Time(l)
	type unit [perUnit]atomic.Uint64
	units := make([]atomic.Pointer[unit], 10*60*1000) // ten minutes
	var twice, falls atomic.Int64
	b.ResetTimer()
	among(64, b.N, func(share int) {
		last := first
		for range share {
			id, err := ids.Next(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			if id <= last {
				falls.Add(1)
			}
			last = id
			at := &units[id.Time(l).Sub(began).Milliseconds()]
			if at.Load() == nil {
				at.CompareAndSwap(nil, new(unit))
			}
			seq := id.Sequence(l)
			if bit := uint64(1) << (seq % 64); at.Load()[seq/64].Or(bit)&bit != 0 {
				twice.Add(1)
			}
		}
	})
	if twice.Load()+falls.Load() > 0 {
		b.Errorf("%d IDs were made twice, %d were not above the last", twice.Load(), falls.Load())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mids/s")
}
