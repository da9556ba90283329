package framework_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// TestHooksMayCallClient: they and the logger run without a lock.
func TestHooksMayCallClient(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		h := &curious{}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(writer(func(p []byte) { h.ask(); log.Write(p) }), nil))
		c, err := framework.New(srv, framework.WithHooks(h), framework.WithLogger(logger), framework.WithSessionTimeout(sessionTimeout))
		if err != nil {
			t.Fatal(err)
		}
		h.client.Store(c)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		srv.DropConnections()
		time.Sleep(time.Second)
		if _, err := c.Exists(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := h.connections; len(got) != 4 || !got[0].Up || got[1].Up || !got[2].Up || got[3].Up || got[1].Err == nil || got[3].Err == nil {
			t.Fatalf("connection hook was told %+v", got)
		}
		if h.operations != 1 || !strings.Contains(log.String(), "Reconnected") {
			t.Fatalf("%d operations, log %s", h.operations, log.String())
		}
	})
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

type curious struct {
	client      atomic.Pointer[framework.Client]
	connections []framework.ConnectionInfo
	operations  int
}

func (h *curious) ask() {
	c := h.client.Load()
	_, _ = c.State(), c.Session()
}

func (h *curious) OnConnection(info framework.ConnectionInfo) {
	h.ask()
	h.connections = append(h.connections, info)
}

func (h *curious) OnOperation(context.Context, framework.OperationInfo) { h.ask(); h.operations++ }

// TestLog: what an operator has to know is there at the level Warn, at once
// and not over and over.
func TestLog(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var mu sync.Mutex
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(writer(func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			log.Write(p)
		}), &slog.HandlerOptions{Level: slog.LevelWarn}))
		count := func(text string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(log.String(), text)
		}
		c := connect(t, srv, framework.WithLogger(logger))
		if n := count(""); n != 1 {
			t.Fatalf("all is well, and the log has %s", log.String())
		}
		srv.Refuse(true)
		srv.DropConnections()
		time.Sleep(100 * time.Millisecond)
		if count("state=Suspended") != 1 || count("cannot connect") != 1 || count("refused") == 0 || count("server=") != 1 {
			t.Fatal(log.String())
		}
		time.Sleep(time.Minute)
		if n := count("cannot connect"); count("state=Lost") != 1 || n < 5 || n > 7 {
			t.Fatalf("%d warnings: %s", n, log.String())
		}
		before := count("level=")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if count("level=") != before {
			t.Fatalf("at Close: %s", log.String())
		}
	})
}

// TestLogOfNameService: the ensemble itself may fail, or be waited for when
// the client closes.
func TestLogOfNameService(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var log bytes.Buffer
		logger := framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
		blocking := resolving(func(ctx context.Context) ([]net.Addr, error) { <-ctx.Done(); return nil, ctx.Err() })
		c := newClient(t, blocking, logger)
		time.Sleep(time.Second)
		if err := c.Close(); err != nil || log.Len() != 0 {
			t.Fatalf("%v, log: %s", err, log.String())
		}
		c = newClient(t, resolving(func(context.Context) ([]net.Addr, error) { return nil, nil }), logger)
		time.Sleep(time.Second)
		if err := c.Close(); err != nil || strings.Count(log.String(), "no server to try") != 1 {
			t.Fatalf("%v, log: %s", err, log.String())
		}
	})
}

type resolving func(ctx context.Context) ([]net.Addr, error)

func (r resolving) Servers(ctx context.Context) ([]net.Addr, error) { return r(ctx) }
func (resolving) Chroot() string                                    { return "" }
