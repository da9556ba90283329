package embedded_test

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// A journal is a log that tests can read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func logged(t *testing.T, opts ...embedded.Option) (*embedded.Server, *journal) {
	j := new(journal)
	return start(t, append(opts, embedded.WithLogger(slog.New(slog.NewTextHandler(j, nil))))...), j
}

func TestFramesThatEndTheConnection(t *testing.T) {
	srv, j := logged(t)
	witness := connect(t, srv)
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	frames := map[string][]byte{
		"frame of -1 bytes":          length(0xffffffff),
		"frame of -2147483648 bytes": length(0x80000000),
		"frame of 2147483647 bytes":  length(0x7fffffff),
		"frame of 1048576 bytes":     length(0x100000),
		"malformed record":           wire.AppendFrame(nil, new(wire.Empty)),
	}
	for _, frame := range frames {
		c := connect(t, srv)
		c.write(frame)
		c.gone()
		c = dial(t, srv)
		c.write(frame)
		c.gone()
		witness.sync()
	}
	c := connect(t, srv) // cut in the middle
	c.write(append(length(100), 1, 2, 3))
	c.nc.Close()
	witness.sync()
	srv.Close()
	for reason := range frames {
		if !strings.Contains(j.String(), reason) {
			t.Errorf("the log does not say %q:\n%s", reason, j)
		}
	}
}

func TestLongestFrame(t *testing.T) {
	srv, _ := logged(t, embedded.WithMaxBuffer(1000))
	c := connect(t, srv)
	overhead := len(wire.Append(nil, &wire.RequestHeader{}, &wire.CreateRequest{Path: "/x", ACL: openACL}))
	c.create("/x", strings.Repeat("x", 1000-overhead), wire.ModePersistent)
	c.send(wire.OpSetData, &wire.SetDataRequest{Path: "/x", Data: make([]byte, 1000), Version: -1})
	c.gone()
}

// Random requests of every operation, and random bytes in them: the server
// answers or hangs up, and others notice nothing.
func TestGarbage(t *testing.T) {
	srv := start(t)
	witness := connect(t, srv)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := connect(t, srv)
		for range 10 {
			body := make([]byte, rnd.IntN(64))
			for i := range body {
				if rnd.IntN(3) == 0 {
					body[i] = byte(rnd.Uint32())
				}
			}
			frame := wire.AppendFrame(nil, &wire.RequestHeader{Xid: 1, Op: wire.OpCode(rnd.IntN(125) - 12)})
			frame = append(frame, body...)
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			if _, err := c.nc.Write(frame); err != nil {
				break
			}
		}
		c.nc.Close()
	}
	witness.sync()
}

func TestGarbageInsteadOfAConnectRequest(t *testing.T) {
	srv := start(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		c := dial(t, srv)
		b := make([]byte, 4+rnd.IntN(60))
		for i := 4; i < len(b); i++ {
			b[i] = byte(rnd.Uint32())
		}
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		c.write(b)
		c.nc.Close()
	}
	connect(t, srv).sync()
}

// A client that leaves its events and replies unread does not hold up others,
// and is cut off once too much waits for it.
func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t)
		deaf, busy := connect(t, srv), connect(t, srv)
		long := "/" + strings.Repeat("x", 500_000)
		busy.create(long, "", wire.ModePersistent)
		deaf.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: long, Type: wire.AddWatchPersistent}, new(wire.ErrorResponse))
		for range 100 { // 50 MB of events
			busy.set(long, "")
		}
		synctest.Wait()
		if !srv.Sessions()[0].Connected {
			t.Fatal("it was cut off too early")
		}
		for range 40 {
			busy.set(long, "")
		}
		synctest.Wait()
		if srv.Sessions()[0].Connected || !strings.Contains(j.String(), "client does not read") {
			t.Errorf("70 MB of events wait for it; log: %s", j)
		}
		if !srv.Sessions()[1].Connected {
			t.Error("the other was cut off")
		}
	})
}

// Requests of a client that does not read its replies are not taken beyond a
// limit.
func TestRequestsAreTakenAsRepliesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		c := connect(t, srv)
		c.create("/big", strings.Repeat("x", 1_000_000), wire.ModePersistent)
		taken := 0
		remove := srv.OnRequest(func(embedded.Request) embedded.Verdict { taken++; return embedded.Pass })
		defer remove()
		for range 20 {
			c.send(wire.OpGetData, &wire.PathWatchRequest{Path: "/big"})
		}
		synctest.Wait()
		if taken > 10 {
			t.Errorf("%d requests of 1 MB each were taken", taken)
		}
		for i := range int32(20) {
			if code, err := c.receive(i+2, new(wire.GetDataResponse)); code != 0 || err != nil {
				t.Fatal(code, err)
			}
		}
	})
}

func TestConnectionWithoutASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j := logged(t)
		c := dial(t, srv)
		c.deadline = time.Minute
		began := time.Now()
		c.gone()
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("closed after %v", d)
		}
		srv.Close()
		if !strings.Contains(j.String(), "no connect request") {
			t.Errorf("log: %s", j)
		}
	})
}

// A request may claim to hold more than it does, and hold more than it claims:
// no memory is set aside for a claim, and what is behind a record is ignored,
// as a real server does.
func TestHugeClaims(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	claim := binary.BigEndian.AppendUint32(nil, 1<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		for _, op := range []wire.OpCode{
			wire.OpCreate, wire.OpSetData, wire.OpSetACL, wire.OpSetWatches, wire.OpSetWatches2, wire.OpMulti, wire.OpGetData,
		} {
			header := wire.Append(nil, &wire.RequestHeader{Xid: 5, Op: op})
			for _, body := range [][]byte{claim, slices.Concat(make([]byte, 8), claim), slices.Concat(make([]byte, 4), claim)} {
				c.write(frameOf(slices.Concat(header, body)))
				if _, err := c.frame(); err != nil {
					t.Fatal(op, err)
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 200<<20 {
		t.Errorf("%d MB were set aside for 21,000 short requests", grown>>20)
	}
	c.write(append(frameOf(append(wire.Append(nil, &wire.RequestHeader{Xid: 6, Op: wire.OpExists}, &wire.PathWatchRequest{Path: "/"}), "garbage"...)),
		wire.AppendFrame(nil, &wire.RequestHeader{Xid: 7, Op: wire.OpSync}, &wire.PathRequest{Path: "/"})...))
	if code, err := c.receive(6, new(wire.StatResponse)); code != 0 || err != nil {
		t.Errorf("exists with garbage behind: %v, %v", code, err)
	}
	if code, err := c.receive(7, new(wire.PathRequest)); code != 0 || err != nil {
		t.Errorf("the request after that: %v, %v", code, err)
	}
}

// While clients of all evil kinds are there, others are served as ever, and
// the log says why each was closed.
func TestHostileClientsDisturbNobody(t *testing.T) {
	srv, j := logged(t)
	addr := must(srv.Listen("127.0.0.1:0")).String()
	witness := wrap(t, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 30_000})
	witness.create("/big", strings.Repeat("x", 500_000), wire.ModePersistent)
	hello := wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16)})
	get := wire.AppendFrame(nil, &wire.RequestHeader{Xid: 1, Op: wire.OpGetData}, &wire.PathWatchRequest{Path: "/big", Watch: true})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 10 {
		for _, stream := range [][]byte{
			nil,    // sends nothing
			{0, 0}, // begins to
			append(slices.Clone(hello), bytes.Repeat(get, 100)...),          // never reads
			append(slices.Clone(hello), 0x7f, 0xff, 0xff, 0xff),             // giant
			append(slices.Clone(hello), 0, 0x0f, 0xff, 0xff, 1, 2, 3, 4),    // promises a megabyte
			append(slices.Clone(hello), 0, 0, 0, 3, 1, 2, 3),                // no header
			append(slices.Clone(hello), 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 9, 9), // no such operation
		} {
			must(wrap(t, must(net.Dial("tcp", addr))).nc.Write(stream))
		}
	}
	slowest := time.Duration(0)
	for range 500 {
		began := time.Now()
		witness.stat("/big")
		slowest = max(slowest, time.Since(began))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("slowest of 500 requests %v, heap grown by %d KB with 70 hostile connections", slowest, (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>10)
	if slowest > time.Second {
		t.Errorf("a request took %v", slowest)
	}
	// Of 100 replies of half a megabyte, a client that does not read has two waiting.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10*2<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
	srv.Close()
	for _, reason := range []string{"frame of 2147483647 bytes", "malformed record", "no such operation: 2313"} {
		if !strings.Contains(j.String(), reason) {
			t.Errorf("the log does not say %q", reason)
		}
	}
}
