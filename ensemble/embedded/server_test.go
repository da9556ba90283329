package embedded_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

func TestReadAndWriteOverTheNetwork(t *testing.T) {
	srv := start(t)
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	c := wrap(t, nc).open(&wire.ConnectRequest{TimeoutMillis: 10_000})
	c.create("/a", "data", wire.ModePersistent)
	if got, _ := c.get("/a", false); got != "data" {
		t.Errorf("data %q", got)
	}
}

// Over the pipe the server does not leave a bubble: a client that pings keeps
// its session for ten minutes, one that does not loses it, and all of it
// takes no real time.
func TestMinutesPassInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		silent, lively := connect(t, srv), connect(t, srv)
		silent.create("/silent", "", wire.ModeEphemeral)
		lively.create("/lively", "", wire.ModeEphemeral)
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			time.Sleep(3 * time.Second)
			lively.ok(wire.OpPing, new(wire.Empty), nil)
		}
		if names := lively.children("/", false); len(names) != 2 || names[0] != "lively" {
			t.Errorf("children of the root: %v", names)
		}
		silent.gone()
		if n := len(srv.Sessions()); n != 1 {
			t.Errorf("%d sessions, expected 1", n)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, opt := range map[string]embedded.Option{
		"tick of -1s":              embedded.WithTick(-time.Second),
		"tick of 1µs":              embedded.WithTick(time.Microsecond),
		"container interval of 0s": embedded.WithContainerInterval(0),
		"max buffer of 3 bytes":    embedded.WithMaxBuffer(3),
		"logger is nil":            embedded.WithLogger(nil),
		`super digest "no colon"`:  embedded.WithSuper("no colon"),

		"at most 0 connections":                   embedded.WithMaxConnections(0),
		"at most 0 sessions":                      embedded.WithMaxSessions(0),
		"at most -1 watches of a connection":      embedded.WithMaxWatches(-1, 1),
		"at most 0 watches:":                      embedded.WithMaxWatches(1, 0),
		"at most 0 bytes queued for a connection": embedded.WithMaxQueue(0, 1),
		"at most 0 bytes queued:":                 embedded.WithMaxQueue(1, 0),
		"at most 0 bytes of identities":           embedded.WithMaxAuth(0),
		"at most 0 nodes":                         embedded.WithMaxTree(0, 1),
		"at most 0 bytes of nodes":                embedded.WithMaxTree(1, 0),
	} {
		srv, err := embedded.Start(opt)
		if err == nil {
			srv.Close()
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not say %q", err, name)
		}
	}
}

func TestClosedServer(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	for range 2 {
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.gone()
	if _, err := srv.DialContext(context.Background(), "", ""); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("DialContext: %v", err)
	}
	if _, err := srv.Listen("127.0.0.1:0"); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Listen: %v", err)
	}
}

func TestServe(t *testing.T) {
	srv := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, nc).open(&wire.ConnectRequest{TimeoutMillis: 10_000})
	go srv.Close()
	if err := <-served; !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestEnsemble(t *testing.T) {
	srv := start(t)
	addrs, err := srv.Servers(context.Background())
	if err != nil || len(addrs) != 1 || addrs[0].Network() != "pipe" || addrs[0].String() != "embedded:2181" {
		t.Errorf("servers %v, %v", addrs, err)
	}
	if srv.Chroot() != "" {
		t.Errorf("chroot %q", srv.Chroot())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := srv.Servers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Servers with a done context: %v", err)
	}
	if _, err := srv.DialContext(ctx, "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("DialContext with a done context: %v", err)
	}
}

func TestRefuse(t *testing.T) {
	srv := start(t)
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, srv)
	srv.Refuse(true)
	if _, err := srv.DialContext(context.Background(), "", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("DialContext: %v", err)
	}
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, nc).gone()
	c.sync() // those that exist are left alone
	srv.Refuse(false)
	connect(t, srv)
}
