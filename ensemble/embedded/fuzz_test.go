package embedded_test

import (
	"context"
	"encoding/hex"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// goldenRequests returns the requests that Apache's client and kazoo have sent,
// each as a frame, by operation.
func goldenRequests(t testing.TB) map[string][][]byte {
	t.Helper()
	requests := make(map[string][][]byte)
	for line := range strings.Lines(string(must(os.ReadFile("../../internal/wire/testdata/golden.txt")))) {
		if f := strings.Fields(line); f[1] == "request" {
			requests[f[0]] = append(requests[f[0]], frameOf(must(hex.DecodeString(f[2]))))
		}
	}
	return requests
}

// A fuzzed server gets any bytes. One serves a whole run, so that what one
// client leaves is there for the next.
type fuzzed struct {
	srv     *embedded.Server
	witness *client
	mu      sync.Mutex
}

func newFuzzed(f *testing.F) *fuzzed {
	srv := start(f)
	return &fuzzed{srv: srv, witness: connect(f, srv)}
}

// feed sends bytes on a new connection, and checks that the server is done with
// it at once and well for others.
func (z *fuzzed) feed(t *testing.T, stream []byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	nc := must(z.srv.DialContext(context.Background(), "", ""))
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	read := make(chan int64)
	go func() {
		n := int64(0)
		for b := make([]byte, 4096); ; {
			k, err := nc.Read(b)
			if n += int64(k); err != nil {
				break
			}
		}
		read <- n
	}()
	_, _ = nc.Write(stream) // it may be closed meanwhile
	z.witness.t = t
	z.witness.sync()
	nc.Close()
	<-read
	for _, info := range z.srv.Sessions() {
		if info.ID != z.witness.session.SessionID {
			_ = z.srv.ExpireSession(info.ID)
		}
	}
	if z.srv.WatchCount() > 1_000_000 {
		t.Fatal("watches pile up")
	}
}

// FuzzConnection sends any bytes from the start of a connection.
func FuzzConnection(f *testing.F) {
	connects := goldenRequests(f)["connect"]
	for _, frame := range connects {
		f.Add(frame)
		f.Add(frame[:len(frame)-1])
	}
	f.Add([]byte("ruok"))
	f.Add([]byte("mntr\n"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0})
	z := newFuzzed(f)
	f.Fuzz(func(t *testing.T, stream []byte) { z.feed(t, stream) })
}

// FuzzRequests sends any bytes on a connection that has a session.
func FuzzRequests(f *testing.F) {
	all := goldenRequests(f)
	var everything []byte
	for op, frames := range all {
		for _, frame := range frames {
			if op != "connect" {
				f.Add(frame)
				everything = append(everything, frame...)
			}
		}
	}
	f.Add(everything)
	for op := range 110 {
		f.Add([]byte{0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, byte(op), 0, 0, 0, 12})
	}
	hello := wire.AppendFrame(nil, &wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16), HasReadOnly: true})
	z := newFuzzed(f)
	f.Fuzz(func(t *testing.T, stream []byte) {
		z.feed(t, append(hello[:len(hello):len(hello)], stream...))
	})
}
