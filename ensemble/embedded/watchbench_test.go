package embedded_test

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// The watches of BenchmarkWatches.
const (
	watchers     = 100
	watchedNodes = 1000
)

// BenchmarkWatches fires 100,000 watches, of 100 clients on 1,000 nodes each,
// by one multi, and measures how long another client has to wait meanwhile.
//
// That depends on what else the machine does. What the server itself adds does
// not: others wait while the multi is carried out, and for that the processor
// time of the thread that does it is measured, on Linux.
func BenchmarkWatches(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		srv := start(b)
		took := timeMultis(b, srv)
		f := newFiring(b, must(srv.Listen("127.0.0.1:0")).String())
		f.measure(b)
		most := took()
		b.ReportMetric(float64(most.Microseconds())/1000, "ms-CPU-of-multi")
		if most > 50*time.Millisecond {
			b.Errorf("to fire 100,000 watches takes %v of processor time, in which others wait", most)
		}
	})
	b.Run("apache", func(b *testing.B) { newFiring(b, realServer(b)).measure(b) })
}

// timeMultis measures the processor time that multis take from now on. took
// returns the longest.
func timeMultis(b *testing.B, srv *embedded.Server) (took func() time.Duration) {
	var began, most time.Duration // both hooks run in the goroutine of the one client that sends multis
	b.Cleanup(srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Op == "multi" {
			runtime.LockOSThread()
			began = threadTime()
		}
		return embedded.Pass
	}))
	b.Cleanup(srv.OnReply(func(r embedded.Request) embedded.Verdict {
		if r.Op == "multi" {
			most = max(most, threadTime()-began)
			runtime.UnlockOSThread()
		}
		return embedded.Pass
	}))
	return func() time.Duration { return most }
}

// A firing is what BenchmarkWatches needs of one server.
type firing struct {
	writer, witness *client
	watchers        []*client
	change          *wire.MultiRequest // of all nodes that are watched
}

func newFiring(b *testing.B, addr string) *firing {
	open := func() *client {
		c := wrap(b, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 40_000, Password: make([]byte, 16)})
		c.deadline = time.Minute
		return c
	}
	f := &firing{writer: open(), witness: open(), change: new(wire.MultiRequest)}
	for i := range watchedNodes {
		path := fmt.Sprintf("/node%d", i)
		f.writer.create(path, "", wire.ModePersistent)
		f.change.Ops = append(f.change.Ops, wire.Op{Code: wire.OpSetData, Request: &wire.SetDataRequest{Path: path, Version: -1}})
	}
	for range watchers {
		f.watchers = append(f.watchers, open())
	}
	return f
}

// measure fires all watches until the benchmark is over.
func (f *firing) measure(b *testing.B) {
	var slowest, allTold time.Duration
	for b.Loop() {
		eachReads(b, f.watchers, watchEverything())
		f.writer.send(wire.OpMulti, f.change)
		told := make(chan time.Duration)
		go func() {
			began := time.Now()
			eachReads(b, f.watchers, nil)
			told <- time.Since(began)
		}()
		slowest = max(slowest, f.slowest(told, &allTold))
		if _, err := f.writer.receive(f.writer.xid, new(wire.MultiResponse)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest-other")
	b.ReportMetric(float64(allTold.Microseconds())/1000, "ms-all-told")
}

// slowest has the witness ask until all are told, and returns how long it had
// to wait for an answer at most.
func (f *firing) slowest(told <-chan time.Duration, allTold *time.Duration) time.Duration {
	var slowest time.Duration
	for {
		select {
		case d := <-told:
			*allTold = max(*allTold, d)
			return slowest
		default:
			asked := time.Now()
			f.witness.stat("/node1")
			slowest = max(slowest, time.Since(asked))
		}
	}
}

// watchEverything returns requests that leave a watch on each node.
func watchEverything() []byte {
	var batch []byte
	for i := range watchedNodes {
		batch = wire.AppendFrame(batch, &wire.RequestHeader{Xid: 1, Op: wire.OpGetData},
			&wire.PathWatchRequest{Path: fmt.Sprintf("/node%d", i), Watch: true})
	}
	return batch
}

// eachReads has each client send a batch and take one frame for each node.
func eachReads(b *testing.B, clients []*client, batch []byte) {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			_ = c.nc.SetDeadline(time.Now().Add(time.Minute))
			if _, err := c.nc.Write(batch); err != nil {
				b.Error(err)
				return
			}
			for range watchedNodes {
				if err := skipFrame(c.in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkWatcherLeaves measures how long others wait when a client with as
// many watches as it may have hangs up.
func BenchmarkWatcherLeaves(b *testing.B) {
	srv := start(b)
	witness := connect(b, srv)
	var slowest time.Duration
	for b.Loop() {
		b.StopTimer()
		c := connect(b, srv)
		leaveManyWatches(c)
		b.StartTimer()
		c.nc.Close()
		for srv.WatchCount() > 0 {
			asked := time.Now()
			witness.set("/", "")
			slowest = max(slowest, time.Since(asked))
		}
	}
	b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest-other")
}

// leaveManyWatches leaves 500,000 watches of each kind.
func leaveManyWatches(c *client) {
	const each = 10_000
	for i := range 50 {
		r := new(wire.SetWatches2Request)
		for j := range each {
			r.Persistent = append(r.Persistent, fmt.Sprintf("/node%d", i*each+j))
		}
		c.ok(wire.OpSetWatches2, r, nil)
	}
}
