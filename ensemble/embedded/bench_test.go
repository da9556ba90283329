package embedded_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/internal/wire"
)

// All benchmarks, on both servers in one run:
//
//	BATON_APACHE=1 go test ./ensemble/embedded -run '^$' -bench . -benchtime 2s

// realServer returns the address of a real server without fsync, if real
// servers are turned on. It has what a server in production has: all of its
// compiler, and memory.
func realServer(b *testing.B) string {
	return testenv.StartApache(b, 1, apache.WithFsync(false), apache.WithTick(2*time.Second),
		apache.WithJVM("-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")).Connect()
}

// BenchmarkStart measures from nothing to the first session, of the embedded
// server over the pipe.
func BenchmarkStart(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		for b.Loop() {
			srv := must(embedded.Start())
			connect(b, srv).nc.Close()
			srv.Close()
		}
		if mean := b.Elapsed() / time.Duration(b.N); mean > 5*time.Millisecond {
			b.Errorf("%v from nothing to the first session and the end", mean)
		}
	})
	b.Run("apache", func(b *testing.B) {
		testenv.Apache(b)
		for b.Loop() {
			ens := must(apache.Start(b.Context(), 1))
			wrap(b, must(net.Dial("tcp", ens.Connect()))).open(&wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16)}).nc.Close()
			ens.Close()
		}
	})
}

// BenchmarkMixed measures requests of which 70 % read, 20 % set and 10 %
// create or delete, from 64 clients over TCP that each wait for the replies to
// what they have sent, one request or several. The client is as lean as can
// be: it sends frames that are made beforehand and counts the replies.
//
// Both servers are there, as processes of their own, and get the load in turns.
// Of the ratios of each two turns the median is told, for which it matters
// little what else the machine does. With one request in flight most of the
// time goes into the kernel's part of sending and receiving, and the clients'
// share of it is the same with both; so a bound is set with several in flight.
func BenchmarkMixed(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			b.Run("embedded", func(b *testing.B) {
				newLoad(b, must(start(b).Listen("127.0.0.1:0")).String(), depth).measure(b)
			})
			b.Run("both", func(b *testing.B) { inTurns(b, depth) })
		})
	}
}

// inTurns loads both servers in turns until the benchmark is over.
func inTurns(b *testing.B, depth int) {
	theirs, ours := newLoad(b, realServer(b), depth), newLoad(b, startAlone(b), depth)
	theirs.run(b, 300_000) // for its compiler to be done
	const turn = 8192
	var ratios []float64
	var us, them time.Duration
	for b.Loop() {
		u, t := ours.run(b, turn), theirs.run(b, turn)
		ratios = append(ratios, t.Seconds()/u.Seconds())
		us, them = us+u, them+t
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	n := float64(turn * len(ratios))
	b.ReportMetric(n/us.Seconds(), "embedded/s")
	b.ReportMetric(n/them.Seconds(), "apache/s")
	b.ReportMetric(ratio, "times-apache")
	if depth > 1 && len(ratios) >= 5 && ratio < 3 {
		b.Errorf("%.1f times the requests of the real server, at least 3 are wanted", ratio)
	}
}

// The clients are served by few goroutines, so that there is little to be
// switched: else they take more of the processor than the server does.
const (
	mixedClients    = 64
	mixedGoroutines = 16
)

// A load is the clients of one server.
type load struct {
	clients []*lean
	depth   int
}

func newLoad(b *testing.B, addr string, depth int) *load {
	l := &load{depth: depth}
	for i := range mixedClients {
		l.clients = append(l.clients, newLean(b, addr, i, depth))
	}
	b.Cleanup(func() {
		for _, c := range l.clients {
			c.close()
		}
	})
	return l
}

// measure sends as many requests as the benchmark asks for.
func (l *load) measure(b *testing.B) {
	b.ResetTimer()
	took := l.run(b, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/took.Seconds(), "requests/s")
}

// run sends about n requests and returns how long that took.
func (l *load) run(b *testing.B, n int) time.Duration {
	began := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for group := range slices.Chunk(l.clients, mixedClients/mixedGoroutines) {
		wg.Go(func() {
			each := int64(l.depth * len(group))
			for left.Add(-each) > -each {
				if err := round(group, l.depth); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// A lean client sends batches of requests that are ready to be sent.
type lean struct {
	client  *client
	batches [][]byte
	next    int // batch
}

// newLean opens a session and prepares a thousand requests in batches.
func newLean(b *testing.B, addr string, number, depth int) *lean {
	c := wrap(b, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 30_000, Password: make([]byte, 16)})
	path := fmt.Sprintf("/bench%d", number)
	c.create(path, "0123456789", wire.ModePersistent)
	rnd := rand.New(rand.NewPCG(uint64(number), 1))
	_ = c.nc.SetDeadline(time.Time{})
	l := &lean{client: c}
	var batch []byte
	there := false
	for i := range 1024 {
		header := &wire.RequestHeader{Xid: int32(i + 1)}
		var r wire.Record
		switch n := rnd.IntN(10); {
		case n < 7:
			header.Op, r = wire.OpGetData, &wire.PathWatchRequest{Path: path}
		case n < 9:
			header.Op, r = wire.OpSetData, &wire.SetDataRequest{Path: path, Data: []byte("0123456789"), Version: -1}
		case there:
			header.Op, r = wire.OpDelete, &wire.PathVersionRequest{Path: path + "/x", Version: -1}
			there = false
		default:
			header.Op, r = wire.OpCreate, &wire.CreateRequest{Path: path + "/x", ACL: openACL}
			there = true
		}
		batch = wire.AppendFrame(batch, header, r)
		if (i+1)%depth == 0 {
			l.batches = append(l.batches, batch)
			batch = nil
		}
	}
	return l
}

// round sends the next batch of each client, then takes their n replies each.
func round(clients []*lean, n int) error {
	for _, l := range clients {
		if _, err := l.client.nc.Write(l.batches[l.next]); err != nil {
			return err
		}
		l.next = (l.next + 1) % len(l.batches)
	}
	for _, l := range clients {
		for range n {
			if err := skipFrame(l.client.in); err != nil {
				return err
			}
		}
	}
	return nil
}

func skipFrame(in *bufio.Reader) error {
	header, err := in.Peek(4)
	if err != nil {
		return err
	}
	_, err = in.Discard(4 + int(binary.BigEndian.Uint32(header)))
	return err
}

func (l *lean) close() {
	l.client.ok(wire.OpCloseSession, new(wire.Empty), nil)
	_, _ = io.Copy(io.Discard, l.client.in)
	l.client.nc.Close()
}

// BenchmarkMillion measures the memory of 1,000,000 nodes of 100 bytes.
func BenchmarkMillion(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		srv := start(b)
		fill(b, must(srv.Listen("127.0.0.1:0")).String(), 1_000_000)
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := float64(after.HeapAlloc-before.HeapAlloc) / 1e6
		b.ReportMetric(heap, "MB")
		if heap > 600 {
			b.Errorf("%.0f MB, at most 600 are wanted", heap)
		}
		b.ReportMetric(float64(after.Sys)/1e6, "MB-from-OS")
		srv.Close()
	}
}

// fill makes n nodes of 100 bytes, in folders of a thousand.
func fill(b *testing.B, addr string, n int) {
	c := wrap(b, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 30_000, Password: make([]byte, 16)})
	c.nc.SetDeadline(time.Time{})
	data := make([]byte, 100)
	in := bufio.NewReaderSize(c.nc, 64<<10)
	for folder := range n / 1000 {
		var batch []byte
		path := fmt.Sprintf("/folder%06d", folder)
		batch = wire.AppendFrame(batch, &wire.RequestHeader{Op: wire.OpCreate}, &wire.CreateRequest{Path: path, ACL: openACL})
		for i := range 999 {
			batch = wire.AppendFrame(batch, &wire.RequestHeader{Op: wire.OpCreate},
				&wire.CreateRequest{Path: fmt.Sprintf("%s/node%06d", path, i), Data: data, ACL: openACL})
		}
		must(c.nc.Write(batch))
		for range 1000 {
			if err := skipFrame(in); err != nil {
				b.Fatal(err)
			}
		}
	}
}
