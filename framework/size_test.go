package framework_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// TestTooLarge: refused before any I/O, and nothing else suffers.
func TestTooLarge(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	half := big[:600_000]
	for name, do := range map[string]func(ctx context.Context, c *framework.Client) error{
		"create": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Create(ctx, "/big", big, framework.WithParents(), framework.Protected())
			return err
		},
		"set": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Set(ctx, "/n", big, framework.AnyVersion)
			return err
		},
		"multi": func(ctx context.Context, c *framework.Client) error {
			_, err := c.Multi(ctx, framework.SetOp("/n", half, framework.AnyVersion), framework.CreateOp("/m", half, framework.Persistent))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := newClient(t, srv)
				srv.Refuse(true)
				began := time.Now()
				if err := do(t.Context(), c); !errors.Is(err, framework.ErrTooLarge) || framework.IsRetryable(err) {
					t.Fatalf("without a connection: %v", err)
				}
				if time.Since(began) != 0 {
					t.Fatal("it waited for a connection")
				}
			})
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				create(t, c, "/n", "")
				st, log := record(c), logRequests(srv)
				if err := do(t.Context(), c); !errors.Is(err, framework.ErrTooLarge) || framework.IsUnknown(err) {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(log.ops()) != 0 || len(st.ch) != 0 {
					t.Fatalf("requests %v, %d states", log.ops(), len(st.ch))
				}
				set(t, c, "/n", string(half))
			})
		})
	}
}

// TestTooLargeWithoutData: a request whose size is not data is caught too.
func TestTooLargeWithoutData(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithMaxRequest(2000))
		log := logRequests(srv)
		long := "/" + string(bytes.Repeat([]byte("x"), 2000))
		if _, err := c.Exists(t.Context(), long); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		if _, _, err := c.ExistsW(t.Context(), long); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		noWatches(t, srv, c)
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

// TestLargestRequest is let through by both sides.
func TestLargestRequest(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		st := record(c)
		const header = 8 + 4 + 2 + 4 + 4
		if _, err := c.Set(t.Context(), "/n", make([]byte, 1<<20-1-header), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(t.Context(), "/n", make([]byte, 1<<20-header), framework.AnyVersion); !errors.Is(err, framework.ErrTooLarge) {
			t.Fatal(err)
		}
		if data, _, err := c.Get(t.Context(), "/n"); err != nil || len(data) != 1<<20-1-header {
			t.Fatal(len(data), err)
		}
		if len(st.ch) != 0 {
			t.Fatal("the connection did not survive")
		}
	})
}

// TestMaxReply: a larger reply is taken for garbage.
func TestMaxReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithMaxReply(2000), framework.WithRetry(retry.OneTime(time.Millisecond)))
		create(t, c, "/n", string(make([]byte, 3000)))
		if _, _, err := c.Get(t.Context(), "/n"); !errors.Is(err, framework.ErrConnectionLoss) || !strings.Contains(err.Error(), "the limit is 2000") {
			t.Fatal(err)
		}
		if _, err := c.Exists(t.Context(), "/n"); err != nil {
			t.Fatal(err)
		}
	})
}
