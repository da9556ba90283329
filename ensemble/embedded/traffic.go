package embedded

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// traffic counts what a connection, or the whole server, has carried and how
// long requests took, for the four-letter words.
type traffic struct {
	received, sent atomic.Int64 // frames
	count, total   atomic.Int64 // answered requests, and milliseconds that they took
	least, most    atomic.Int64 // milliseconds plus one; 0 is none
}

func (t *traffic) answered(ms int64) {
	t.count.Add(1)
	t.total.Add(ms)
	ms++
	for old := t.least.Load(); (old == 0 || ms < old) && !t.least.CompareAndSwap(old, ms); old = t.least.Load() {
	}
	for old := t.most.Load(); ms > old && !t.most.CompareAndSwap(old, ms); old = t.most.Load() {
	}
}

func (t *traffic) reset() {
	for _, n := range []*atomic.Int64{&t.received, &t.sent, &t.count, &t.total, &t.least, &t.most} {
		n.Store(0)
	}
}

// latency returns the least, mean and longest time in milliseconds.
func (t *traffic) latency() (least int64, mean float64, most int64) {
	if n := t.count.Load(); n > 0 {
		mean = float64(t.total.Load()) / float64(n)
	}
	return max(t.least.Load()-1, 0), mean, max(t.most.Load()-1, 0)
}

// last is the latest request of a connection that was answered.
type last struct {
	mu   sync.Mutex
	op   string
	xid  int64 // -1: none yet
	zxid int64
	at   time.Duration // on the server's clock
	ms   int64         // how long it took
}

func (l *last) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op, l.xid, l.zxid, l.at, l.ms = "NA", -1, -1, 0, 0
}

// received counts a frame that c has got.
func (c *conn) received() {
	c.traffic.received.Add(1)
	c.srv.traffic.received.Add(1)
}

// sent counts a frame on its way to the client.
func (c *conn) sent() {
	c.traffic.sent.Add(1)
	c.srv.traffic.sent.Add(1)
}

// answered notes that a request which came at start has its reply. A special
// xid does not count as the last one.
func (c *conn) answered(h *wire.RequestHeader, zxid int64, start time.Duration) {
	letters, ok := opLetters[h.Op]
	if !ok {
		return
	}
	now := c.srv.clock.elapsed()
	ms := (now - start).Milliseconds()
	c.traffic.answered(ms)
	c.srv.traffic.answered(ms)
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	if h.Xid >= 0 {
		c.last.xid = int64(h.Xid)
	}
	c.last.op, c.last.zxid, c.last.at, c.last.ms = letters, zxid, now, ms
}

// opLetters are the operations in "cons".
var opLetters = map[wire.OpCode]string{
	wire.OpPing: "PING", wire.OpCreateSession: "SESS", wire.OpMulti: "MULT", wire.OpMultiRead: "MLTR",
	wire.OpCreate: "CREA", wire.OpCreate2: "CREA", wire.OpCreateTTL: "CREA", wire.OpCreateContainer: "CREA",
	wire.OpDelete: "DELE", wire.OpDeleteContainer: "DELE", wire.OpSetData: "SETD", wire.OpReconfig: "RECO",
	wire.OpSetACL: "SETA", wire.OpCloseSession: "CLOS", wire.OpSync: "SYNC", wire.OpCheck: "CHEC",
	wire.OpExists: "EXIS", wire.OpGetData: "GETD", wire.OpSetWatches: "SETW", wire.OpSetWatches2: "STW2",
	wire.OpAddWatch: "ADDW", wire.OpGetACL: "GETA", wire.OpGetChildren: "GETC", wire.OpGetChildren2: "GETC",
	wire.OpGetAllChildrenNumber: "GETACN", wire.OpCheckWatches: "CHKW", wire.OpRemoveWatches: "REMW",
	wire.OpWhoAmI: "HOMI", wire.OpGetEphemerals: "GETE",
}
