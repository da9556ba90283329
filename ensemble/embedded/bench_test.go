package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// BenchmarkStart measures from nothing to the first session, over the pipe.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		srv, err := embedded.Start()
		if err != nil {
			b.Fatal(err)
		}
		connect(b, srv).nc.Close()
		srv.Close()
	}
}

// BenchmarkMixed measures requests of which 70 % read, 20 % set and 10 %
// create or delete, from 64 clients that each wait for their replies, over
// TCP. With -compare it measures the server at that address instead.
func BenchmarkMixed(b *testing.B) {
	address := ""
	if address == "" {
		addr, err := start(b).Listen("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		address = addr.String()
	}
	clients := make([]*client, 64)
	for i := range clients {
		clients[i] = wrap(b, must(net.Dial("tcp", address))).open(&wire.ConnectRequest{TimeoutMillis: 30_000, Password: make([]byte, 16)})
		clients[i].create(fmt.Sprintf("/bench%d", i), "0123456789", wire.ModeEphemeral)
	}
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			path := fmt.Sprintf("/bench%d", i)
			for left.Add(-1) >= 0 {
				switch n := rand.IntN(20); {
				case n < 14:
					c.get(path, false)
				case n < 18:
					c.set(path, "0123456789")
				default:
					c.create(path+"-x", "", wire.ModePersistent)
					c.delete(path + "-x")
					left.Add(-1)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	for _, c := range clients {
		c.ok(wire.OpCloseSession, new(wire.Empty), nil)
	}
}
