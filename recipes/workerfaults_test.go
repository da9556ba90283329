package recipes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A claimScenario is the state of a root of worker numbers in which one is claimed.
type claimScenario struct {
	name string
	cold bool // nothing is there
	used int  // numbers, of two, that were used
	wait bool // for one in use
}

var claimScenarios = []claimScenario{
	{name: "path missing", cold: true},
	{name: "never used"},
	{name: "used", used: 2},
	{name: "in use", used: 2, wait: true},
}

// Each fault, at each request of a claim and its release: nobody else has the
// number while the claim holds, no time is reserved twice, nothing is left, and
// another can claim afterwards.
func TestWorkerIDFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, sc := range claimScenarios {
		for _, f := range faults {
			t.Run(sc.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				atEveryStep(t, 8, func(step int) (struck bool) {
					inIDBubble(t, func(w *world) { struck = w.strikeClaim(step, sc, f) })
					return struck
				})
			})
		}
	}
}

// strikeClaim claims and releases with the fault at one request, and reports
// whether there was such a request.
func (w *world) strikeClaim(step int, sc claimScenario, f fault) (struck bool) {
	c, other := w.client(), w.client()
	opts := []recipes.WorkerOption{recipes.WithRange(0, 1), recipes.WaitForNumber()}
	ids, others := recipes.NewWorkerIDs(c, idRoot, opts...), recipes.NewWorkerIDs(other, idRoot, opts...)
	ctx, cancelCause := context.WithCancelCause(w.ctx)
	cancel := func() { cancelCause(w.cause) }
	defer cancel()
	var past []*recipes.WorkerID
	if !sc.cold {
		w.put(other, idRoot+"/slots")
	}
	for range sc.used {
		past = append(past, w.claim(others))
	}
	for _, id := range past {
		if sc.wait {
			time.AfterFunc(soon, func() { w.let(id) })
		} else {
			w.let(id)
		}
	}

	s := &strike{world: w, cancel: cancel}
	returned := make(chan struct{})
	s.returned = returned
	disarm := w.arm(step, f, s, &struck, other.Session().ID(), isWork)
	id, err := ids.Claim(ctx)
	close(returned)
	if err == nil {
		past = append(past, id)
		w.settle()
		lost := id.Err()
		released := id.Release()
		switch {
		case lost != nil:
			wantErr(w, "Release", released, recipes.ErrLost)
			if !f.ends && !f.deletes {
				w.Errorf("step %d: lost: %v", step, lost)
			}
		case released == nil, f.ends && errors.Is(released, framework.ErrSessionLost), f.deletes && errors.Is(released, recipes.ErrLost):
		default:
			w.Errorf("step %d: Release: %v", step, released)
		}
	} else if !f.cancels || !errors.Is(err, context.Canceled) {
		w.Errorf("step %d: Claim: %v", step, err)
	}
	disarm()
	within := soon
	switch {
	case f.ends:
		within = 3 * sessionTimeout
	case f.outage:
		within = sessionTimeout / 2
	}
	began := time.Now()
	for range 2 {
		next := w.claim(others)
		past = append(past, next)
		defer w.let(next)
	}
	if took := time.Since(began); took > within+soon {
		w.Errorf("step %d: afterwards two numbers were to be had after %v", step, took)
	}
	w.disjoint(past)
	time.Sleep(within)
	if left := w.ephemerals(); len(left) != 2 {
		w.Errorf("step %d: in use are %v", step, left)
	}
	w.srv.Unsilence()
	return struck
}

// disjoint checks that no time of one number is reserved twice.
func (w *world) disjoint(ids []*recipes.WorkerID) {
	w.Helper()
	for i, a := range ids {
		for _, b := range ids[:i] {
			from, until := a.Reserved()
			start, end := b.Reserved()
			if a.ID() == b.ID() && from.Before(end) && start.Before(until) {
				w.Errorf("number %d: %v to %v and %v to %v are reserved", a.ID(), from, until, start, end)
			}
		}
	}
}

// Each fault, at each request of a generator that lives through several windows:
// no ID comes twice, its own nor a successor's that wants the same number; each is
// above the last; and what errors there are say what happened.
func TestSnowflakeFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]generatorScenario{
		"busy":                {gap: 200 * time.Millisecond, ids: 50},
		"busy, claims anew":   {gap: 200 * time.Millisecond, ids: 100, reclaim: true},
		"seldom":              {gap: 5 * time.Second, ids: 6}, // so that callers wait for what is reserved
		"seldom, claims anew": {gap: 5 * time.Second, ids: 10, reclaim: true},
	} {
		for _, f := range faults {
			t.Run(name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				atEveryStep(t, 12, func(step int) (struck bool) {
					inIDBubble(t, func(w *world) { struck = w.strikeSnowflake(step, f, sc) })
					return struck
				})
			})
		}
	}
}

type generatorScenario struct {
	gap     time.Duration // between IDs
	ids     int
	reclaim bool
}

func (w *world) strikeSnowflake(step int, f fault, sc generatorScenario) (struck bool) {
	c, other := w.client(), w.client()
	opts := []recipes.WorkerOption{recipes.WithRange(0, 1), recipes.WithPreferred(0), recipes.WithWindow(4 * time.Second)}
	made := w.idSet()
	var options []recipes.SnowflakeOption
	if sc.reclaim {
		options = append(options, recipes.WithReclaim())
	}
	g := made.generator(w, recipes.NewWorkerIDs(c, idRoot, opts...), options...)
	rival := made.generator(w, recipes.NewWorkerIDs(other, idRoot, opts...), recipes.WithReclaim())
	ctx, cancelCause := context.WithCancelCause(w.ctx)
	cancel := func() { cancelCause(w.cause) }
	defer cancel()
	s := &strike{world: w, cancel: cancel}
	returned := make(chan struct{})
	s.returned = returned
	disarm := w.arm(step, f, s, &struck, other.Session().ID(), isWork)
	var err error
	for i := 0; err == nil && i < sc.ids; i++ {
		_, err = g.next(ctx)
		time.Sleep(sc.gap)
		if id := g.Worker(); id != nil && id.Err() != nil { // a successor as soon as there can be one
			if _, err := rival.next(w.ctx); err != nil && !errors.Is(err, recipes.ErrClockBehind) {
				w.Errorf("step %d: the rival: %v", step, err)
			}
		}
	}
	close(returned)
	switch {
	case err == nil:
	case f.cancels && errors.Is(err, context.Canceled):
		// Whatever came of the request, the generator is of use to others.
		for range 30 {
			if _, err = g.next(w.ctx); err != nil {
				w.Errorf("step %d: after a call that was given up: %v", step, err)
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	case (f.ends || f.deletes) && !sc.reclaim && errors.Is(err, recipes.ErrLost):
	default:
		w.Errorf("step %d: Next: %v", step, err)
	}
	closed := g.Close()
	disarm()
	switch {
	case closed == nil, (f.ends || f.deletes) && errors.Is(closed, recipes.ErrLost), f.ends && errors.Is(closed, framework.ErrSessionLost):
	default:
		w.Errorf("step %d: Close: %v", step, closed)
	}
	for range 30 {
		if _, err := rival.next(w.ctx); err != nil && !errors.Is(err, recipes.ErrClockBehind) {
			w.Errorf("step %d: the rival: %v", step, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := rival.Close(); err != nil {
		w.Errorf("step %d: closing the rival: %v", step, err)
	}
	time.Sleep(3 * sessionTimeout)
	if left := w.ephemerals(); len(left) > 0 {
		w.Errorf("step %d: left behind: %v", step, left)
	}
	w.srv.Unsilence()
	return struck
}
