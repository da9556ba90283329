package framework_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
)

// TestCoalescedWrites: while a write is under way the frames of other callers
// gather, and go out together.
func TestCoalescedWrites(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var writes atomic.Int32
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialContext(ctx, network, address)
			return &slowWriter{raw, &writes}, err
		}))
		const callers, rounds = 64, 10
		writes.Store(0)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					if _, err := c.Exists(context.Background(), "/"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := writes.Load(); n > callers*rounds/10 {
			t.Fatalf("%d writes for %d requests", n, callers*rounds)
		}
	})
}

// slowWriter takes a millisecond for each write.
type slowWriter struct {
	net.Conn
	writes *atomic.Int32
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.writes.Add(1)
	time.Sleep(time.Millisecond)
	return w.Conn.Write(p)
}

// TestWriterBlocked: more is written than the pipe holds, to a server that
// has stopped reading. The connection is given up, and the client recovers.
func TestWriterBlocked(t *testing.T) {
	fakeBubble(t, func(n int, c *fakeConn) {
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); !ok {
			return
		}
		if n == 0 {
			time.Sleep(time.Hour) // without reading
			return
		}
		c.serve(func(wire.RequestHeader, *wire.Decoder) wire.Record { return &wire.StatResponse{} })
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		began := time.Now()
		if _, err := c.Set(t.Context(), "/n", make([]byte, 900_000), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > sessionTimeout {
			t.Fatalf("took %v", took)
		}
	})
}

// TestSlowClose: a socket whose Close blocks delays nobody's bad news.
func TestSlowClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialContext(ctx, network, address)
			return slowCloser{raw}, err
		}))
		st := record(c)
		began := time.Now()
		srv.DropConnections()
		st.want(t, framework.Suspended)
		if took := time.Since(began); took != 0 {
			t.Fatalf("Suspended after %v", took)
		}
	})
}

// TestSlowCloseAtDeadline: nor does it delay who finds the session lost.
func TestSlowCloseAtDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialContext(ctx, network, address)
			return slowCloser{raw}, err
		}))
		s := c.Session()
		s.StopTimer()
		s.Rewind(sessionTimeout)
		began := time.Now()
		if err := s.Err(); !errors.Is(err, framework.ErrSessionLost) {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Fatalf("Err took %v", took)
		}
	})
}

type slowCloser struct{ net.Conn }

func (c slowCloser) Close() error {
	time.Sleep(time.Second)
	return c.Conn.Close()
}
