//go:build unix

package recipes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/recipes"
)

// pausedHolderEnv, when set, makes the test binary a process that holds the
// lock at that server and is going to be stopped.
const pausedHolderEnv = "BATON_TEST_PAUSED_HOLDER"

const pausedTimeout = 2 * time.Second // of the sessions

// T11: a process is stopped for several session timeouts while it holds locks.
// When it goes on, the first thing it asks each lease says lost; that does not
// depend on a timer or a goroutine having run. The token is smaller than that
// of the next holder.
func TestStoppedHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		srv, err := embedded.Start(embedded.WithTick(conformTick))
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		address, err := srv.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		testStoppedHolder(t, address.String())
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		testStoppedHolder(t, testenv.StartApache(t, 1, apache.WithTick(conformTick)).Connect())
	})
}

func testStoppedHolder(t *testing.T, connect string) {
	servers, err := ensemble.NewFixed(connect)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, servers, pausedTimeout)
	defer w.closeClients()
	holder := startHolder(t, connect)
	tokens := make([]int64, len(firstLooks))
	waiting := make([]*attempt, len(firstLooks))
	c := w.client(framework.WithSessionTimeout(5 * pausedTimeout)) // must not be lost meanwhile
	for i := range firstLooks {
		holder.says(t, "holds %d", &tokens[i])
		waiting[i] = w.attempt(recipes.NewInterProcessMutex(c, holderPath(i)))
	}
	time.Sleep(pausedTimeout)
	holder.signal(t, syscall.SIGSTOP)
	var next []*recipes.Lease
	for i, a := range waiting {
		lease := w.wait(a)
		if lease.Token() <= tokens[i] {
			t.Errorf("the next holder's token %#x does not exceed %#x", lease.Token(), tokens[i])
		}
		next = append(next, lease)
	}
	time.Sleep(pausedTimeout)
	holder.signal(t, syscall.SIGCONT)
	for i, look := range firstLooks {
		var said string
		if holder.says(t, "%s", &said); said != "lost" {
			t.Errorf("after it was stopped, the holder's %s says %s, want lost", look.name, said)
		}
		w.release(next[i])
	}
}

type holderProcess struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startHolder(t *testing.T, connect string) *holderProcess {
	t.Helper()
	p := &holderProcess{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), pausedHolderEnv+"="+connect)
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		stdin.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the holder: %v", err)
		}
	})
	return p
}

func (p *holderProcess) says(t *testing.T, format string, to any) {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatal("the holder says nothing more")
	}
	if _, err := fmt.Sscanf(p.lines.Text(), format, to); err != nil {
		t.Fatalf("the holder says %q", p.lines.Text())
	}
}

func (p *holderProcess) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func holderPath(i int) string { return fmt.Sprintf("%s-%d", root, i) }

// A held is one of the locks of the process that is stopped, in a session of
// its own, so that the first look at each is its session's first.
type held struct {
	client     *framework.Client
	mutex      *recipes.InterProcessMutex
	lease      *recipes.Lease
	ctx, child context.Context
}

// firstLooks are the ways to find out that a lease is lost.
var firstLooks = []struct {
	name string
	look func(h *held) error
}{
	{"Err", func(h *held) error { return h.lease.Err() }},
	{"Check", func(h *held) error { return h.lease.Check().Err() }},
	{"re-entry", func(h *held) error {
		_, err := h.mutex.TryAcquire(context.WithoutCancel(h.ctx))
		return err
	}},
	{"State", func(h *held) error {
		if h.lease.State() == recipes.LeaseLost {
			return h.lease.Err()
		}
		return nil
	}},
	{"context's Err", func(h *held) error {
		if h.ctx.Err() != nil {
			return context.Cause(h.ctx)
		}
		return nil
	}},
	{"context's Done", func(h *held) error {
		if isDone(h.ctx) {
			return context.Cause(h.ctx)
		}
		return nil
	}},
	{"Release", func(h *held) error { return h.lease.Release() }},
	{"checked write", func(h *held) error {
		_, err := h.client.Multi(context.Background(), h.lease.Check())
		return err
	}},
}

// pausedHolder is the process that is stopped. It prints what its first look
// at each lease says after it noticed that time has jumped.
func pausedHolder(connect string) int {
	var locks []*held
	for i := range firstLooks {
		h, err := hold(connect, holderPath(i))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("holds", h.lease.Token())
		locks = append(locks, h)
	}
	// One goroutine keeps the only processor and looks at the clock, so that
	// it is the first to run after the stop, before timers.
	runtime.GOMAXPROCS(1)
	for last := time.Now(); ; {
		now := time.Now()
		if now.Sub(last) > pausedTimeout {
			break
		}
		last = now
	}
	found := make([]string, len(locks))
	for i, h := range locks {
		switch err := firstLooks[i].look(h); {
		case !errors.Is(err, recipes.ErrLost):
			found[i] = fmt.Sprintf("%q", fmt.Sprint(err))
		case h.child.Err() == nil:
			found[i] = "lost,but-the-context-goes-on"
		default:
			found[i] = "lost"
		}
	}
	for _, f := range found {
		fmt.Println(f)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is done
	return 0
}

func hold(connect, path string) (*held, error) {
	servers, err := ensemble.NewFixed(connect)
	if err != nil {
		return nil, err
	}
	h := &held{}
	if h.client, err = framework.New(servers, framework.WithSessionTimeout(pausedTimeout)); err != nil {
		return nil, err
	}
	if err := h.client.Start(); err != nil {
		return nil, err
	}
	h.mutex = recipes.NewInterProcessMutex(h.client, path)
	if h.lease, err = h.mutex.Acquire(context.Background()); err != nil {
		return nil, err
	}
	h.ctx = h.lease.Context(context.Background())
	h.child = context.WithValue(h.ctx, h, nil)
	var cancel context.CancelFunc
	h.child, cancel = context.WithCancel(h.child)
	_ = cancel // the process ends first
	return h, nil
}
