package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/retry"
)

// The tests in this file repeat, against a real server over TCP, what does
// not need the faults that only the embedded one has.

// soon returns once f is true, and fails the test after ten seconds.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestApache(t *testing.T) {
	ens := testenv.StartApache(t, 1, apache.WithContainerCheckInterval(100*time.Millisecond))
	t.Run("operations", func(t *testing.T) { apacheOperations(t, ens) })
	t.Run("watches", func(t *testing.T) { apacheWatches(t, ens) })
	t.Run("containers", func(t *testing.T) { apacheContainers(t, ens) })
	t.Run("auth", func(t *testing.T) { apacheAuth(t, ens) })
	t.Run("protected", func(t *testing.T) { apacheProtected(t, ens) })
	t.Run("too large", func(t *testing.T) { apacheTooLarge(t, ens) })
	t.Run("multi", func(t *testing.T) { apacheMulti(t, ens) })
	t.Run("silence", func(t *testing.T) { apachePause(t, ens) })
	t.Run("restart under load", func(t *testing.T) { apacheRestart(t, ens) })
	t.Run("wiped", func(t *testing.T) { apacheWiped(t, ens) })
}

func apacheOperations(t *testing.T, ens *apache.Ensemble) {
	for _, op := range operations() {
		c := connect(t, ens, framework.WithNamespace("ops"))
		create(t, c, "/n", "", framework.OrSet())
		if err := op.do(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		err := c.Delete(t.Context(), "/", framework.AnyVersion, framework.WithChildren())
		if err != nil && !errors.Is(err, framework.ErrNoNode) { // the reaper was faster
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// received returns the event of w, or 0 if none has come before a later
// request of the same session is answered.
func received(t *testing.T, c *framework.Client, w *framework.Watch) framework.EventType {
	t.Helper()
	if err := c.Sync(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	select {
	case ev := <-w.Event():
		return ev.Type
	default:
		return 0
	}
}

func apacheWatches(t *testing.T, ens *apache.Ensemble) {
	for _, away := range []bool{false, true} {
		for _, tc := range watchCases() {
			t.Run(fmt.Sprint(tc.name, away), func(t *testing.T) {
				c, other := connect(t, ens), connect(t, ens)
				st := record(c)
				tc.setUp(t, other)
				if err := c.Sync(t.Context(), "/"); err != nil {
					t.Fatal(err)
				}
				w := tc.watch(t, c, "/n")
				if away {
					c.Session().DropConnection()
					st.want(t, framework.Suspended)
				}
				tc.do(t, other)
				if away {
					st.want(t, framework.Reconnected)
					soon(t, "watch armed or fired", func() bool { return len(w.Event()) > 0 || tc.want == 0 })
				}
				if got := received(t, c, w); got != tc.want {
					t.Fatalf("event %v, want %v", got, tc.want)
				}
				w.Stop()
				soon(t, "nothing in flight", func() bool { return c.InFlight() == 0 && c.Session().Watched() == 0 })
				_ = other.Delete(t.Context(), "/n", framework.AnyVersion, framework.WithChildren())
			})
		}
	}
}

func apacheContainers(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens)
	create(t, c, "/box/a/n", "", framework.WithParents())
	remove(t, c, "/box/a/n")
	create(t, c, "/ttl", "", framework.TTL(300*time.Millisecond))
	made := create(t, c, "/ttl-", "", framework.TTL(300*time.Millisecond), framework.WithMode(framework.PersistentSequential))
	for _, path := range []string{"/box", "/ttl", made.Path} {
		soon(t, path+" is reaped", func() bool {
			_, err := c.Exists(t.Context(), path)
			return errors.Is(err, framework.ErrNoNode)
		})
	}
	// Reaped at every moment, parents never stop a create.
	for range 50 {
		var siblings []string
		made := create(t, c, "/box/a/b/lock-", "", protected(&siblings)...)
		remove(t, c, made.Path)
		time.Sleep(7 * time.Millisecond)
	}
}

func apacheAuth(t *testing.T, ens *apache.Ensemble) {
	acl := func(string) []framework.ACL { return framework.AuthACL(framework.PermAll) }
	c := connect(t, ens, framework.WithAuth("digest", []byte("ann:pw")), framework.WithACLProvider(acl))
	create(t, c, "/auth/n", "", framework.WithParents())
	got, _, err := c.GetACL(t.Context(), "/auth")
	if want := framework.DigestACL(framework.PermAll, "ann", "pw"); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	st := record(c)
	c.Session().DropConnection()
	st.want(t, framework.Suspended)
	if _, _, err := c.Get(t.Context(), "/auth/n"); err != nil { // the first request of the new connection
		t.Fatal(err)
	}
	stranger := connect(t, ens, framework.WithAuth("digest", []byte("ann:other")))
	began := time.Now()
	_, err = stranger.Create(t.Context(), "/auth/m", nil, framework.Protected(), framework.WithParents())
	if !errors.Is(err, framework.ErrNoAuth) || time.Since(began) > time.Second {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	if err := c.Delete(t.Context(), "/auth", framework.AnyVersion, framework.WithChildren()); err != nil {
		t.Fatal(err)
	}
	refused := newClient(t, ens, framework.WithAuth("no-such-scheme", nil), framework.WithRetry(retry.OneTime(time.Millisecond)))
	if _, err := refused.Exists(t.Context(), "/"); err != nil && !errors.Is(err, framework.ErrAuthFailed) {
		t.Fatal(err)
	}
}

// apacheProtected breaks the connection from the client's side at random
// moments of creates: each makes one node, which its session owns.
func apacheProtected(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens, framework.WithReconnect(retry.Forever(time.Millisecond)))
	var cuts atomic.Int64
	var paths []string
	for i := range 100 {
		// A cut costs a create one of its six tries, so three leave it some
		// however slow the machine is.
		made := make(chan struct{})
		var cutter sync.WaitGroup
		cutter.Go(func() {
			for k := range i % 4 {
				select {
				case <-made:
					return
				case <-time.After(time.Duration((i*97+k*431)%2000) * time.Microsecond):
				}
				if s := c.Session(); s != nil {
					s.DropConnection()
					cuts.Add(1)
				}
			}
		})
		var siblings []string
		got := create(t, c, "/protected/lock-", "", protected(&siblings)...)
		close(made)
		cutter.Wait()
		if got.Stat.EphemeralOwner != got.Session.ID() {
			t.Fatalf("%+v", got)
		}
		paths = append(paths, got.Path)
	}
	if cuts.Load() == 0 {
		t.Error("no connection was cut")
	}
	names, _, err := connect(t, ens).Children(t.Context(), "/protected")
	if err != nil || len(names) != len(paths) {
		t.Fatalf("%d nodes for %d creates, %v", len(names), len(paths), err)
	}
	for _, path := range paths {
		if _, name := framework.SplitPath(path); !slices.Contains(names, name) {
			t.Fatalf("no node %s", path)
		}
	}
}

func apacheTooLarge(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens)
	st := record(c)
	const header = 8 + 4 + 2 + 4 + 4
	create(t, c, "/l", "")
	if _, err := c.Set(t.Context(), "/l", make([]byte, 1<<20-1-header), framework.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(t.Context(), "/l", make([]byte, 1<<20-header), framework.AnyVersion); !errors.Is(err, framework.ErrTooLarge) {
		t.Fatal(err)
	}
	if data, _, err := c.Get(t.Context(), "/l"); err != nil || len(data) != 1<<20-1-header || len(st.ch) != 0 {
		t.Fatal(len(data), err, len(st.ch))
	}
}

func apacheMulti(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens)
	results, err := c.Multi(t.Context(),
		framework.CreateOp("/multi", nil, framework.Persistent),
		framework.CreateOp("/multi/s", nil, framework.EphemeralSequential),
		framework.CreateOp("/multi/box", nil, framework.Container),
		framework.SetOp("/multi", []byte("x"), 0),
		framework.CheckOp("/multi", 1))
	if err != nil || results[1].Path != "/multi/s0000000000" || results[3].Stat.Version != 1 {
		t.Fatalf("%+v, %v", results, err)
	}
	if !results[1].Stat.IsZero() {
		t.Errorf("the server tells more of a created node than Result.Stat says: %+v", results[1].Stat)
	}
	// One transaction, and one czxid for all that it makes.
	mine := framework.CreateOp("/multi/lease-", nil, framework.EphemeralSequential).Protected().In(c.Session())
	c.Session().DropConnection()
	results, err = c.Multi(t.Context(), mine, mine)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Exists(t.Context(), results[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Exists(t.Context(), results[1].Path)
	if err != nil || first.Czxid != second.Czxid || first.Czxid == 0 || first.EphemeralOwner != c.Session().ID() {
		t.Fatalf("%+v, %+v, %v", first, second, err)
	}
	results, err = c.Multi(t.Context(),
		framework.SetOp("/multi", nil, 1), framework.CheckOp("/multi", 7), framework.DeleteOp("/multi/box", 0))
	if !errors.Is(err, framework.ErrBadVersion) || !errors.Is(results[0].Err, framework.ErrRolledBack) ||
		!errors.Is(results[1].Err, framework.ErrBadVersion) || !errors.Is(results[2].Err, framework.ErrRolledBack) {
		t.Fatalf("%+v, %v", results, err)
	}
}

// apachePause stops the server as a silent network would: Lost comes by the
// local deadline.
func apachePause(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens, framework.WithSessionTimeout(2*time.Second))
	s, st := c.Session(), record(c)
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	if _, err := c.Exists(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	if err := ens.Server(0).Pause(); err != nil {
		t.Fatal(err)
	}
	<-s.Context().Done()
	want := s.Timeout() - framework.Margin(s.Timeout())
	if took := time.Since(began); took < want || took > want+s.Timeout()/3+300*time.Millisecond {
		t.Fatalf("lost after %v, want %v, or a ping's interval more", took, want)
	}
	if err := ens.Server(0).Resume(); err != nil {
		t.Fatal(err)
	}
	st.want(t, framework.Suspended, framework.Lost)
	if got := st.next(t); got.State != framework.Reconnected || got.Session == s.ID() {
		t.Fatalf("%+v", got)
	}
}

// apacheRestart restarts the server under load, with a thousand live watches:
// each sees the one change that was made while its client was away.
func apacheRestart(t *testing.T, ens *apache.Ensemble) {
	const n = 1000
	c := connect(t, ens, framework.WithSessionTimeout(30*time.Second))
	st := record(c)
	create(t, c, "/many", "")
	watches := make([]*framework.Watch, n)
	var wg sync.WaitGroup
	for i := range watches {
		wg.Go(func() {
			path := fmt.Sprintf("/many/%d", i)
			if _, err := c.Create(t.Context(), path, nil); err != nil {
				t.Error(err)
			}
			watches[i] = getW(t, c, path)
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _, err := c.Get(ctx, "/many")
				if err != nil && ctx.Err() == nil {
					t.Errorf("under load: %v", err)
				}
			}
		})
	}
	for range 2 {
		if err := ens.Server(0).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		st.want(t, framework.Suspended, framework.Reconnected)
	}
	other := connect(t, ens)
	c.Session().DropConnection()
	for i := range watches {
		wg.Go(func() { set(t, other, fmt.Sprintf("/many/%d", i), "x") })
	}
	for i, w := range watches {
		select {
		case ev := <-w.Event():
			if ev.Type != framework.EventDataChanged {
				t.Fatalf("watch %d: %+v", i, ev)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("watch %d missed its change", i)
		}
	}
	cancel()
	wg.Wait()
	soon(t, "nothing left", func() bool { return c.Session().Watched() == 0 && c.InFlight() == 0 })
	if err := c.Delete(t.Context(), "/many", framework.AnyVersion, framework.WithChildren()); err != nil {
		t.Fatal(err)
	}
}

// apacheWiped gives the server an empty disk: the session cannot be resumed,
// which no server says, and ends at its deadline.
func apacheWiped(t *testing.T, ens *apache.Ensemble) {
	c := connect(t, ens, framework.WithSessionTimeout(2*time.Second))
	st := record(c)
	create(t, c, "/before", "")
	if err := ens.Server(0).Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := ens.Server(0).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.want(t, framework.Suspended, framework.Lost, framework.Reconnected)
	if _, err := c.Exists(t.Context(), "/before"); !errors.Is(err, framework.ErrNoNode) {
		t.Fatal(err)
	}
}
