package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/recipes"
)

// The conformance tests need nothing of a server but its protocol: their
// faults are the network's. They must pass on any, with every kind of lock
// that one holds at a time.
var conformance = map[string]func(w *world){
	"order and exclusion":     conformOrder,
	"nodes":                   conformNodes,
	"try":                     conformTry,
	"re-entry":                conformReentry,
	"foreign and dead":        conformForeign,
	"reconnect":               conformReconnect,
	"lost, silent":            func(w *world) { w.conformLoss((*link).silence) },
	"lost, reset":             func(w *world) { w.conformLoss(func(l *link) { l.refuse(true); l.drop() }) },
	"session lost in line":    conformSessionLostInLine,
	"gives up":                conformGivesUp,
	"node deleted":            conformNodeDeleted,
	"revocation":              conformRevocation,
	"participants":            conformParticipants,
	"root deleted":            conformRootDeleted,
	"contention":              conformContention,
	"cut at every write":      func(w *world) { w.conformCuts((*link).cutAtWrite) },
	"cut at every read":       func(w *world) { w.conformCuts((*link).cutAtRead) },
	"cancelled at every step": conformCancels,
	"grace":                   conformGrace,
	"not to be read":          conformHidden,
}

// conformers returns the tests by their names: those of all, of the given kinds,
// and those of semaphores and read-write locks only.
func conformers(kinds ...family) map[string]func(w *world) {
	tests := make(map[string]func(w *world))
	for name, test := range conformance {
		for _, f := range kinds {
			if f.once && (name == "re-entry" || name == "revocation") {
				continue
			}
			tests[f.name+", "+name] = f.of(test)
		}
	}
	for name, test := range permitConformance {
		tests["semaphore, "+name] = semaphoresOf(1).of(test)
	}
	for name, test := range generatorConformance {
		tests["generators, "+name] = mutexes.of(test)
	}
	for name, test := range readWriteConformance {
		tests["read-write lock, "+name] = writers.of(test)
	}
	return tests
}

// crowds are about numbers, on machines that may be slow: none of their sessions
// ends. The line is the same for all kinds.
var crowds = map[string]func(w *world){"mutex, crowd": conformCrowd}

func TestConformance(t *testing.T) {
	all := conformers(mutexes, semaphoreMutexes, writers)
	for _, tests := range []map[string]func(w *world){all, crowds} {
		for name, test := range tests {
			t.Run("embedded/"+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, test)
			})
		}
	}
	// The bubbles see to all kinds. What TCP and the clock of the machine add is
	// the same for each.
	t.Run("embedded over TCP", func(t *testing.T) {
		t.Parallel()
		conformOver(t, listen(t, conformTick), conformTimeout, conformers(mutexes))
		conformOver(t, listen(t, crowdTimeout/20), crowdTimeout, crowds)
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		longest := fmt.Sprintf("maxSessionTimeout=%d", crowdTimeout.Milliseconds())
		connect := testenv.StartApache(t, 1, apache.WithTick(conformTick), apache.WithConfig(longest)).Connect()
		conformOver(t, connect, conformTimeout, all)
		conformOver(t, connect, crowdTimeout, crowds)
	})
}

const (
	// conformTick allows for sessions of 1 to 10 s.
	conformTick    = 500 * time.Millisecond
	conformTimeout = 2 * time.Second
	crowdTimeout   = 100 * time.Second
)

// listen starts an embedded server, and returns its address.
func listen(t *testing.T, tick time.Duration) string {
	t.Helper()
	srv, err := embedded.Start(embedded.WithTick(tick))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	address, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return address.String()
}

// conformOver runs the tests in real time, with sessions of the given timeout.
// They run at the same time, each below a chroot of its own.
func conformOver(t *testing.T, connect string, timeout time.Duration, tests map[string]func(w *world)) {
	for name, test := range tests {
		chroot := "/" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, err := ensemble.NewFixed(connect)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, servers, timeout)
			admin := w.client()
			w.put(admin, chroot)
			if w.servers, err = ensemble.NewFixed(connect + chroot); err != nil {
				t.Fatal(err)
			}
			defer w.closeClients()
			test(w)
			w.eventually("no contender is left", func() bool {
				n := 0
				for _, parent := range w.family.parents(chroot + root) {
					n += len(w.alive(admin, parent))
				}
				return n == 0
			})
		})
	}
}

// alive returns the ephemeral children of path, with when they were created.
func (w *world) alive(c *framework.Client, path string) map[string]int64 {
	w.Helper()
	created := make(map[string]int64)
	for _, name := range w.children(c, path) {
		stat, err := c.Exists(w.ctx, framework.JoinPath(path, name))
		switch {
		case errors.Is(err, framework.ErrNoNode):
		case err != nil:
			w.Fatal(err)
		case stat.EphemeralOwner != 0:
			created[framework.JoinPath(path, name)] = stat.Czxid
		}
	}
	return created
}

// last returns the path of the contender that joined last.
func (w *world) last(c *framework.Client) string {
	w.Helper()
	created := w.alive(c, w.family.line(root))
	if len(created) == 0 {
		w.Fatal("nobody is in line")
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(created)), func(a, b string) int {
		return cmp.Compare(created[a], created[b])
	})
}

func conformOrder(w *world) {
	var ms []recipes.InterProcessLock
	for range 3 {
		m := w.fresh()
		ms = append(ms, m, m)
	}
	lease := w.acquire(ms[0])
	as := w.queue(ms...)
	for i, a := range as {
		for _, later := range as[i:] {
			if later.returned() {
				w.Error("granted while the lock is held")
			}
		}
		w.release(lease)
		lease = w.wait(a)
	}
	w.release(lease)
}

func conformNodes(w *world) {
	c := w.client()
	lease := w.acquire(w.lock(c, recipes.WithData([]byte("me"))))
	data, stat, err := c.Get(w.ctx, lease.Path())
	if err != nil || string(data) != "me" || stat.EphemeralOwner != lease.Session().ID() || stat.Czxid != lease.Token() {
		w.Errorf("the node holds %q, %+v, %v", data, stat, err)
	}
	if _, err := c.Multi(w.ctx, lease.Check()); err != nil {
		w.Errorf("Check: %v", err)
	}
	check := lease.Check()
	w.release(lease)
	_, err = c.Multi(w.ctx, check)
	wantErr(w, "Check after the release", err, framework.ErrNoNode)
}

func conformTry(w *world) {
	lease := w.acquire(w.fresh())
	m := w.fresh()
	_, err := m.TryAcquire(w.ctx)
	wantErr(w, "TryAcquire", err, recipes.ErrHeld)
	w.release(lease)
	w.eventually("the lock is free", func() bool {
		lease, err = m.TryAcquire(w.ctx)
		return err == nil
	})
	w.granted(root, lease)
	w.release(lease)
}

func conformReentry(w *world) {
	m := w.fresh()
	lease := w.acquire(m)
	again, err := m.Acquire(lease.Context(w.ctx))
	if err != nil {
		w.Fatal(err)
	}
	w.release(lease)
	_, err = w.fresh().TryAcquire(w.ctx)
	wantErr(w, "TryAcquire after one release of two", err, recipes.ErrHeld)
	w.release(again)
	w.release(w.acquire(m))
}

func conformForeign(w *world) {
	c := w.client()
	line, label := w.family.line(root), w.family.label
	names := []string{"0", "0000000000", "workid", "-" + label, "_c_x-" + label + "0000000000", label + "0000000000"}
	for _, name := range names {
		w.put(c, line+"/"+name)
	}
	a, b := w.fresh(), w.fresh()
	for range 2 {
		lease := w.acquire(a)
		waiting := w.queue(b)[0]
		w.release(lease)
		w.release(w.wait(waiting))
	}
	for _, name := range names {
		if !strings.Contains(w.log.String(), "child="+line+"/"+name+"\n") {
			w.Errorf("the log does not name %s", name)
		}
	}
}

func conformReconnect(w *world) {
	c := w.client()
	lease := w.acquire(w.lock(c))
	ctx := lease.Context(w.ctx)
	other := w.client()
	m := w.lock(other)
	as := w.queue(m, w.fresh(), m)
	for _, c := range []*framework.Client{c, other} {
		w.link(c).refuse(true)
		w.link(c).drop()
		time.Sleep(w.timeout / 5)
		w.link(c).refuse(false)
		if err := c.WaitConnected(w.ctx); err != nil {
			w.Fatal(err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		w.Errorf("the lease's context ended: %v", err)
	}
	w.link(other).drop()
	w.release(lease) // the first waiter may have to find out by itself
	for _, a := range as {
		w.release(w.wait(a))
	}
}

func (w *world) conformLoss(fault func(l *link)) {
	c := w.client()
	lease := w.acquire(w.lock(c))
	ctx := lease.Context(w.ctx)
	waiting := w.queue(w.fresh())[0]
	fault(w.link(c))
	<-ctx.Done()
	lost := time.Now()
	wantErr(w, "the cause", context.Cause(ctx), recipes.ErrLost, framework.ErrSessionLost)
	wantErr(w, "the lease", lease.Err(), recipes.ErrLost)
	next := w.wait(waiting)
	// The grant has looked at the lease and found it lost. In real time the
	// order in which two goroutines run says less.
	if w.srv != nil && !waiting.at.After(lost) {
		w.Errorf("the next one was granted %v before the lease was lost", lost.Sub(waiting.at))
	}
	w.release(next)
}

func conformSessionLostInLine(w *world) {
	lease := w.acquire(w.fresh())
	c := w.client()
	waiting := w.queue(w.lock(c))[0]
	session := c.Session()
	w.link(c).refuse(true)
	w.link(c).drop()
	<-session.Context().Done()
	w.link(c).refuse(false)
	if err := c.WaitConnected(w.ctx); err != nil {
		w.Fatal(err)
	}
	w.release(lease)
	next := w.wait(waiting)
	if next.Session() == session {
		w.Error("granted in the session that was lost")
	}
	w.release(next)
}

func conformGivesUp(w *world) {
	c := w.client()
	lease := w.acquire(w.fresh())
	as := w.queue(w.fresh(), w.fresh(), w.fresh())
	for _, i := range []int{1, 0} {
		as[i].cancel()
		<-as[i].done
		wantErr(w, "Acquire", as[i].err, context.Canceled)
	}
	w.shortly("the nodes are gone", func() bool { return len(w.nodes(c, root)) == 2 })
	if as[2].returned() {
		w.Error("granted while the lock is held")
	}
	w.release(lease)
	w.release(w.wait(as[2]))
}

func conformNodeDeleted(w *world) {
	outsider := w.client()
	lease := w.acquire(w.fresh())
	ctx := lease.Context(w.ctx)
	waiting := w.queue(w.fresh())[0]
	mine := w.last(outsider)
	w.remove(outsider, mine)
	w.eventually("the waiter joins again", func() bool { return len(w.nodes(outsider, root)) == 2 })
	w.returned(lease)
	w.remove(outsider, lease.Path())
	<-ctx.Done()
	wantErr(w, "the cause", context.Cause(ctx), recipes.ErrLost)
	next := w.wait(waiting)
	if next.Path() == mine {
		w.Error("the deleted node was granted")
	}
	wantErr(w, "Release", lease.Release(), recipes.ErrLost)
	w.release(next)
}

func conformRevocation(w *world) {
	outsider := w.client()
	heard := make(chan *recipes.Lease, 10)
	m := w.fresh(recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l }))
	lease := w.acquire(m)
	waiting := w.queue(m)[0]
	w.revoke(outsider, lease.Path())
	w.revoke(outsider, w.last(outsider))
	w.release(<-heard)
	if next := <-heard; next != w.wait(waiting) {
		w.Error("the listener heard of another lease")
	}
	w.release(waiting.lease)
}

func conformParticipants(w *world) {
	c := w.client()
	lease := w.acquire(w.fresh())
	as := w.queue(w.fresh(), w.fresh())
	observer := w.lock(c).(interface {
		Participants(ctx context.Context) ([]recipes.Participant, error)
	})
	ps, err := observer.Participants(w.ctx)
	if err != nil || len(ps) != 3 || !ps[0].Holder || ps[0].Path != lease.Path() || ps[1].Holder || ps[0].SessionID != lease.Session().ID() {
		w.Errorf("Participants: %+v, %v", ps, err)
	}
	w.release(lease)
	for _, a := range as {
		w.release(w.wait(a))
	}
}

func conformRootDeleted(w *world) {
	c := w.client()
	m := w.fresh()
	for range 3 {
		w.release(w.acquire(m))
		if err := c.Delete(w.ctx, root, framework.AnyVersion, framework.WithChildren()); err != nil {
			w.Fatal(err)
		}
	}
	lease := w.acquire(m)
	waiting := w.queue(w.fresh())[0]
	w.returned(lease)
	var deletions []framework.Op
	paths := append(w.nodes(c, root), w.family.parents(root)...)
	if w.family.leases != "" {
		paths = append(paths, root)
	}
	for _, path := range paths {
		deletions = append(deletions, framework.DeleteOp(path, framework.AnyVersion))
	}
	if _, err := c.Multi(w.ctx, deletions...); err != nil {
		w.Fatal(err)
	}
	w.release(w.wait(waiting))
	wantErr(w, "Release", lease.Release(), recipes.ErrLost)
}

// A thousand waiters reconnect and are let in in order: that the tokens rise
// shows it. They say themselves when they stand in line; nothing is waited for
// by the clock.
func conformCrowd(w *world) {
	const clients, waiters = 10, 1000
	observer := w.client()
	lease := w.acquire(w.lock(observer))
	here := make(chan struct{}, waiters)
	say := func() {
		select {
		case here <- struct{}{}:
		default: // all have been heard
		}
	}
	joined := recipes.WithWaitListener(func(e recipes.Wait) {
		if e.Event == recipes.WaitJoined {
			say()
		}
	})
	var cs []*framework.Client
	var ms []recipes.InterProcessLock
	for range clients {
		c := w.client()
		cs, ms = append(cs, c), append(ms, w.lock(c, joined))
	}
	var done sync.WaitGroup
	for i := range waiters {
		done.Go(func() {
			defer say() // also if Acquire fails
			w.release(w.acquire(ms[i%clients]))
		})
	}
	for range waiters {
		<-here
	}
	if n := len(w.nodes(observer, root)); n != waiters+1 {
		w.Errorf("%d nodes, want one for the holder and each of %d waiters", n, waiters)
	}
	for _, c := range cs {
		w.link(c).drop()
	}
	w.release(lease)
	done.Wait()
}

func conformContention(w *world) {
	const clients, each, rounds = 4, 3, 8
	var done sync.WaitGroup
	for range clients {
		c := w.client()
		m := w.lock(c)
		for i := range each {
			done.Add(1)
			go func() {
				defer done.Done()
				for r := range rounds {
					ctx, cancel := context.WithTimeout(w.ctx, w.timeout*time.Duration((i+r)%4+1)/20)
					lease, err := m.Acquire(ctx)
					cancel()
					if err != nil {
						wantErr(w, "Acquire", err, context.DeadlineExceeded)
						continue
					}
					w.granted(root, lease)
					time.Sleep(w.timeout / 500)
					if (i+r)%6 == 0 {
						w.link(c).drop()
					}
					w.release(lease)
				}
			}()
		}
	}
	done.Wait()
}

// conformCuts breaks the connection at one read or write after the other, in
// an acquire that waits and a release.
func (w *world) conformCuts(cutAt func(l *link, n int)) {
	other := w.fresh()
	for n := 1; n <= 12; n++ {
		c := w.client()
		lease := w.acquire(other)
		cutAt(w.link(c), n)
		waiting := w.attempt(w.lock(c))
		time.Sleep(w.timeout / 40)
		w.release(lease)
		w.release(w.wait(waiting))
		if err := c.Close(); err != nil {
			w.Error(err)
		}
	}
}

// conformCancels gives up at one moment after the other: in real time they are
// random ones.
func conformCancels(w *world) {
	c, observer := w.client(), w.client()
	m := w.lock(c)
	lease := w.acquire(w.fresh())
	for n := range 200 {
		ctx, cancel := context.WithCancel(w.ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := m.Acquire(ctx)
			wantErr(w, "Acquire", err, context.Canceled)
		}()
		time.Sleep(time.Duration(n) * 20 * time.Microsecond)
		cancel()
		<-ended
	}
	w.shortly("only the holder is left", func() bool { return len(w.nodes(observer, root)) == 1 })
	w.release(lease)
	w.release(w.acquire(m))
}

// A lock stays closed after a failure, and not after a release.
func conformGrace(w *world) {
	outsider := w.client()
	grace := recipes.GraceAfterCrash(w.timeout / 4)
	failed := w.acquire(w.fresh(grace))
	as := w.queue(w.fresh(grace), w.fresh(grace))
	began := time.Now()
	w.remove(outsider, failed.Path())
	<-failed.Done()
	w.returned(failed)
	next := w.wait(as[0])
	if took := time.Since(began); took < w.timeout/4 {
		w.Errorf("let in %v after the failure", took)
	}
	w.release(next)
	w.release(w.wait(as[1]))
	if left := w.children(outsider, markers); len(left) > 0 {
		w.Errorf("markers are left: %v", left)
	}
}

// One waits behind a node that it may not read.
func conformHidden(w *world) {
	holder := w.acquire(w.lock(w.secretive()))
	as := w.queue(w.fresh(), w.lock(w.secretive()), w.fresh())
	w.release(holder)
	for _, a := range as {
		w.release(w.wait(a))
	}
}
