package framework_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/retry"
)

// TestDialerThatBlocks: a dialler that ignores its context wedges the driver,
// which is abandoned for a new one.
func TestDialerThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 1 {
				<-release
			}
			return srv.DialContext(ctx, network, address)
		}
		c, err := framework.New(srv, framework.WithDialer(dial), framework.WithSessionTimeout(sessionTimeout))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*sessionTimeout)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "goroutines") {
			t.Fatalf("Close with a goroutine stuck: %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Fatalf("Close took %v", took)
		}
		close(release)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if err := c.Close(); err != nil {
			t.Fatalf("Close once the goroutine is gone: %v", err)
		}
		if s := srv.Sessions(); len(s) != 0 {
			t.Fatalf("sessions left: %+v", s)
		}
	})
}

// TestLateDial: a connection that an abandoned driver gets after all is not
// used for a second session.
func TestLateDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 1 {
				<-release
			}
			return srv.DialContext(context.WithoutCancel(ctx), network, address)
		}))
		close(release)
		synctest.Wait()
		if s := srv.Sessions(); len(s) != 1 {
			t.Fatalf("sessions %+v", s)
		}
	})
}

// TestDialerThatBlocksInSession: the same when a session is to be resumed.
func TestDialerThatBlocksInSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		var n atomic.Int32
		release := make(chan struct{})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.Add(1) == 2 {
				<-release
			}
			return srv.DialContext(ctx, network, address)
		}
		c := connect(t, srv, framework.WithDialer(dial))
		st := record(c)
		srv.DropConnections()
		st.want(t, framework.Suspended, framework.Lost, framework.Reconnected)
		close(release)
	})
}

// TestBackOff: a server that drops each connection at once is not hammered.
func TestBackOff(t *testing.T) {
	fakeBubble(t, func(_ int, c *fakeConn) {
		c.greet(wire.ConnectResponse{SessionID: 7})
	}, func(t *testing.T, srv *fake) {
		newClient(t, srv, framework.WithReconnect(retry.BoundedExponential(20*time.Millisecond, 5*time.Second, retry.Unlimited)))
		time.Sleep(time.Minute)
		if n := srv.dials(); n > 60 {
			t.Fatalf("%d connections in a minute", n)
		}
	})
}

// TestReconnectPolicyThatEnds is begun again: a client never gives up.
func TestReconnectPolicyThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		srv.Refuse(true)
		c := newClient(t, srv, framework.WithReconnect(retry.OneTime(time.Second)))
		time.Sleep(time.Hour)
		srv.Refuse(false)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDialTimeout: a server that cannot be reached is left for the next.
func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "a" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return srv.DialContext(ctx, network, address)
		}
		began := time.Now()
		connect(t, pair{}, framework.WithDialer(dial), framework.WithDialTimeout(700*time.Millisecond))
		if took := time.Since(began); took != 700*time.Millisecond {
			t.Fatalf("connected after %v", took)
		}
	})
}

// TestDialContextIsNotTheCallers: a dial that timed out is a reason to try
// again, though its error is one of a context.
func TestDialContextIsNotTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := newClient(t, srv, framework.WithDialer(dial), framework.WithConnectionTimeout(3*time.Second),
			framework.WithRetry(retry.NTimes(1, time.Second)))
		_, err := c.Exists(t.Context(), "/")
		if errors.Is(err, context.DeadlineExceeded) || !framework.IsRetryable(err) || !strings.Contains(err.Error(), "deadline exceeded") {
			t.Fatal(err)
		}
	})
}

// TestDialerReturnsNothing is an error like another.
func TestDialerReturnsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := newClient(t, srv, framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.WaitConnected(ctx); err == nil || !strings.Contains(err.Error(), "neither") {
			t.Fatal(err)
		}
	})
}
