//go:build linux

package foreign_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/internal/wire"
)

// The codec is pinned by frames that Apache's client, kazoo and a real server
// have exchanged. To write them down anew:
//
//	BATON_APACHE=1 go test ./internal/foreign -run TestGolden -record
var record = flag.Bool("record", false, "write down the frames that pin the codec")

const goldenFile = "../wire/testdata/golden.txt"

// mostPerKind is how many frames of one kind are kept.
const mostPerKind = 3

func TestGolden(t *testing.T) {
	testenv.Apache(t)
	if !*record {
		t.Skip("no -record")
	}
	real := testenv.StartApache(t, 1)
	p := &proxy{target: real.Connect(), frames: map[string][]string{}}
	addr := p.listen(t)
	for _, source := range []string{"testdata/Golden.java", "testdata/Foreign.java"} {
		cmd, err := interop.JavaCommand(bounded(t), source, addr)
		if err != nil {
			t.Fatal(err)
		}
		output(t, cmd, 0)
	}
	// Another server: the nodes have the same names.
	p.target = testenv.StartApache(t, 1).Connect()
	output(t, exec.CommandContext(bounded(t), python, "testdata/foreign.py", addr), 0)
	p.write(t)
}

// A proxy writes down the frames that pass it. It cuts a connection that asks
// for the node /cut.
type proxy struct {
	target string
	mu     sync.Mutex
	frames map[string][]string // in hex, by kind
}

func (p *proxy) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.target)
			if err != nil {
				client.Close()
				continue
			}
			c := &passing{proxy: p, ops: map[int32][]wire.OpCode{}}
			wg.Go(func() { c.pass(server, client, c.request) })
			wg.Go(func() { c.pass(client, server, c.reply) })
		}
	})
	return l.Addr().String()
}

// A passing is one connection through the proxy.
type passing struct {
	proxy             *proxy
	mu                sync.Mutex
	ops               map[int32][]wire.OpCode // by xid
	asked, introduced bool
}

// pass hands frames from one side to the other until either ends, or kind
// wants it to.
func (c *passing) pass(to, from net.Conn, kind func([]byte) string) {
	defer to.Close()
	defer from.Close()
	for {
		var header [4]byte
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(header[:]))
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		if bytes.Contains(frame, []byte("/cut")) {
			return
		}
		c.proxy.note(kind(frame), frame)
		if _, err := to.Write(append(header[:], frame...)); err != nil {
			return
		}
	}
}

func (c *passing) request(frame []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked {
		c.asked = true
		return "connect request"
	}
	xid, op := int32(binary.BigEndian.Uint32(frame)), wire.OpCode(binary.BigEndian.Uint32(frame[4:]))
	c.ops[xid] = append(c.ops[xid], op)
	return op.String() + " request"
}

func (c *passing) reply(frame []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.introduced {
		c.introduced = true
		return "connect reply"
	}
	var h wire.ReplyHeader
	_ = wire.NewDecoder(frame).Decode(&h)
	if h.Xid == wire.XidNotify {
		return "notify reply"
	}
	ops := c.ops[h.Xid]
	if len(ops) == 0 {
		return "unknown reply"
	}
	c.ops[h.Xid] = ops[1:]
	return ops[0].String() + " reply"
}

func (p *proxy) note(kind string, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frames[kind] = append(p.frames[kind], hex.EncodeToString(frame))
}

// write keeps the most different frames of each kind: by length, and replies
// by error, too.
func (p *proxy) write(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	b.WriteString("# Frames without their length, written down by internal/foreign's TestGolden.\n")
	kinds := make([]string, 0, len(p.frames))
	for kind := range p.frames {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		frames := p.frames[kind]
		slices.SortStableFunc(frames, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		frames = slices.CompactFunc(frames, func(a, b string) bool { return len(a) == len(b) })
		step := max(1, len(frames)/mostPerKind)
		for i := 0; i < len(frames); i += step {
			fmt.Fprintf(&b, "%s %s\n", kind, frames[i])
		}
	}
	if err := os.MkdirAll("../wire/testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenFile, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}
