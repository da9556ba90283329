package framework_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
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

func (h *curious) OnOperation(framework.OperationInfo) { h.ask(); h.operations++ }
