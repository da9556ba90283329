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
				steps := 0
				for step, struck := 1, true; struck && !t.Failed(); step++ {
					inIDBubble(t, func(w *world) { struck = w.strikeClaim(step, sc, f) })
					if struck {
						steps++
					}
				}
				if steps < 8 {
					t.Errorf("there were %d requests to strike at", steps)
				}
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
	disarm := w.arm(step, f, s, &struck, other.Session().ID())
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
