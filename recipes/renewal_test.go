package recipes_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/recipes"
)

// A clock that was set back is waited for, and by so much that it makes no sense
// is an error at once, also for who has all the time.
func TestSnowflakeWaitsForTheClock(t *testing.T) {
	t.Parallel()
	const lead, window = 5 * time.Second, 4 * time.Second
	for _, tc := range []struct{ back, wait time.Duration }{{6 * time.Second, time.Second}, {time.Minute, 0}} {
		inIDBubble(t, func(w *world) {
			var clock tilt
			workers := w.workers(recipes.WithWall(clock.now), recipes.WithMaxSkew(time.Hour), recipes.WithWindow(window))
			g := w.idSet().generator(w, workers, recipes.WithMaxLead(lead))
			g.must()
			clock.set(-tc.back)
			began := time.Now()
			_, err := g.next(w.ctx)
			if took := time.Since(began).Round(100 * time.Millisecond); took != tc.wait {
				w.Errorf("set back by %v: after %v", tc.back, took)
			}
			switch {
			case tc.wait == 0:
				wantErr(w, "Next", err, recipes.ErrClockBehind)
			case err != nil:
				w.Errorf("Next: %v", err)
			}
			g.end()
		})
	}
}

// Who comes when a claim has just been given up begins another.
func TestSnowflakeStartsAfterGivenUp(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		only := recipes.WithRange(0, 0)
		id := w.claim(w.workers(only))
		g := recipes.NewSnowflake(w.workers(only, recipes.WaitForNumber()))
		for range 20 {
			wantErr(w, "Start", g.Start(w.within(soon)), context.DeadlineExceeded)
		}
		w.let(id)
		if err := g.Start(w.ctx); err != nil || g.Worker() == nil {
			w.Errorf("Start: %v, worker %v", err, g.Worker())
		}
		if err := g.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
		wantErr(w, "Start after Close", g.Start(w.ctx), recipes.ErrReleased)
	})
}

// When the client is closed a generator goes on with what it has, and no further.
func TestSnowflakeOfClosedClient(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]recipes.SnowflakeOption{"": nil, "with reclaim": {recipes.WithReclaim()}} {
		inIDBubble(t, func(w *world) {
			c := w.client()
			g := recipes.NewSnowflake(recipes.NewWorkerIDs(c, idRoot), opts...)
			if err := g.Start(w.ctx); err != nil {
				w.Fatal(err)
			}
			if err := c.Close(); err != nil {
				w.Fatal(err)
			}
			if _, err := g.Next(w.ctx); err != nil {
				w.Errorf("%s: in the reserved time: %v", name, err)
			}
			time.Sleep(11 * time.Second)
			_, err := g.Next(w.ctx)
			wantErr(w, name, err, recipes.ErrClosed)
			_ = g.Close() // its claim went with the client
		})
	}
}

// A first claim that nobody waits for any more is given up: it takes no number
// later on.
func TestSnowflakeGivesUpTheClaim(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		only := recipes.WithRange(0, 0)
		id := w.claim(w.workers(only))
		g := w.idSet().generator(w, w.workers(only, recipes.WaitForNumber()))
		ctx, cancel := context.WithTimeout(w.ctx, soon)
		defer cancel()
		_, err := g.next(ctx)
		wantErr(w, "Next", err, context.DeadlineExceeded)
		w.let(id)
		w.settle()
		if left := w.ephemerals(); len(left) > 0 {
			w.Errorf("in use are %v", left)
		}
		g.must()
		g.end()
	})
}

// More that was to be reserved in the background is not reserved any more when
// the servers come back later than a window, and nobody asks for IDs.
func TestSnowflakeGivesUpInTheBackground(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const window = 2 * time.Second
		c := w.client()
		g := w.idSet().generator(w, recipes.NewWorkerIDs(c, idRoot, recipes.WithWindow(window)))
		g.must()
		w.settle()
		w.link(c).refuse(true)
		w.link(c).drop()
		time.Sleep(window * 2 / 3)
		g.must()
		time.Sleep(2 * window)
		log := w.requests(op("multi"))
		w.link(c).refuse(false)
		time.Sleep(window)
		if ops := log.ops(); len(ops) > 0 {
			w.Errorf("it asks %q", ops)
		}
		g.must()
		if ops := log.ops(); len(ops) == 0 {
			w.Error("it has no connection")
		}
		g.end()
	})
}

// Closed at any look at the clock on the way to its first ID, also when the number
// is claimed by then, a generator has no number in use when Close returns.
func TestSnowflakeClosedWhileItClaims(t *testing.T) {
	t.Parallel()
	for step, struck := int64(1), true; struck && !t.Failed(); step++ {
		inIDBubble(t, func(w *world) {
			var g *recipes.Snowflake
			var looks atomic.Int64
			var closing sync.WaitGroup
			struck = false
			shut := func() {
				if err := g.Close(); err != nil {
					w.Errorf("look %d: Close: %v", step, err)
				}
				if left := w.ephemerals(); len(left) > 0 {
					w.Errorf("look %d: in use are %v", step, left)
				}
			}
			g = recipes.NewSnowflake(w.workers(recipes.WithWall(func() time.Time {
				if looks.Add(1) == step {
					struck = true
					closing.Go(shut)
					time.Sleep(time.Millisecond) // until Close waits, or has returned
				}
				return time.Now()
			})))
			if _, err := g.Next(w.ctx); err != nil {
				wantErr(w, "Next", err, recipes.ErrClosed)
			}
			closing.Wait()
			shut()
			_, err := g.Next(w.ctx)
			wantErr(w, "Next", err, recipes.ErrClosed)
		})
	}
}

// IDs of a lower number are above those that came before them too, although they
// begin in the unit of time in which those end, or right behind.
func TestSnowflakeReclaimsLowerNumber(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		l := recipes.DefaultLayout()
		l.SequenceBits = 4
		opts := []recipes.WorkerOption{recipes.WithLayout(l), recipes.WithRange(0, 1)}
		low := w.claim(w.workers(append(opts, recipes.WithPreferred(0))...))
		time.Sleep(15 * time.Second) // beyond what is reserved for it
		g := w.idSet().generator(w, w.workers(opts...), recipes.WithReclaim())
		for range 16*1000 + 5 { // a second ahead of the clock, and some
			g.must()
		}
		w.let(low)
		was := g.Worker()
		_ = w.srv.ExpireSession(was.Session().ID())
		for g.Worker() == was {
			time.Sleep(10 * time.Millisecond)
			for range 17 {
				g.must()
			}
		}
		g.must()
		if before, now := was.ID(), g.Worker().ID(); before != 1 || now != 0 {
			w.Errorf("numbers %d and %d", before, now)
		}
		g.end()
	})
}

// More is reserved in good time: nobody waits for it, however long servers take.
func TestSnowflakeRenewsInGoodTime(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const window = 4 * time.Second
		c := w.client()
		g := w.idSet().generator(w, recipes.NewWorkerIDs(c, idRoot, recipes.WithWindow(window)))
		g.must()
		w.settle()
		w.link(c).latency.Store(int64(window / 10))
		for range 200 {
			time.Sleep(window / 20)
			began := time.Now()
			if g.must(); time.Since(began) > 0 {
				w.Errorf("Next took %v", time.Since(began))
			}
		}
		g.end()
	})
}

// A server that refuses to reserve more is not asked again for each ID.
func TestSnowflakeRestsAfterFailure(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		const window, noAuth = 4 * time.Second, -102
		g := w.idSet().generator(w, w.workers(recipes.WithWindow(window)))
		g.must()
		w.settle()
		time.Sleep(window * 2 / 3)
		refused := 0
		defer w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op != "multi" {
				return embedded.Pass
			}
			refused++
			return embedded.Answer(noAuth)
		})()
		for range 1000 {
			g.must()
			time.Sleep(time.Millisecond)
		}
		if refused < 2 || refused > 4 { // once in a tenth of a window
			w.Errorf("it was refused %d times", refused)
		}
		g.end()
	})
}
