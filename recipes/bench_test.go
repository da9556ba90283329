package recipes_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/recipes"
)

// Run with: go test -run '^$' -bench . ./recipes
// and, on a real server as well, with BATON_APACHE=1.

// BenchmarkUncontended acquires and releases a lock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	onServers(b, func(b *testing.B, servers framework.Ensemble) {
		m := recipes.NewInterProcessMutex(benchClient(b, servers), root)
		for b.Loop() {
			benchCycle(b, m)
		}
	})
}

// BenchmarkReentry acquires and releases a lock that the caller holds.
func BenchmarkReentry(b *testing.B) {
	onServers(b, func(b *testing.B, servers framework.Ensemble) {
		m := recipes.NewInterProcessMutex(benchClient(b, servers), root)
		lease, err := m.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer lease.Release()
		ctx := lease.Context(b.Context())
		b.ReportAllocs()
		for b.Loop() {
			again, err := m.Acquire(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if err := again.Release(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHandOff passes a lock between two sessions: from the call of one's
// Release to the return of the other's Acquire, and in turn.
func BenchmarkHandOff(b *testing.B) {
	onServers(b, func(b *testing.B, servers framework.Ensemble) {
		ctx, cancel := context.WithCancel(b.Context())
		other := recipes.NewInterProcessMutex(benchClient(b, servers), root)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				lease, err := other.Acquire(ctx)
				if err != nil {
					return
				}
				_ = lease.Release()
			}
		}()
		m := recipes.NewInterProcessMutex(benchClient(b, servers), root)
		for b.Loop() {
			benchCycle(b, m)
		}
		cancel()
		<-stopped
	})
}

var names atomic.Int64

// BenchmarkParallel has callers of one client, each with a lock of its own.
func BenchmarkParallel(b *testing.B) {
	onServers(b, func(b *testing.B, servers framework.Ensemble) {
		c := benchClient(b, servers)
		benchCycle(b, recipes.NewInterProcessMutex(c, root))
		b.SetParallelism(32)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			m := recipes.NewInterProcessMutex(c, fmt.Sprintf("%s-%d", root, names.Add(1)))
			for pb.Next() {
				benchCycle(b, m)
			}
		})
	})
}

func benchCycle(b *testing.B, m *recipes.InterProcessMutex) {
	lease, err := m.Acquire(b.Context())
	if err != nil {
		b.Error(err)
		return
	}
	if err := lease.Release(); err != nil {
		b.Error(err)
	}
}

func onServers(b *testing.B, f func(b *testing.B, servers framework.Ensemble)) {
	srv, err := embedded.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	address, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	tcp, err := ensemble.NewFixed(address.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("embedded", func(b *testing.B) { f(b, tcp) })
	b.Run("apache", func(b *testing.B) {
		servers, err := ensemble.NewFixed(testenv.StartApache(b, 1).Connect())
		if err != nil {
			b.Fatal(err)
		}
		f(b, servers)
	})
}

func benchClient(b *testing.B, servers framework.Ensemble) *framework.Client {
	c, err := framework.New(servers)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	if err := c.WaitConnected(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}
