package recipes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonzk/baton/recipes"
)

func TestPermitParticipants(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2))
		ps, err := s.Participants(w.ctx)
		if err != nil || ps == nil || len(ps) != 0 {
			t.Errorf("of a path that does not exist: %v, %v, want an empty slice", ps, err)
		}
		w.put(c, permitsOf+"/lease-0000000000")
		w.put(c, permitsOf+"/workid")
		held := w.acquireN(w.semaphore(2, recipes.WithData([]byte("holder"))), 2)
		first := w.wish(w.semaphore(2, recipes.WithData([]byte("first"))), 2)
		second := w.wish(w.semaphore(2, recipes.WithData([]byte("second"))), 1)
		ps, err = s.Participants(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range ps {
			got = append(got, fmt.Sprintf("%s %v %v", p.Data, p.Holder, p.Dead))
		}
		want := []string{" false true", "holder true false", "holder true false", "first false false", "second false false"}
		if !slices.Equal(got, want) {
			t.Errorf("Participants: %q, want %q", got, want)
		}
		if ps[1].Path != held[0].Path() && ps[1].Path != held[1].Path() || ps[1].Token != held[0].Token() {
			t.Errorf("the first holder is %+v", ps[1])
		}
		w.releaseAll(held)
		w.releaseAll(w.waitAll(first))
		w.releaseAll(w.waitAll(second))
	})
}

// The log warns of one who waits for his own client's permits, and not of two
// who stand in line behind each other.
func TestPermitsWaitForThemselves(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		s := w.semaphore(2)
		other := w.acquireN(w.semaphore(2), 1)
		own := w.acquireN(s, 1)
		a, b := w.wish(s, 1), w.wish(s, 1)
		warned := func() bool { return strings.Contains(w.log.String(), "waiting for a lock that this client holds") }
		if warned() {
			t.Error("warned although another client holds a permit")
		}
		w.releaseAll(other)
		more := w.waitAll(a)
		w.settle()
		if !warned() {
			t.Error("not warned")
		}
		w.releaseAll(own)
		w.releaseAll(more)
		w.releaseAll(w.waitAll(b))
	})
}

// The options are those of each permit's lease.
func TestPermitOptions(t *testing.T) {
	t.Parallel()
	t.Run("EndWhenRevoked", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(w *world) {
			leases := w.acquireN(w.semaphore(2, recipes.EndWhenRevoked()), 2)
			w.settle()
			w.revoke(w.client(), leases[0].Path())
			w.settle()
			wantErr(t, "the revoked one", leases[0].Err(), recipes.ErrRevoked)
			if err := leases[1].Err(); err != nil {
				t.Errorf("the other one: %v", err)
			}
			w.releaseAll(leases)
		})
	})
	t.Run("listener", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(w *world) {
			heard := make(chan *recipes.Lease, 10)
			s := w.semaphore(2, recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l }))
			leases := w.acquireN(s, 2)
			w.revoke(w.client(), leases[1].Path())
			if l := <-heard; l != leases[1] {
				t.Errorf("the listener heard of %s", l.Path())
			}
			w.releaseAll(leases)
		})
	})
	t.Run("EndWhenUnknown", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(w *world) {
			c := w.client()
			leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2), recipes.EndWhenUnknown()), 2)
			w.link(c).drop()
			w.settle()
			for _, l := range leases {
				wantErr(t, "without a connection", l.Err(), recipes.ErrLost)
			}
			wantErr(t, "Release", leases.Release(), recipes.ErrLost)
			w.shortly("all are given back", func() bool { return w.out() == 0 })
		})
	})
}

// One permit is taken away by force, and goes to the next.
func TestForcedPermit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		held := w.acquireN(w.semaphore(2), 2)
		next := w.wish(w.semaphore(2), 1)
		w.revoke(w.client(), held[0].Path(), recipes.WithDeadline(granted), recipes.WithForce())
		one := w.waitAll(next)
		wantErr(t, "the forced one", held[0].Err(), recipes.ErrLost)
		if err := held[1].Err(); err != nil {
			t.Errorf("the other one: %v", err)
		}
		w.releaseAll(one)
		wantErr(t, "Release", held.Release(), recipes.ErrLost)
	})
}
