package recipes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
	"github.com/batonzk/baton/retry"
)

// When the next block could not be fetched it is tried again with half of what is
// left, so that nobody has to wait for it if that works.
func TestBlockIDsFetchAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		const noAuth = -102
		ns := newNumbers(t)
		b := w.blocks(recipes.WithBlockSize(100, 100))
		ns.take(w.ctx, b, 1)
		w.settle()
		allow := w.srv.OnRequest(op("getData").answer(noAuth))
		ns.take(w.ctx, b, 25) // half of what is reserved
		w.settle()
		allow()
		log := w.requests(isWork)
		ns.take(w.ctx, b, 12)
		w.settle()
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("too early: %v", ops)
		}
		ns.take(w.ctx, b, 1)
		w.settle()
		if ops := strings.Join(log.ops(), " "); ops != "getData setData" {
			t.Errorf("it asked %q", ops)
		}
		began := time.Now()
		if ns.take(w.ctx, b, 20); time.Since(began) > 0 {
			t.Errorf("Next waited for %v", time.Since(began))
		}
		w.closeBlocks(b)
	})
}

// A reservation whose reply was lost is found again also by the next fetch, if the
// one that made it could not be tried again.
func TestBlockIDsFoundByTheNextFetch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		c := w.client(framework.WithRetry(retry.None()))
		b := recipes.NewBlockIDs(c, idsRoot, recipes.WithBlockSize(20, 20))
		ns.take(w.ctx, b, 1)
		w.settle()
		w.loseOnce(c, op("setData"), func() { time.Sleep(soon) })
		ns.take(w.ctx, b, 60)
		w.closeBlocks(b)
		if s := w.blockState(idsRoot); s.Next != 61 || ns.missing(61) > 0 {
			t.Errorf("%d numbers are missing, and left is %+v", ns.missing(s.Next), s)
		}
	})
}
