package embedded_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// BenchmarkWatches fires 100,000 watches, of 100 clients on 1,000 nodes each,
// by one multi, and measures how long another client has to wait meanwhile.
func BenchmarkWatches(b *testing.B) {
	onBoth(b, func(b *testing.B, addr string) {
		const clients, nodes = 100, 1000
		open := func() *client {
			c := wrap(b, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 40_000, Password: make([]byte, 16)})
			c.deadline = time.Minute
			return c
		}
		writer, witness := open(), open()
		change := new(wire.MultiRequest)
		for i := range nodes {
			path := fmt.Sprintf("/node%d", i)
			writer.create(path, "", wire.ModePersistent)
			change.Ops = append(change.Ops, wire.Op{Code: wire.OpSetData, Request: &wire.SetDataRequest{Path: path, Version: -1}})
		}
		watchers := make([]*client, clients)
		for i := range watchers {
			watchers[i] = open()
		}
		slowest, firing := time.Duration(0), time.Duration(0)
		for b.Loop() {
			watchAll(watchers, nodes)
			fired := make(chan time.Duration)
			began := time.Now()
			go func() {
				var wg sync.WaitGroup
				for _, c := range watchers {
					wg.Go(func() {
						for range nodes {
							if err := skipFrame(c.in); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				fired <- time.Since(began)
			}()
			writer.send(wire.OpMulti, change)
			for done := false; !done; {
				select {
				case d := <-fired:
					firing, done = max(firing, d), true
				default:
					asked := time.Now()
					witness.stat("/node1")
					slowest = max(slowest, time.Since(asked))
				}
			}
			if _, err := writer.receive(writer.xid, new(wire.MultiResponse)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest-other")
		b.ReportMetric(float64(firing.Microseconds())/1000, "ms-all-told")
	})
}

// watchAll has each client leave a watch on each node.
func watchAll(clients []*client, nodes int) {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			_ = c.nc.SetDeadline(time.Now().Add(time.Minute))
			var batch []byte
			for i := range nodes {
				batch = wire.AppendFrame(batch, &wire.RequestHeader{Xid: 1, Op: wire.OpGetData},
					&wire.PathWatchRequest{Path: fmt.Sprintf("/node%d", i), Watch: true})
			}
			must(c.nc.Write(batch))
			for range nodes {
				if err := skipFrame(c.in); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
}
