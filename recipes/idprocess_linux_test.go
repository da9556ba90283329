package recipes_test

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/proc"
	"github.com/batonzk/baton/recipes"
)

// An idProcess is a process that makes IDs.
type idProcess struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	moved sync.Cond
	ids   []recipes.ID
	ended bool
	err   error
}

// startIDs starts a process that makes IDs. It is killed when the test ends.
func startIDs(t *testing.T, srv *embedded.Server, last int, timeout time.Duration) *idProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &idProcess{t: t, cmd: exec.Command(self)}
	p.moved.L = &p.mu
	p.cmd.Env = append(os.Environ(), idProcessVariable+"="+addr.String(), idLastVariable+"="+strconv.Itoa(last),
		idTimeoutVariable+"="+timeout.String(), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = proc.Start(p.cmd, func() { p.read(out) }, func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended, p.err = true, err
		p.moved.Broadcast()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// read collects what the process makes, each above the last.
func (p *idProcess) read(out io.Reader) {
	buf := make([]byte, 1<<15)
	for kept := 0; ; {
		n, err := out.Read(buf[kept:])
		n += kept
		p.mu.Lock()
		for ; n >= 8; n -= 8 {
			id := recipes.ID(binary.BigEndian.Uint64(buf[:8]))
			if len(p.ids) > 0 && id <= p.ids[len(p.ids)-1] {
				p.t.Errorf("%d behind %d", id, p.ids[len(p.ids)-1])
			}
			p.ids = append(p.ids, id)
			buf = buf[8:]
		}
		p.moved.Broadcast()
		p.mu.Unlock()
		rest := buf[:n]
		buf = make([]byte, 1<<15)
		kept = copy(buf, rest)
		if err != nil {
			return
		}
	}
}

// until waits until the process has made IDs that are enough, and reports false if
// it ended before.
func (p *idProcess) until(enough func(ids []recipes.ID) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !enough(p.ids) {
		if p.ended {
			return false
		}
		p.moved.Wait()
	}
	return true
}

// made returns all IDs, once the process has ended.
func (p *idProcess) made() []recipes.ID {
	p.until(func([]recipes.ID) bool { return false })
	return p.ids
}

func (p *idProcess) kill() {
	if err := proc.Signal(p.cmd.Process, syscall.SIGKILL); err != nil {
		p.t.Error(err)
	}
	p.made()
}

func startIDServer(t *testing.T) *embedded.Server {
	t.Helper()
	srv, err := embedded.Start(embedded.WithTick(100 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// unique checks that no ID is there twice.
func unique(t *testing.T, l recipes.Layout, outputs ...[]recipes.ID) {
	t.Helper()
	all := slices.Concat(outputs...)
	slices.Sort(all)
	twice := 0
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			if twice++; twice < 5 {
				t.Errorf("made twice: %s", l.Describe(all[i]))
			}
		}
	}
	t.Logf("%d IDs, %d of them twice", len(all), twice)
}

// The owner of a number is stopped for ten windows, while a successor has it. When
// it goes on it makes no ID that the successor has made, and stops where its
// reservation ends.
func TestSnowflakeOwnerStopped(t *testing.T) {
	t.Parallel()
	srv := startIDServer(t)
	l := recipes.DefaultLayout()
	const timeout = 2 * time.Second // so that a busy machine does not end it
	a := startIDs(t, srv, 0, timeout)
	if !a.until(func(ids []recipes.ID) bool { return len(ids) > 100_000 }) {
		t.Fatal("the owner ended")
	}
	if err := proc.Signal(a.cmd.Process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := proc.WaitStopped(ctx, a.cmd.Process); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	b := startIDs(t, srv, 0, timeout)
	if !b.until(func(ids []recipes.ID) bool {
		return len(ids) > 0 && ids[len(ids)-1].Time(l).Sub(stopped) > 10*processWindow
	}) {
		t.Fatal("the successor ended")
	}
	node, _ := srv.Node(idRoot + "/slots/0")
	t.Logf("the slot: %s", node.Data)
	if err := proc.Signal(a.cmd.Process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	first := a.made() // it ends by itself
	if a.err != nil {
		t.Errorf("the owner: %v", a.err)
	}
	b.kill()
	last := first[len(first)-1].Time(l)
	if last.Sub(stopped) > 2*processWindow {
		t.Errorf("the owner went on to %v, and was stopped at %v", last, stopped)
	}
	if begin := b.ids[0].Time(l); !begin.After(last) {
		t.Errorf("the successor began at %v, the owner ended at %v", begin, last)
	}
	unique(t, l, first, b.ids)
}

// Processes that are killed all the time, with fewer than twice as many numbers:
// ten million IDs, and none twice.
func TestSnowflakeKills(t *testing.T) {
	t.Parallel()
	const lanes = 3
	each, total := 700_000, 10_000_000
	if recipes.UnderRace {
		each, total = each/10, total/10
	}
	srv := startIDServer(t)
	outputs := make([][][]recipes.ID, lanes)
	var work sync.WaitGroup
	for lane := range outputs {
		work.Go(func() {
			for made := 0; made <= total/lanes; {
				p := startIDs(t, srv, 2*lanes-2, 500*time.Millisecond)
				// On a busy machine it may lose its session and end before.
				if !p.until(func(ids []recipes.ID) bool { return len(ids) >= each }) && p.err != nil {
					t.Errorf("a process ended: %v", p.err)
					return
				}
				p.kill()
				made += len(p.ids)
				outputs[lane] = append(outputs[lane], p.ids)
			}
		})
	}
	work.Wait()
	numbers := make(map[int]int)
	for _, lives := range outputs {
		for _, ids := range lives {
			if len(ids) > 0 {
				numbers[ids[0].Worker(recipes.DefaultLayout())]++
			}
		}
	}
	t.Logf("claims by number: %v", numbers)
	unique(t, recipes.DefaultLayout(), slices.Concat(outputs...)...)
}
