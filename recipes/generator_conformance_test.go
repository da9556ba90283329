package recipes_test

import (
	"math/rand/v2"
	"sync"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// generatorConformance are the tests of generators that must pass on any server.
var generatorConformance = map[string]func(w *world){
	"sequence, rises":       conformSequence,
	"sequence, next epoch":  conformNextEpoch,
	"blocks, dense":         conformBlocks,
	"apart from a lock":     conformApart,
	"sequence, broken link": func(w *world) { w.conformBrokenLink(newSequence(w), sequenceAt) },
	"blocks, broken link":   func(w *world) { w.conformBrokenLink(newNumbers(w), blocksAt) },
}

func sequenceAt(c *framework.Client) counter { return recipes.NewSequenceIDs(c, idsRoot) }

func blocksAt(c *framework.Client) counter {
	return recipes.NewBlockIDs(c, idsRoot, recipes.WithBlockSize(2, 4))
}

// conformSequence: many ask at once, and each number exceeds all before it.
func conformSequence(w *world) {
	const clients, each = 4, 25
	ns := newSequence(w)
	var calls sync.WaitGroup
	for range clients {
		s := sequenceAt(w.client())
		for range 2 {
			calls.Go(func() { ns.take(w.ctx, s, each) })
		}
	}
	calls.Wait()
	if last := ns.floor(nil); last != clients*2*each-1 {
		w.Errorf("the last number is %d", last)
	}
	if left := w.children(w.client(), firstEpoch); len(left) > 0 {
		w.Errorf("left behind: %v", left)
	}
}

// conformNextEpoch: an epoch whose node is deleted, or made again by somebody
// else, is over for all.
func conformNextEpoch(w *world) {
	ns := newSequence(w)
	c := w.client()
	a, b := sequenceAt(w.client()), sequenceAt(w.client())
	ns.want(w.ctx, a, 0, 1)
	ns.want(w.ctx, b, 2)
	w.remove(c, firstEpoch)
	ns.want(w.ctx, b, epochStep)
	ns.want(w.ctx, a, epochStep+1)
	w.remove(c, idsRoot+"/0000000001")
	w.put(c, idsRoot+"/0000000001")
	ns.want(w.ctx, a, 2*epochStep)
	ns.want(w.ctx, b, 2*epochStep+1)
	if names := w.children(c, idsRoot); len(names) != 1 {
		w.Errorf("the epochs are %v", names)
	}
}

// conformBlocks: what several processes take and give back is dense.
func conformBlocks(w *world) {
	ns := newNumbers(w)
	var calls sync.WaitGroup
	var all []*recipes.BlockIDs
	for range 4 {
		b := w.blocks(recipes.WithBlockSize(4, 40))
		all = append(all, b)
		calls.Go(func() { ns.take(w.ctx, b, 333) })
	}
	calls.Wait()
	w.closeBlocks(all...)
	s := w.readBlockState(w.client())
	if missing := ns.missing(s.Next); missing != s.size() {
		w.Errorf("%d numbers are missing, %d are free", missing, s.size())
	}
}

func (w *world) readBlockState(c *framework.Client) blockState {
	w.Helper()
	data, _, err := c.Get(w.ctx, idsRoot)
	if err != nil {
		w.Fatal(err)
	}
	return w.parseBlockState(data)
}

// conformBrokenLink: connections break all the time, and no number comes twice.
func (w *world) conformBrokenLink(ns *numbers, at func(c *framework.Client) counter) {
	const clients, each = 3, 30
	var calls sync.WaitGroup
	for i := range clients {
		c := w.client()
		g := at(c)
		random := rand.New(rand.NewPCG(1, uint64(i)))
		calls.Go(func() {
			for n := range each {
				if n%3 == 0 {
					w.link(c).cutAtWrite(1 + random.IntN(4))
				} else {
					w.link(c).cutAtRead(1 + random.IntN(6))
				}
				ns.take(w.ctx, g, 1)
			}
			w.link(c).cutAtWrite(0)
			w.link(c).cutAtRead(0)
			if b, ok := g.(*recipes.BlockIDs); ok {
				w.closeBlocks(b)
			}
		})
	}
	calls.Wait()
}

// conformApart: a lock and a generator, in either order, by the paths that the
// servers know.
func conformApart(w *world) {
	c := w.client()
	w.release(w.acquire(w.mutex()))
	for _, at := range []string{root, root + "/ids"} {
		for kind, make := range counters {
			_, err := make(c, at).Next(w.ctx)
			if wantWrongRoot(w, err, c.ServerPath(root), c.ServerPath(at)); w.Failed() {
				w.Log(kind)
			}
		}
	}
	for kind, make := range counters {
		ids := "/" + kind
		if _, err := make(c, ids).Next(w.ctx); err != nil {
			w.Error(err)
		}
		for _, at := range []string{ids, ids + "/lock"} {
			_, err := recipes.NewInterProcessMutex(c, at).Acquire(w.ctx)
			wantWrongRoot(w, err, c.ServerPath(ids), c.ServerPath(at))
		}
	}
}
