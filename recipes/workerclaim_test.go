package recipes_test

import (
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// Another has a number, and gives it back, after it was found free and before it
// is claimed: then it is looked at again, and no time is reserved twice.
func TestClaimBehindAnother(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]bool{"never used": false, "used": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				a, b := w.client(), w.client()
				ids := func(c *framework.Client) *recipes.WorkerIDs {
					return recipes.NewWorkerIDs(c, idRoot, recipes.WithRange(0, 0))
				}
				var past []*recipes.WorkerID
				claim := func() {
					past = append(past, w.claim(ids(b)))
					w.let(past[len(past)-1])
				}
				if used {
					claim()
					time.Sleep(time.Minute) // so that only the other's reservation is ahead of now
				}
				defer w.srv.OnRequest(of(a, op("multi")).once(claim))()
				id := w.claim(ids(a))
				w.disjoint(append(past, id))
				if n := int64(len(past)) + 1; id.Generation() != n || n < 2 {
					w.Errorf("generation %d after %d others", id.Generation(), n-1)
				}
				w.let(id)
			})
		})
	}
}

// What the documentation of Claim says that it asks, for a root of two names.
func TestClaimRequests(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const numbers = 20
		c := w.client()
		opts := []recipes.WorkerOption{recipes.WithRange(0, numbers-1)}
		claim := func(ids *recipes.WorkerIDs) (n int) {
			log := w.requests(isWork)
			id := w.claim(ids)
			w.settle() // the holder's watch
			n = len(log.ops())
			log.stop()
			w.let(id)
			return n
		}
		ids := recipes.NewWorkerIDs(c, idRoot, opts...)
		if n := claim(ids); n > claimRequests+apartRequests+firstRequests {
			w.Errorf("the first claim of all asks %d times", n)
		}
		if n := claim(ids); n != claimRequests {
			w.Errorf("a claim asks %d times", n)
		}
		if n := claim(recipes.NewWorkerIDs(c, idRoot, opts...)); n != claimRequests+apartRequests {
			w.Errorf("the first claim of a value asks %d times", n)
		}
		for range numbers - 3 {
			claim(ids)
		}
		if n := claim(ids); n != claimRequests+usedRequests {
			w.Errorf("a claim among numbers that all were used asks %d times", n)
		}
	})
}
