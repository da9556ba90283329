package apache_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/internal/leak"
	"github.com/batonzk/baton/internal/testenv"
)

// bounded returns a context that ends long after everything should be done.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on an error of something it only needs.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts an ensemble with its folder below the test's own.
func start(t *testing.T, n int, opts ...apache.Option) *apache.Ensemble {
	t.Helper()
	testenv.Apache(t)
	t.Setenv("TMPDIR", t.TempDir())
	leak.Check(t)
	return testenv.StartApache(t, n, opts...)
}

func TestSingleServer(t *testing.T) {
	e := start(t, 1, apache.WithContainerCheckInterval(500*time.Millisecond), apache.WithProperty("jute.maxbuffer", "2097152"))
	ctx := bounded(t)
	s := e.Server(0)
	if e.Len() != 1 || e.Connect() != s.Addr() || s.ID() != 1 || !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
		t.Errorf("%d servers at %q, server %d at %q", e.Len(), e.Connect(), s.ID(), s.Addr())
	}
	addrs, err := e.Servers(ctx)
	if err != nil || len(addrs) != 1 || addrs[0].String() != s.Addr() || e.Chroot() != "" {
		t.Errorf("Servers: %v, %v; chroot %q", addrs, err, e.Chroot())
	}
	if leader, err := e.Leader(ctx); leader != s || err != nil {
		t.Errorf("Leader: %v, %v; want the only server", leader, err)
	}
	if answer, err := s.FourLetter(ctx, "ruok"); answer != "imok" || err != nil {
		t.Errorf("ruok: %q, %v", answer, err)
	}
	conf, err := s.FourLetter(ctx, "conf")
	for _, want := range []string{"tickTime=100\n", "maxClientCnxns=0\n", "minSessionTimeout=200\n", "maxSessionTimeout=60000\n"} {
		if !strings.Contains(conf, want) {
			t.Errorf("conf: %v, %q is not in\n%s", err, want, conf)
		}
	}
	envi, err := s.FourLetter(ctx, "envi")
	if err != nil || !strings.Contains(envi, "zookeeper.version=3.") {
		t.Errorf("envi: %v\n%s", err, envi)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	e := start(t, 1)
	s := e.Server(0)
	must(t, e.Close())
	must(t, e.Close())
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if len(left) != 0 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if err := s.Restart(bounded(t)); err == nil || !strings.Contains(err.Error(), apache.ErrClosed.Error()) {
		t.Errorf("Restart after Close: %v", err)
	}
}

func TestLeaderFailsOver(t *testing.T) {
	e := start(t, 3)
	ctx := bounded(t)
	first, err := e.Leader(ctx)
	must(t, err)

	must(t, first.Kill())
	second, err := e.Leader(ctx)
	must(t, err)
	if second == first {
		t.Fatal("the killed server leads")
	}
	must(t, first.Restart(ctx))
	must(t, e.WaitServing(ctx)) // three again

	must(t, second.Pause())
	third, err := e.Leader(ctx)
	must(t, err)
	if third == second {
		t.Fatal("the paused server leads")
	}
	must(t, second.Resume())
	must(t, e.WaitServing(ctx))
	if leader, err := e.Leader(ctx); leader == second || err != nil {
		t.Errorf("%v, %v; the server that was paused still leads", leader, err)
	}
}
