package framework_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// TestProtectedUnderRandomFaults runs creates, some of which are given up,
// through lost replies, cuts, silences and expiries: in the end there is one
// node for each that succeeded and whose session lives, and no other.
func TestProtectedUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]framework.Mode{
			framework.EphemeralSequential, framework.PersistentSequential, framework.Ephemeral, framework.Persistent,
		}).Draw(rt, "mode")
		script := rapid.SliceOfN(rapid.Custom(drawCreateStep), 3, 25).Draw(rt, "script")
		var problem error
		synctest.Test(t, func(t *testing.T) {
			srv := startServer(t)
			m := &createModel{srv: srv, c: connect(t, srv), mode: mode}
			for _, s := range script {
				m.step(s)
			}
			srv.Unsilence()
			m.wg.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			problem = m.check()
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

type createStep struct {
	What, Op, Patience, Pause int
}

func drawCreateStep(t *rapid.T) createStep {
	return createStep{
		What:     rapid.IntRange(0, 11).Draw(t, "what"),
		Op:       rapid.IntRange(0, 4).Draw(t, "op"),
		Patience: rapid.SampledFrom([]int{0, 1, 40, 500, 60_000}).Draw(t, "patience"),
		Pause:    rapid.SampledFrom([]int{0, 0, 1, 100, 2000}).Draw(t, "pause"),
	}
}

type createModel struct {
	srv  *embedded.Server
	c    *framework.Client
	mode framework.Mode
	wg   sync.WaitGroup

	mu   sync.Mutex
	made []framework.Created
}

func (m *createModel) step(s createStep) {
	op := []string{"create2", "getChildren2", "createContainer", "sync", "exists"}[s.Op]
	switch s.What {
	case 0, 1, 2, 3, 4:
		m.create(time.Duration(s.Patience) * time.Millisecond)
	case 5, 6:
		m.srv.LoseReply(isOp(op))
	case 7:
		m.srv.CutBefore(isOp(op))
	case 8:
		m.srv.DropConnections()
	case 9:
		m.srv.Silence()
		time.AfterFunc(400*time.Millisecond, m.srv.Unsilence)
	case 10:
		m.srv.ReapContainers()
	case 11:
		if session := m.c.Session(); session != nil && s.Op == 0 {
			_ = m.srv.ExpireSession(session.ID())
		}
	}
	time.Sleep(time.Duration(s.Pause) * time.Millisecond)
}

func (m *createModel) create(patience time.Duration) {
	m.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var siblings []string
		made, err := m.c.Create(ctx, "/p/n-", nil, append(protected(&siblings), framework.WithMode(m.mode))...)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.made = append(m.made, made)
		}
	})
}

func (m *createModel) check() error {
	var want []string
	for _, made := range m.made {
		ephemeral := m.mode == framework.Ephemeral || m.mode == framework.EphemeralSequential
		if ephemeral && made.Stat.EphemeralOwner != made.Session.ID() {
			return fmt.Errorf("%+v is not its session's", made)
		}
		if !ephemeral || made.Session.Err() == nil {
			_, name := framework.SplitPath(made.Path)
			want = append(want, name)
		}
	}
	node, _ := m.srv.Node("/p")
	got := slices.Sorted(slices.Values(node.Children))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("nodes %q, want %q", got, want)
	}
	if n := m.c.InFlight(); n != 0 {
		return fmt.Errorf("%d requests in flight", n)
	}
	return nil
}
