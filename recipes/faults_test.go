package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A scenario is one way through acquire and release, without faults.
type scenario struct {
	name string
	// ahead is how many others hold or wait when the client under test comes.
	// Each holds for a second.
	ahead  int
	hidden bool // the client under test may not read their nodes
	dead   bool // a dead contender stands ahead of all
	cold   bool // the lock's path does not exist yet
	try    bool // instead of waiting
	// do is what the client under test does, if it is more than acquire or try.
	do func(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error)
	// loses says that do holds another lease meanwhile, which a fault may end.
	loses bool
	// passes says that do lets others in line behind it.
	passes bool
	// grace is the lock's, after a crash, and crashed says that there was one.
	grace   time.Duration
	crashed bool
}

var scenarios = []scenario{
	{name: "free, path missing", cold: true},
	{name: "free"},
	{name: "next in line", ahead: 1},
	{name: "third in line", ahead: 2},
	{name: "behind one that may not be read", ahead: 1, hidden: true},
	{name: "behind a dead one", dead: true},
	{name: "behind a dead and a living one", dead: true, ahead: 1},
	{name: "try, free", try: true},
	{name: "try, held", try: true, ahead: 1},
	{name: "try, behind a dead one", try: true, dead: true},
}

func (sc scenario) run(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error) {
	switch {
	case sc.do != nil:
		return sc.do(ctx, w, m)
	case sc.try:
		return m.TryAcquire(ctx)
	}
	return m.Acquire(ctx)
}

// A fault strikes at one request of the client under test.
type fault struct {
	name    string
	before  func(s *strike) embedded.Verdict // the request is carried out
	after   func(s *strike) embedded.Verdict // it was, and its reply is not sent yet
	cancels bool                             // the caller gives up
	ends    bool                             // the session ends
	early   bool                             // before the client can know
	outage  bool                             // there is no connection for a while
	deletes bool                             // an outsider deletes the node
}

// A strike is what a fault works on.
type strike struct {
	*world
	session  int64
	cancel   context.CancelFunc
	returned <-chan struct{} // closed when Acquire has returned
}

// A moment is enough for the client to notice something.
const moment = 5 * time.Millisecond

var faults = []fault{
	{name: "cancelled before", cancels: true, before: func(s *strike) embedded.Verdict {
		s.cancel()
		time.Sleep(moment)
		return embedded.Pass
	}},
	{name: "cancelled before, which arrives much later", cancels: true, before: func(s *strike) embedded.Verdict {
		s.cancel()
		<-s.returned
		time.Sleep(moment)
		return embedded.Pass
	}},
	{name: "cancelled before, and cut", cancels: true, before: func(s *strike) embedded.Verdict {
		s.cancel()
		time.Sleep(moment)
		return embedded.Cut
	}},
	{name: "cancelled after", cancels: true, after: func(s *strike) embedded.Verdict {
		s.cancel()
		time.Sleep(moment)
		return embedded.Pass
	}},
	{name: "cancelled after, and cut", cancels: true, after: func(s *strike) embedded.Verdict {
		s.cancel()
		time.Sleep(moment)
		return embedded.Cut
	}},
	{name: "cancelled after, and the clean-up is cut twice", cancels: true, after: func(s *strike) embedded.Verdict {
		var cut int
		s.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Session == s.session && isWork(r) && cut < 2 {
				cut++
				return embedded.Cut
			}
			return embedded.Pass
		})
		s.cancel()
		time.Sleep(moment)
		return embedded.Cut
	}},
	{name: "cut before", before: func(*strike) embedded.Verdict { return embedded.Cut }},
	{name: "reply lost", after: func(*strike) embedded.Verdict { return embedded.Cut }},
	{name: "cut before, and no connection for a while", outage: true, before: func(s *strike) embedded.Verdict {
		s.outage(sessionTimeout / 4)
		return embedded.Cut
	}},
	{name: "reply lost, and no connection for a while", outage: true, after: func(s *strike) embedded.Verdict {
		s.outage(sessionTimeout / 4)
		return embedded.Cut
	}},
	{name: "reply lost, and no connection until the session is over", ends: true, after: func(s *strike) embedded.Verdict {
		s.outage(2 * sessionTimeout)
		return embedded.Cut
	}},
	{name: "expired before", ends: true, early: true, before: func(s *strike) embedded.Verdict {
		_ = s.srv.ExpireSession(s.session)
		return embedded.Pass
	}},
	{name: "expired after", ends: true, early: true, after: func(s *strike) embedded.Verdict {
		_ = s.srv.ExpireSession(s.session)
		return embedded.Pass
	}},
	{name: "silent before", ends: true, before: func(s *strike) embedded.Verdict {
		s.srv.Silence(s.session)
		return embedded.Pass
	}},
	{name: "silent after", ends: true, after: func(s *strike) embedded.Verdict {
		s.srv.Silence(s.session)
		return embedded.Pass
	}},
	{name: "root reaped before", before: func(s *strike) embedded.Verdict {
		s.srv.ReapContainers()
		return embedded.Pass
	}},
	{name: "root reaped after", after: func(s *strike) embedded.Verdict {
		s.srv.ReapContainers()
		return embedded.Pass
	}},
	{name: "own node deleted before", deletes: true, before: (*strike).removeOwn},
	{name: "own node deleted after", deletes: true, after: (*strike).removeOwn},
}

// outage makes the client under test find no server for a while.
func (s *strike) outage(d time.Duration) {
	l := s.link(s.clients[0])
	l.refuse(true)
	time.AfterFunc(d, func() { l.refuse(false) })
}

// removeOwn deletes the nodes of the client under test, as an outsider.
func (s *strike) removeOwn() embedded.Verdict {
	for _, info := range s.srv.Sessions() {
		if info.ID != s.session {
			continue
		}
		for _, path := range info.Ephemerals {
			s.remove(s.clients[1], path)
		}
	}
	return embedded.Pass
}

// working is how long the client under test holds.
const working = soon / 10

// Rule 5, and no second holder: each fault, at each request that the client under test
// sends in the course of each scenario. Nobody else holds while it holds,
// nothing is left, the lock can be had, and the error says what happened.
func TestFaultAtEveryStep(t *testing.T) { strikeEverywhere(t, mutexes, scenarios) }

func TestFaultAtEveryStepOfGrace(t *testing.T) {
	for _, f := range graceChains {
		t.Run(f.name, func(t *testing.T) { strikeEverywhere(t, f, graceScenarios) })
	}
}

var graceScenarios = []scenario{
	{name: "grace, path missing", grace: grace, cold: true},
	{name: "grace, next in line", grace: grace, ahead: 1},
	{name: "grace, after a crash", grace: grace, crashed: true},
	{name: "grace, next in line after a crash", grace: grace, ahead: 1, crashed: true},
	{name: "grace, try", grace: grace, try: true},
	{name: "grace, try after a crash", grace: grace, try: true, crashed: true},
}

func TestSemaphoreMutexFaultAtEveryStep(t *testing.T) {
	strikeEverywhere(t, semaphoreMutexes, scenarios)
}

func strikeEverywhere(t *testing.T, fam family, scenarios []scenario) {
	t.Parallel()
	for _, sc := range scenarios {
		for _, f := range faults {
			t.Run(sc.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				atEveryStep(t, 2, func(step int) (struck bool) {
					inBubble(t, fam.of(func(w *world) { struck = w.strikeAt(step, sc, f) }))
					return struck
				})
			})
		}
	}
}

// atEveryStep has strike strike at the first request, the second, and so on, as
// long as it finds one. There must be least of them.
func atEveryStep(t *testing.T, least int, strike func(step int) (struck bool)) {
	t.Helper()
	steps := 0
	for !t.Failed() && strike(steps+1) {
		steps++
	}
	t.Logf("struck at %d requests", steps)
	if steps < least {
		t.Errorf("there were %d requests to strike at", steps)
	}
}

// A context may end with a cause that looks like a server's answer, or like
// what happened to another lock: nothing is concluded from that.
func TestCauseIsNoAnswer(t *testing.T) {
	t.Parallel()
	var cancels []fault
	for _, f := range faults {
		if f.cancels {
			cancels = append(cancels, f)
		}
	}
	for name, cause := range causes(t) {
		for fam, scenarios := range map[*family][]scenario{
			&mutexes: scenarios, &semaphoreMutexes: scenarios, &readers: readScenarios,
		} {
			for _, sc := range scenarios {
				t.Run(name+"/"+fam.name+"/"+sc.name, func(t *testing.T) {
					t.Parallel()
					for _, f := range cancels {
						atEveryStep(t, 1, func(step int) (struck bool) {
							inBubble(t, fam.of(func(w *world) {
								w.cause = cause
								struck = w.strikeAt(step, sc, f)
							}))
							return struck
						})
					}
				})
			}
		}
	}
}

// causes returns errors that a context may end with, as an errgroup's does, or
// a lease's.
func causes(t *testing.T) map[string]error {
	t.Helper()
	all := make(map[string]error)
	inBubble(t, func(w *world) {
		c := w.client()
		_, _, all["no node"] = c.Get(w.ctx, "/nowhere")
		lease := w.acquire(w.mutex())
		w.remove(c, lease.Path())
		<-lease.Done()
		w.returned(lease)
		all["another lock's node deleted"] = lease.Err()
		lease = w.acquire(recipes.NewInterProcessMutex(c, root, recipes.EndWhenUnknown()))
		w.link(c).drop()
		<-lease.Done()
		w.returned(lease)
		all["another lock's connection suspended"] = lease.Err()
		_ = lease.Release()
	})
	return all
}

// strikeAt runs the scenario with the fault at one request, and reports
// whether there was such a request.
func (w *world) strikeAt(step int, sc scenario, f fault) (struck bool) {
	c, other := w.client(), w.other(sc)
	if sc.grace > 0 {
		w.options = []recipes.Option{recipes.GraceAfterCrash(sc.grace)}
	}
	m, later := w.lock(c, w.options...), w.rival(other, w.options...)
	ctx, cancelCause := context.WithCancelCause(w.ctx)
	cancel := func() { cancelCause(w.cause) }
	defer cancel()
	var others sync.WaitGroup
	defer others.Wait()
	w.prepare(sc, later, &others)

	s := &strike{world: w, cancel: cancel}
	returned := make(chan struct{})
	s.returned = returned
	counts := func(r embedded.Request) bool { return isWork(r) && (sc.cold || !looksAround(r)) }
	defer w.arm(step, f, s, &struck, other.Session().ID(), counts)()

	lease, err := w.timed(sc, f, ctx, m)
	close(returned)
	if err == nil {
		if !f.deletes && !(f.early && sc.passes) { // else another may have been granted before this one knows
			w.granted(root, lease)
		}
		time.Sleep(working)
		w.checkRelease(step, f, lease)
	} else {
		w.checkError(step, sc, f, err)
	}
	others.Wait()
	least := time.Duration(0)
	if lease != nil && lease.Err() != nil && errors.Is(lease.Err(), recipes.ErrLost) {
		least = sc.grace // it has failed
		if sc.passes {
			least -= working // who was behind it has known for that long
		}
	}
	within := soon
	switch {
	case f.ends:
		within = 3 * sessionTimeout
	case f.outage:
		within = sessionTimeout / 2
	}
	if sc.crashed || f.ends || f.deletes {
		within += sc.grace // at most: it may not have held
	}
	began := time.Now()
	next, err := later.Acquire(w.ctx)
	if err != nil {
		w.Fatalf("step %d: afterwards: %v", step, err)
	}
	if took := time.Since(began); took > within || took < least {
		w.Errorf("step %d: afterwards the lock was to be had after %v", step, took)
	}
	w.granted(root, next)
	w.release(next)
	if f.ends {
		time.Sleep(2 * sessionTimeout) // the old session's node goes with it
	} else {
		time.Sleep(within)
	}
	left := append(w.ephemerals(), w.children(other, markers)...)
	if len(left) > 0 {
		w.Errorf("step %d: left behind: %v", step, left)
	}
	w.srv.Unsilence()
	return struck
}

// other returns the client of those who stand ahead.
func (w *world) other(sc scenario) *framework.Client {
	if sc.hidden {
		return w.secretive()
	}
	return w.client()
}

// prepare makes the lock's path and what stands ahead.
func (w *world) prepare(sc scenario, m recipes.InterProcessLock, others *sync.WaitGroup) {
	if !sc.cold {
		w.release(w.acquire(m))
	}
	if sc.crashed {
		w.put(w.clients[1], markers+"/_c_crashed-"+w.family.label+"0000000000")
	}
	if sc.dead {
		w.put(w.clients[1], w.family.line(root)+"/_c_dead-"+w.family.label, framework.WithMode(framework.PersistentSequential))
	}
	for range sc.ahead {
		others.Add(1)
		go func() {
			defer others.Done()
			lease := w.acquire(m)
			time.Sleep(soon)
			w.release(lease)
		}()
	}
	w.settle()
}

// looksAround reports whether a request is one of those by which a lock's first
// use looks around. They are sent at once, with the create: it is enough to
// strike at them where the path is missing.
func looksAround(r embedded.Request) bool {
	return r.Op == "getData" && strings.HasPrefix(root+"/locks", r.Path)
}

// arm sets the fault up for the step'th request that counts, of whoever is not
// other.
func (w *world) arm(step int, f fault, s *strike, struck *bool, other int64, counts matcher) (disarm func()) {
	var mu sync.Mutex
	var n int
	var target embedded.Request
	before := w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Session == other || !counts(r) {
			return embedded.Pass
		}
		mu.Lock()
		n++
		hit := n == step
		if hit {
			*struck, target, s.session = true, r, r.Session
		}
		mu.Unlock()
		if hit && f.before != nil {
			return f.before(s)
		}
		return embedded.Pass
	})
	after := w.srv.OnReply(func(r embedded.Request) embedded.Verdict {
		mu.Lock()
		hit := *struck && f.after != nil && r.Session == target.Session && r.Xid == target.Xid && r.Op == target.Op
		if hit {
			target.Op = "done"
		}
		mu.Unlock()
		if hit {
			return f.after(s)
		}
		return embedded.Pass
	})
	return func() { before(); after() }
}

// timed acquires and checks that it does not take longer than it should.
func (w *world) timed(sc scenario, f fault, ctx context.Context, m recipes.InterProcessLock) (*recipes.Lease, error) {
	began := time.Now()
	lease, err := sc.run(ctx, w, m)
	bound := time.Duration(sc.ahead+2)*soon + 2*sc.grace // the place may be lost in it
	if !f.cancels {
		bound += 3 * sessionTimeout
	}
	if took := time.Since(began); took > bound {
		w.Errorf("Acquire took %v: %v", took, err)
	}
	return lease, err
}

func (w *world) checkError(step int, sc scenario, f fault, err error) {
	w.Helper()
	what := fmt.Sprintf("step %d: Acquire", step)
	switch {
	case sc.loses && (f.ends || f.deletes) && errors.Is(err, recipes.ErrLost):
	case sc.try && (sc.ahead > 0 || sc.crashed) && errors.Is(err, recipes.ErrHeld):
	case f.cancels:
		wantErr(w, what, err, context.Canceled)
	case sc.try && f.ends && errors.Is(err, recipes.ErrHeld):
		// by the own node of the session that has ended, until the server knows
	default:
		w.Errorf("%s: %v", what, err)
	}
}

func (w *world) checkRelease(step int, f fault, lease *recipes.Lease) {
	w.Helper()
	lost := lease.Err()
	err := lease.Release()
	w.returned(lease)
	what := fmt.Sprintf("step %d: Release", step)
	switch {
	case lost != nil:
		wantErr(w, what, err, recipes.ErrLost)
	case f.ends && errors.Is(err, framework.ErrSessionLost):
	case f.deletes && errors.Is(err, recipes.ErrLost):
	case err != nil:
		w.Errorf("%s: %v", what, err)
	}
	if lost != nil && !f.ends && !f.deletes {
		w.Errorf("step %d: the lease was lost: %v", step, lost)
	}
}

// panicking is a hook whose first call for an operation panics.
type panicking struct {
	op   string
	once sync.Once
}

func (h *panicking) OnOperation(_ context.Context, info framework.OperationInfo) {
	if info.Op == h.op {
		h.once.Do(func() { panic("from a hook") })
	}
}

// A panic in the user's code, recovered by the caller, leaves no contender.
func TestPanicInHook(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create2", "getData"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				m := recipes.NewInterProcessMutex(w.client(framework.WithHooks(&panicking{op: op})), root)
				other := w.mutex()
				holder := w.acquire(other)
				func() {
					defer func() {
						if recover() == nil {
							w.Error("the hook was not called")
						}
					}()
					_, _ = m.TryAcquire(w.ctx)
				}()
				time.Sleep(time.Second)
				w.release(holder)
				w.release(w.acquire(other))
			})
		})
	}
}

// A server that has lost its quorum refuses the deletion of a node. It is made
// up for when there is a quorum again.
func TestReleaseOnReadOnlyServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		const notReadOnly = -119
		quorum := w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "delete" {
				return embedded.Answer(notReadOnly)
			}
			return embedded.Pass
		})
		wantErr(w, "Release", lease.Release(), framework.ErrReadOnly)
		w.returned(lease)
		time.Sleep(time.Second)
		quorum()
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		next, err := w.mutex().Acquire(ctx)
		if err != nil {
			w.Fatal(err)
		}
		w.release(next)
	})
}
