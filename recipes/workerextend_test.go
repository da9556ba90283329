package recipes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/recipes"
)

// A clock that runs away so slowly that no look at it finds a jump reserves
// nothing any more once it is off the servers' by too much.
func TestExtensionOfDriftingClock(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const skew, window = 2 * time.Second, 4 * time.Second
		var clock tilt
		g := w.idSet().generator(w, w.workers(recipes.WithWall(clock.now), recipes.WithMaxSkew(skew), recipes.WithWindow(window)))
		g.must()
		was := g.Worker()
		var err error
		for off := time.Duration(0); err == nil && off < 10*(skew+window); off += 100 * time.Millisecond {
			clock.set(off)
			_, err = g.next(w.ctx)
		}
		wantErr(w, "Next", err, recipes.ErrClockSkew)
		if g.Worker() != was {
			w.Error("it has claimed again: the clock was found to have jumped")
		}
		if _, until := was.Reserved(); time.Until(until) > skew+window {
			w.Errorf("%v are reserved", time.Until(until))
		}
		g.end()
	})
}

// An extension whose reply is lost, and which is given up before the servers are
// back, is settled by the next one: by what the slot says, after a sync. The
// number is not taken for another's.
func TestExtensionGivenUp(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const window = time.Second
		c := w.client()
		g := w.idSet().generator(w, recipes.NewWorkerIDs(c, idRoot, recipes.WithWindow(window)))
		g.must()
		w.settle()
		was := g.Worker()
		log := w.requests(of(c, op("multi", "sync", "getData")))
		w.loseOnce(c, op("multi"), func() { time.Sleep(3 * window) })
		for range 50 {
			time.Sleep(window / 10)
			g.must()
		}
		if g.Worker() != was || was.Err() != nil {
			w.Errorf("the claim is another, or lost: %v", was.Err())
		}
		if ops := strings.Join(log.ops(), " "); !strings.HasPrefix(ops, "multi sync getData multi") {
			w.Errorf("it asked %s", ops)
		}
		g.end()
	})
}
