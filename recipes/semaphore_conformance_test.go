package recipes_test

import (
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// permitConformance is what only semaphores can do, on any server.
var permitConformance = map[string]func(w *world){
	"all or none":        conformAllOrNone,
	"limit":              conformLimit,
	"live limit":         conformLiveLimit,
	"several given back": conformGivenBack,
	"several, cut at every write": func(w *world) {
		w.conformPermitCuts((*link).cutAtWrite)
	},
	"several, cut at every read": func(w *world) { w.conformPermitCuts((*link).cutAtRead) },
}

// lines returns how many permits are out and how many stand in line.
func (w *world) lines(c *framework.Client) (out, inLine int) {
	w.Helper()
	return len(w.children(c, permitsOf)), len(w.children(c, lineOf))
}

// want starts an AcquireN and returns when it is in line.
func (w *world) want(c *framework.Client, s *recipes.InterProcessSemaphore, n int) *wish {
	w.Helper()
	_, before := w.lines(c)
	v := w.wish(s, n)
	w.eventually("one more is in line", func() bool { _, now := w.lines(c); return now > before })
	return v
}

func conformAllOrNone(w *world) {
	observer := w.client()
	blocker := w.acquireN(w.semaphore(2), 1)
	a := w.want(observer, w.semaphore(2), 2)
	b := w.want(observer, w.semaphore(2), 2)
	little := w.want(observer, w.semaphore(2), 1)
	w.settle()
	if out, _ := w.lines(observer); out != 1 || a.granted() || b.granted() || little.granted() {
		w.Errorf("%d permits are out, want the one that was held", out)
	}
	w.releaseAll(blocker)
	for _, v := range []*wish{a, b, little} {
		w.releaseAll(w.waitAll(v))
	}
}

func conformLimit(w *world) {
	const limit, clients, each, rounds = 4, 3, 3, 6
	var mu sync.Mutex
	var done sync.WaitGroup
	var holding, most int
	for i := range clients {
		c := w.client()
		s := recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(limit))
		for j := range each {
			done.Go(func() {
				for r := range rounds {
					n := 1 + (i+j+r)%limit
					leases := w.acquireN(s, n)
					mu.Lock()
					holding += n
					if most = max(most, holding); holding > limit {
						w.Errorf("%d permits are held, the limit is %d", holding, limit)
					}
					mu.Unlock()
					time.Sleep(w.timeout / 1000)
					mu.Lock()
					holding -= n
					mu.Unlock()
					w.releaseAll(leases)
					if (i+j+r)%5 == 0 {
						w.link(c).drop()
					}
				}
			})
		}
	}
	done.Wait()
	if most != limit {
		w.Errorf("at most %d were held at once, want the limit, %d", most, limit)
	}
}

func conformLiveLimit(w *world) {
	observer := w.client()
	count := recipes.NewSharedCount(observer, countPath, 1)
	held := w.acquireN(w.live(1), 1)
	pair := w.want(observer, w.live(1), 2)
	if err := count.Set(w.ctx, 2); err != nil {
		w.Fatal(err)
	}
	w.settle()
	if pair.granted() {
		w.Error("granted beyond the limit")
	}
	value, version, err := count.Get(w.ctx)
	if err != nil || value != 2 {
		w.Errorf("Get: %d, %v", value, err)
	}
	if err := count.TrySet(w.ctx, version, 3); err != nil {
		w.Errorf("TrySet: %v", err)
	}
	more := w.waitAll(pair)
	if err := count.Set(w.ctx, 1); err != nil {
		w.Fatal(err)
	}
	for _, l := range append(held, more...) {
		if err := l.Err(); err != nil {
			w.Errorf("lowering the limit has ended %s: %v", l.Path(), err)
		}
	}
	w.releaseAll(more)
	next := w.want(observer, w.live(1), 1)
	w.settle()
	if next.granted() {
		w.Error("granted beyond the lowered limit")
	}
	w.releaseAll(held)
	w.releaseAll(w.waitAll(next))
}

func conformGivenBack(w *world) {
	observer, c := w.client(), w.client()
	leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(3)), 3)
	ctx := leases.Context(w.ctx)
	a := w.want(observer, w.semaphore(3), 1)
	b := w.want(observer, w.semaphore(3), 2)
	w.link(c).silence()
	first, second := w.waitAll(a), w.waitAll(b)
	if ctx.Err() == nil {
		w.Error("granted before those who held knew that they had lost")
	}
	w.releaseAll(first)
	w.releaseAll(second)
}

// conformPermitCuts is conformCuts for two permits that wait for one.
func (w *world) conformPermitCuts(cutAt func(l *link, n int)) {
	other := w.semaphore(2)
	for n := 1; n <= 16; n++ {
		c := w.client()
		held := w.acquireN(other, 1)
		cutAt(w.link(c), n)
		waiting := w.attemptN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(2)), 2)
		time.Sleep(w.timeout / 40)
		w.releaseAll(held)
		w.releaseAll(w.waitAll(waiting))
		if err := c.Close(); err != nil {
			w.Error(err)
		}
	}
}
