package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// TestRandom has a few clients take, try for, give back and give up all kinds
// of locks, one within another too, while sessions expire, connections break,
// replies are lost and nodes are deleted, and compares what is granted with a
// model: exclusion, limits, tokens that rise from holder to holder, and in the
// end nobody who waits in vain and nothing left.
func TestRandom(t *testing.T) { playRandomly(t, players, 0) }

// TestRandomGrace is TestRandom with locks that have a grace, and no grant in
// the grace of a holder that failed and was in the way.
func TestRandomGrace(t *testing.T) {
	playRandomly(t, func(c *framework.Client) []player {
		ps, _ := lonePlayers(c, recipes.GraceAfterCrash(grace))
		return ps
	}, grace)
}

func playRandomly(t *testing.T, players func(c *framework.Client) []player, grace time.Duration) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.Custom(drawLockStep), 5, 60).Draw(rt, "script")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			w, stop := startWorld(t)
			defer stop()
			m := newLockModel(w, players, grace)
			for _, s := range script {
				m.step(s)
			}
			problems = m.finish()
		})
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// A claim is what a grant takes of a resource, of which there are one or more
// units. To share is to take one of a great many.
type claim struct {
	resource string
	units    int
	of       int
}

const allUnits = 1 << 20

func exclusive(path string) claim { return claim{path, allUnits, allUnits} }

// A player is one kind of lock in the hands of one client.
type player struct {
	name  string
	claim []claim
	enter func(ctx context.Context, try bool) ([]grantee, error)
}

// A grantee is what a lock hands out.
type grantee interface {
	Err() error
	Release() error
	Token() int64
	Context(parent context.Context) context.Context
}

func lockPlayer(name string, l recipes.InterProcessLock, claims ...claim) player {
	return player{name, claims, func(ctx context.Context, try bool) ([]grantee, error) {
		enter := l.Acquire
		if try {
			enter = l.TryAcquire
		}
		lease, err := enter(ctx)
		if err != nil {
			return nil, err
		}
		return []grantee{lease}, nil
	}}
}

// semaphorePlayer wants n permits of three.
func semaphorePlayer(c *framework.Client, n int) player {
	const path, of = "/semaphore", 3
	s := recipes.NewInterProcessSemaphore(c, path, recipes.FixedLimit(of))
	return player{fmt.Sprintf("semaphore for %d", n), []claim{{path, n, of}}, func(ctx context.Context, try bool) ([]grantee, error) {
		enter := s.AcquireN
		if try {
			enter = s.TryAcquireN
		}
		leases, err := enter(ctx, n)
		var held []grantee
		for _, l := range leases {
			held = append(held, l)
		}
		return held, err
	}}
}

func multiPlayer(l *recipes.InterProcessMultiLock, claims ...claim) player {
	return player{"multi lock", claims, func(ctx context.Context, try bool) ([]grantee, error) {
		enter := l.Acquire
		if try {
			enter = l.TryAcquire
		}
		leases, err := enter(ctx)
		if err != nil {
			return nil, err
		}
		return []grantee{leases}, nil
	}}
}

// downgradePlayer writes for a moment, and then reads.
func downgradePlayer(rw *recipes.InterProcessReadWriteLock) player {
	return player{"read lock of a writer", []claim{{rw.Path(), 1, allUnits}}, func(ctx context.Context, try bool) ([]grantee, error) {
		write, read := rw.WriteLock().Acquire, rw.ReadLock().Acquire
		if try {
			write, read = rw.WriteLock().TryAcquire, rw.ReadLock().TryAcquire
		}
		writing, err := write(ctx)
		if err != nil {
			return nil, err
		}
		defer writing.Release()
		time.Sleep(soon) // others come meanwhile
		reading, err := read(writing.Context(ctx))
		if err != nil {
			return nil, err
		}
		return []grantee{reading}, nil
	}}
}

// lonePlayers are the locks that one may hold alone, and what excludes all of
// them.
func lonePlayers(c *framework.Client, opts ...recipes.Option) ([]player, player) {
	mutex := recipes.NewInterProcessMutex(c, "/mutex", opts...)
	single := recipes.NewInterProcessSemaphoreMutex(c, "/semaphore-mutex", opts...)
	rw := recipes.NewInterProcessReadWriteLock(c, "/rw", opts...)
	all := recipes.NewInterProcessMultiLock([]recipes.InterProcessLock{single, rw.WriteLock(), mutex})
	return []player{
		lockPlayer("mutex", mutex, exclusive("/mutex")),
		lockPlayer("semaphore mutex", single, exclusive("/semaphore-mutex")),
		lockPlayer("read lock", rw.ReadLock(), claim{"/rw", 1, allUnits}),
		lockPlayer("write lock", rw.WriteLock(), exclusive("/rw")),
		downgradePlayer(rw), downgradePlayer(rw),
	}, multiPlayer(all, exclusive("/semaphore-mutex"), exclusive("/rw"), exclusive("/mutex"))
}

// players are the locks that take part, on the same few paths for each client.
func players(c *framework.Client) []player {
	ps, all := lonePlayers(c)
	return append(ps, semaphorePlayer(c, 1), semaphorePlayer(c, 1), semaphorePlayer(c, 2), semaphorePlayer(c, 3), all)
}

type lockStep struct {
	What, Client, Player, Pick int
	Patience, Pause            time.Duration
}

func drawLockStep(t *rapid.T) lockStep {
	return lockStep{
		What:   rapid.IntRange(0, len(lockSteps)-1).Draw(t, "what"),
		Client: rapid.IntRange(0, 2).Draw(t, "client"),
		Player: rapid.IntRange(0, 99).Draw(t, "player"),
		Pick:   rapid.IntRange(0, 99).Draw(t, "pick"),
		Patience: rapid.SampledFrom([]time.Duration{
			0, 0, time.Microsecond, time.Millisecond, time.Second, 20 * time.Second,
		}).Draw(t, "patience"), // 0 is for ever
		Pause: rapid.SampledFrom([]time.Duration{
			0, 0, time.Microsecond, time.Millisecond, time.Second, 15 * time.Second,
		}).Draw(t, "pause"),
	}
}

// lockSteps are what can happen; the likelier the more often it is there.
var lockSteps = []func(m *lockModel, s lockStep){
	(*lockModel).acquire, (*lockModel).acquire, (*lockModel).acquire, (*lockModel).acquire,
	(*lockModel).acquireWithin, (*lockModel).acquireWithin,
	(*lockModel).try,
	(*lockModel).release, (*lockModel).release, (*lockModel).release,
	(*lockModel).cancel,
	(*lockModel).expire,
	(*lockModel).drop,
	(*lockModel).loseReply,
	(*lockModel).cutBefore,
	(*lockModel).silence,
	(*lockModel).deleteNode,
}

// A modelGrant is something that was granted and not yet released.
type modelGrant struct {
	what   string
	owner  int // those of one owner do not exclude each other
	client *framework.Client
	claims []claim
	held   []grantee

	returned bool      // it was given back, or is about to be
	failed   time.Time // when its lease was lost, as far as its client knows
}

// leases returns the leases that g consists of.
func (g *modelGrant) leases() []*recipes.Lease {
	var all []*recipes.Lease
	for _, h := range g.held {
		switch h := h.(type) {
		case *recipes.Lease:
			all = append(all, h)
		case *recipes.MultiLease:
			all = append(all, h.Leases()...)
		}
	}
	return all
}

// token returns the token that is shown to a resource.
func (g *modelGrant) token(resource string) int64 {
	for _, l := range g.leases() {
		if strings.HasPrefix(l.Path(), resource+"/") {
			return l.Token()
		}
	}
	return 0
}

type tokenOf struct {
	token int64
	owner int
}

// A waiter is a call that has not returned.
type waiter struct {
	what    string
	cancel  context.CancelFunc
	endless bool // it waits for as long as it takes
}

type lockModel struct {
	*world
	clients []*framework.Client
	players [][]player
	grace   time.Duration

	mu       sync.Mutex
	owners   int
	grants   []*modelGrant // not given back
	past     []*modelGrant // all, with a grace
	waiters  map[*waiter]struct{}
	tokens   map[string]tokenOf   // of the last exclusive holder
	expired  map[int64]time.Time  // sessions, by force
	deleted  map[string]time.Time // nodes
	problems []string
}

func newLockModel(w *world, players func(c *framework.Client) []player, grace time.Duration) *lockModel {
	m := &lockModel{
		world: w, waiters: make(map[*waiter]struct{}), tokens: make(map[string]tokenOf),
		expired: make(map[int64]time.Time), deleted: make(map[string]time.Time), grace: grace,
	}
	for range 3 {
		c := w.client()
		m.clients = append(m.clients, c)
		m.players = append(m.players, players(c))
	}
	return m
}

// step lets one thing happen, and passes over one that is about the session of
// a client that has none.
func (m *lockModel) step(s lockStep) {
	if m.client(s).Session() != nil {
		lockSteps[s.What](m, s)
	}
	time.Sleep(s.Pause)
	synctest.Wait()
}

func (m *lockModel) client(s lockStep) *framework.Client { return m.clients[s.Client] }

func (m *lockModel) player(s lockStep) player {
	ps := m.players[s.Client]
	return ps[s.Player%len(ps)]
}

func (m *lockModel) acquire(s lockStep) { m.enter(m.ctx, s, m.newOwner(), false) }

func (m *lockModel) try(s lockStep) { m.enter(m.ctx, s, m.newOwner(), true) }

// acquireWithin acquires with a context of a lease of the same client.
func (m *lockModel) acquireWithin(s lockStep) {
	m.mu.Lock()
	var g *modelGrant
	for i := range m.grants {
		if c := m.grants[(s.Pick+i)%len(m.grants)]; c.client == m.client(s) {
			g = c
			break
		}
	}
	m.mu.Unlock()
	if g != nil {
		m.enter(g.held[0].Context(m.ctx), s, g.owner, false)
	}
}

func (m *lockModel) newOwner() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners++
	return m.owners
}

func (m *lockModel) enter(ctx context.Context, s lockStep, owner int, try bool) {
	p := m.player(s)
	wait := &waiter{what: fmt.Sprintf("%s of client %d", p.name, s.Client), endless: s.Patience == 0 && ctx == m.ctx}
	if s.Patience > 0 {
		ctx, wait.cancel = context.WithTimeout(ctx, s.Patience)
	} else {
		ctx, wait.cancel = context.WithCancel(ctx)
	}
	m.mu.Lock()
	m.waiters[wait] = struct{}{}
	m.mu.Unlock()
	go func() {
		defer wait.cancel()
		held, err := p.enter(ctx, try)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.waiters, wait)
		if err != nil {
			m.refused(wait, err, try)
			return
		}
		m.granted(&modelGrant{
			what: wait.what, owner: owner, client: m.client(s), claims: p.claim, held: held,
		})
	}()
}

// refused judges the error of a call: faults are no reason for one who waits
// for ever to give up.
func (m *lockModel) refused(wait *waiter, err error, try bool) {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, recipes.ErrLost, recipes.ErrReleased, recipes.ErrDeadlock,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	if try && (errors.Is(err, recipes.ErrHeld) || framework.IsRetryable(err)) {
		return
	}
	m.problem("%s: %v", wait.what, err)
}

// live reports whether g excludes others. One whose end was forced does not,
// since others may know of that first.
func (m *lockModel) live(g *modelGrant) bool {
	for _, l := range g.leases() {
		if l.Err() != nil || !m.forced(l).IsZero() {
			return false
		}
	}
	return true
}

// forced returns when the end of a lease was forced, zero if it was not.
func (m *lockModel) forced(l *recipes.Lease) time.Time {
	expired, deleted := m.expired[l.Session().ID()], m.deleted[l.Path()]
	if expired.IsZero() || !deleted.IsZero() && deleted.Before(expired) {
		return deleted
	}
	return expired
}

// noted keeps a grant for its grace, which judges those that come after.
func (m *lockModel) noted(g *modelGrant) {
	if m.grace == 0 {
		return
	}
	for _, other := range m.past {
		since := time.Since(m.failure(other))
		for _, c := range g.claims {
			if other.owner != g.owner && since < m.grace && c.units+other.units(c.resource) > c.of {
				m.problem("%s was granted %s %v after the failure of %s", g.what, c.resource, since, other.what)
			}
		}
	}
	m.past = append(m.past, g)
	lease := g.leases()[0]
	ctx := lease.Context(context.Background())
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if errors.Is(context.Cause(ctx), recipes.ErrLost) {
			g.failed = time.Now()
		}
	})
}

// failure returns when a holder failed at the earliest, zero if it did not: it
// may know later than the server, and before it.
func (m *lockModel) failure(g *modelGrant) time.Time {
	forced := m.forced(g.leases()[0])
	switch {
	case g.failed.IsZero() && (g.returned || forced.IsZero()):
		return time.Time{}
	case g.failed.IsZero(), !forced.IsZero() && forced.Before(g.failed):
		return forced
	}
	return g.failed
}

// granted judges a grant by those that are live.
func (m *lockModel) granted(g *modelGrant) {
	for _, c := range g.claims {
		used := c.units
		for _, other := range m.grants {
			reentered := c.of == allUnits && other.owner == g.owner
			if !reentered && m.live(other) {
				used += other.units(c.resource)
			}
		}
		if used > c.of && m.live(g) {
			m.problem("%s was granted too much of %s", g.what, c.resource)
		}
		if c.units < c.of || !m.live(g) || m.holds(g.owner, c.resource) {
			continue
		}
		token, last := g.token(c.resource), m.tokens[c.resource]
		if token < last.token || token == last.token && g.owner != last.owner {
			m.problem("token %#x of %s does not exceed the last, %#x", token, g.what, last.token)
		}
		m.tokens[c.resource] = tokenOf{token, g.owner}
	}
	m.grants = append(m.grants, g)
	m.noted(g)
}

func (g *modelGrant) units(resource string) int {
	n := 0
	for _, c := range g.claims {
		if c.resource == resource {
			n += c.units
		}
	}
	return n
}

// holds reports whether an owner has a part of a resource already.
func (m *lockModel) holds(owner int, resource string) bool {
	for _, g := range m.grants {
		if g.owner == owner && g.units(resource) > 0 {
			return true
		}
	}
	return false
}

func (m *lockModel) problem(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// take takes one of the grants out of the model.
func (m *lockModel) take(pick int) *modelGrant {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.grants) == 0 {
		return nil
	}
	i := pick % len(m.grants)
	g := m.grants[i]
	g.returned = true
	m.grants = append(m.grants[:i:i], m.grants[i+1:]...)
	return g
}

func (m *lockModel) release(s lockStep) {
	if g := m.take(s.Pick); g != nil {
		go func() {
			for _, h := range g.held {
				_ = h.Release() // what went wrong shows in the end
			}
		}()
	}
}

func (m *lockModel) cancel(s lockStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := s.Pick
	for wait := range m.waiters { // in no order, which is as good
		if n -= 20; n < 0 {
			wait.endless = false
			wait.cancel()
			return
		}
	}
}

func (m *lockModel) expire(s lockStep) {
	id := m.client(s).Session().ID()
	m.mu.Lock()
	if m.expired[id].IsZero() {
		m.expired[id] = time.Now()
	}
	m.mu.Unlock()
	_ = m.srv.ExpireSession(id) // it may have expired by itself
}

func (m *lockModel) drop(s lockStep) { m.srv.DropConnections(m.client(s).Session().ID()) }

func (m *lockModel) loseReply(s lockStep) { m.srv.LoseReply(of(m.client(s), isWork)) }

func (m *lockModel) cutBefore(s lockStep) { m.srv.CutBefore(of(m.client(s), isWork)) }

// silence keeps a client and the server from hearing of each other.
func (m *lockModel) silence(s lockStep) {
	m.srv.Silence(m.client(s).Session().ID())
	time.Sleep(s.Pause)
	m.srv.Unsilence()
}

// deleteNode is what an administrator does who knows no better.
func (m *lockModel) deleteNode(s lockStep) {
	paths := m.ephemerals()
	if len(paths) == 0 {
		return
	}
	path := paths[s.Pick%len(paths)]
	m.mu.Lock()
	m.deleted[path] = time.Now()
	m.mu.Unlock()
	err := m.client(s).Delete(m.ctx, path, framework.AnyVersion)
	if err != nil && !errors.Is(err, framework.ErrNoNode) && !framework.IsRetryable(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.problem("deleting %s: %v", path, err)
	}
}

// finish ends the faults, has everything given back for as long as somebody
// waits, and returns what was wrong.
func (m *lockModel) finish() []string {
	m.srv.Unsilence()
	for range 100 {
		time.Sleep(time.Minute)
		for g := m.take(0); g != nil; g = m.take(0) {
			for _, h := range g.held {
				_ = h.Release()
			}
		}
		m.mu.Lock()
		waiting := len(m.waiters)
		m.mu.Unlock()
		if waiting == 0 {
			break
		}
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for wait := range m.waiters {
		m.problem("%s waits in vain", wait.what)
		wait.cancel()
	}
	if left := m.ephemerals(); len(left) > 0 {
		m.problem("left behind: %v", left)
	}
	if left := m.srv.Watches(); len(left) > 0 {
		m.problem("watches left behind: %v", left)
	}
	return m.problems
}
