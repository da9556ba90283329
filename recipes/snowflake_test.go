package recipes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A generator is a Snowflake whose IDs are checked: among those of all
// generators of a world none comes twice, and those of each rise.
type generator struct {
	*recipes.Snowflake
	w       *world
	workers *recipes.WorkerIDs
	made    *idSet
	last    recipes.ID
}

// An idSet is the IDs that were made.
type idSet struct {
	mu  sync.Mutex
	ids map[recipes.ID]struct{}
}

func (w *world) idSet() *idSet { return &idSet{ids: make(map[recipes.ID]struct{})} }

func (s *idSet) add(w *world, id recipes.ID) {
	w.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.ids[id]; twice {
		w.Errorf("%s was made twice", recipes.DefaultLayout().Describe(id))
	}
	s.ids[id] = struct{}{}
}

func (s *idSet) generator(w *world, workers *recipes.WorkerIDs, opts ...recipes.SnowflakeOption) *generator {
	return &generator{Snowflake: recipes.NewSnowflake(workers, opts...), w: w, workers: workers, made: s, last: -1}
}

func (g *generator) next(ctx context.Context) (recipes.ID, error) {
	g.w.Helper()
	id, err := g.Next(ctx)
	if err != nil {
		return 0, err
	}
	if id <= g.last {
		g.w.Errorf("%s is not above %s", recipes.DefaultLayout().Describe(id), recipes.DefaultLayout().Describe(g.last))
	}
	g.made.add(g.w, id)
	g.last = id
	claim, l := g.Worker(), g.workers.Layout()
	if from, until := claim.Reserved(); claim.ID() == id.Worker(l) && (id.Time(l).Before(from) || !id.Time(l).Before(until)) {
		g.w.Errorf("%s, of what is reserved from %v to %v", l.Describe(id), from, until)
	}
	return id, nil
}

// must is next without an error.
func (g *generator) must() recipes.ID {
	g.w.Helper()
	id, err := g.next(g.w.ctx)
	if err != nil {
		g.w.Fatalf("Next: %v", err)
	}
	return id
}

func (g *generator) end() {
	g.w.Helper()
	if err := g.Close(); err != nil {
		g.w.Errorf("Close: %v", err)
	}
}

// A tilt is a wall clock that is set.
type tilt struct{ off atomic.Int64 }

func (c *tilt) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

// set sets the clock, and waits until generators must have looked at it.
func (c *tilt) set(d time.Duration) {
	c.off.Store(int64(d))
	time.Sleep(2 * time.Millisecond)
}

func TestSnowflake(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers(recipes.WithPreferred(42)))
		if g.Worker() != nil {
			w.Error("there is a claim before the first ID")
		}
		if err := g.Start(w.ctx); err != nil || g.Worker().ID() != 42 {
			w.Fatalf("Start: %v", err)
		}
		l := recipes.DefaultLayout()
		for i := range 3 {
			time.Sleep(7 * time.Millisecond)
			first, second := g.must(), g.must()
			if !first.Time(l).Equal(time.Now().Truncate(time.Millisecond)) || first.Worker(l) != 42 || first.Sequence(l) != 0 {
				w.Errorf("%s at %v", l.Describe(first), time.Now())
			}
			if second != first+1 {
				w.Errorf("%d: %s behind %s", i, l.Describe(second), l.Describe(first))
			}
		}
		ids, err := g.NextN(w.ctx, 10000)
		if err != nil || len(ids) != 10000 || !slices.IsSorted(ids) || ids[0] <= g.last {
			w.Errorf("%d IDs, %v", len(ids), err)
		}
		for _, id := range ids {
			g.made.add(w, id)
		}
		if ids, err := g.NextN(w.ctx, 0); err != nil || len(ids) != 0 {
			w.Errorf("%v, %v", ids, err)
		}
		_, err = g.NextN(w.ctx, -1)
		wantErr(w, "less than none", err, framework.ErrInvalidOption)
		done, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err = g.Next(done)
		wantErr(w, "with a ctx that is done", err, context.Canceled)
		g.end()
		g.end()
		_, err = g.Next(w.ctx)
		wantErr(w, "after Close", err, recipes.ErrReleased)
	})
}

func TestSnowflakeOptions(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		workers := w.workers()
		for name, g := range map[string]*recipes.Snowflake{
			"no workers":     recipes.NewSnowflake(nil),
			"wrong workers":  recipes.NewSnowflake(w.workers(recipes.WithMaxSkew(-1))),
			"nil option":     recipes.NewSnowflake(workers, nil),
			"negative lead":  recipes.NewSnowflake(workers, recipes.WithMaxLead(-1)),
			"lead of a week": recipes.NewSnowflake(workers, recipes.WithMaxLead(168*time.Hour)),
		} {
			_, err := g.Next(w.ctx)
			wantErr(w, name, err, framework.ErrInvalidOption)
			wantErr(w, name, g.Start(w.ctx), framework.ErrInvalidOption)
			if err := g.Close(); err != nil {
				w.Errorf("%s: Close: %v", name, err)
			}
		}
	})
}

// Who is not asked for IDs asks for nothing. Who is writes once per half window,
// and nobody waits for it.
func TestSnowflakeWrites(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers())
		g.must()
		w.settle()
		log := w.requests(isWork)
		time.Sleep(10 * time.Minute)
		if ops := log.ops(); len(ops) > 0 {
			w.Errorf("an idle generator asks %q", ops)
		}
		g.must()
		w.settle()
		before := len(log.ops())
		for range 6000 {
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			if id := g.must(); time.Since(began) > 0 || !id.Time(recipes.DefaultLayout()).Equal(began.Truncate(time.Millisecond)) {
				w.Errorf("%v after %v", id.Time(recipes.DefaultLayout()), time.Since(began))
			}
		}
		ops := log.ops()[before:]
		if most := 10 * 60 / 5; len(ops) > most || slices.ContainsFunc(ops, func(op string) bool { return op != "multi" }) {
			w.Errorf("a busy generator asks %d times: %q", len(ops), ops)
		}
		g.end()
	})
}

// One ID after a long time: it is of now.
func TestSnowflakeSlowCaller(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers())
		for range 20 {
			if at := g.must().Time(recipes.DefaultLayout()); time.Since(at) > time.Millisecond || time.Since(at) < 0 {
				w.Errorf("%v old", time.Since(at))
			}
			time.Sleep(61 * time.Second)
		}
		g.end()
	})
}

// After the loss of the session the generator goes on to the end of what is
// reserved, also while a successor has the number; then it says that it is lost.
func TestSnowflakeSessionLoss(t *testing.T) {
	t.Parallel()
	for _, reclaim := range []bool{false, true} {
		inIDBubble(t, func(w *world) {
			made := w.idSet()
			var opts []recipes.SnowflakeOption
			if reclaim {
				opts = append(opts, recipes.WithReclaim())
			}
			c := w.client()
			g := made.generator(w, recipes.NewWorkerIDs(c, idRoot, recipes.WithRange(0, 1), recipes.WithPreferred(0)), opts...)
			g.must()
			claim := g.Worker()
			_, until := claim.Reserved()
			w.link(c).refuse(true)
			_ = w.srv.ExpireSession(claim.Session().ID())
			next := made.generator(w, w.workers(recipes.WithRange(0, 1), recipes.WithPreferred(0)))
			next.must()
			if n := next.Worker().ID(); n != 0 {
				w.Errorf("the successor has number %d", n)
			}
			var err error
			var last recipes.ID
			for i := 0; err == nil && time.Now().Before(until.Add(5*time.Second)); i++ {
				var id recipes.ID
				ctx, cancel := context.WithTimeout(w.ctx, time.Second)
				if id, err = g.next(ctx); err == nil {
					last = id
				}
				cancel()
				time.Sleep(10 * time.Millisecond)
				_, _ = next.next(w.ctx) // it is ahead of the clock by what was reserved
			}
			if at := last.Time(recipes.DefaultLayout()); until.Sub(at) > 20*time.Millisecond || !at.Before(until) {
				w.Errorf("the last ID is of %v, reserved was until %v", at, until)
			}
			if reclaim {
				wantErr(w, "without a connection", err, context.DeadlineExceeded)
				w.link(c).refuse(false)
				g.must()
				if n := g.Worker().ID(); n != 1 {
					w.Errorf("it goes on with number %d", n)
				}
				g.end()
			} else {
				wantErr(w, "lost", err, recipes.ErrLost)
				w.link(c).refuse(false)
				_, err = g.Next(w.ctx)
				wantErr(w, "lost, once more", err, recipes.ErrLost)
				wantErr(w, "Close", g.Close(), recipes.ErrLost)
			}
			next.end()
		})
	}
}

// With a claim anew in the background nobody notices the loss of a session.
func TestSnowflakeReclaimsInTime(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers(), recipes.WithReclaim())
		g.must()
		for i := range 300 {
			if i%50 == 25 {
				_ = w.srv.ExpireSession(g.Worker().Session().ID())
			}
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			if g.must(); time.Since(began) > 0 {
				w.Errorf("Next took %v", time.Since(began))
			}
		}
		g.end()
	})
}

// The clock is set back, while the generator runs and across a restart.
func TestSnowflakeClockBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second, 4 * time.Second, 9 * time.Second, time.Minute, time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				made := w.idSet()
				var clock tilt
				workers := w.workers(recipes.WithRange(0, 0), recipes.WithWall(clock.now))
				g := made.generator(w, workers)
				for range 100 {
					g.must()
					time.Sleep(time.Millisecond)
				}
				clock.set(-back)
				var failed error
				for range 100 {
					ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
					if _, err := g.next(ctx); err != nil {
						wantErr(w, "Next", err, recipes.ErrClockBehind)
						failed = err
					}
					cancel()
					time.Sleep(time.Millisecond)
				}
				if far := back > 5*time.Second; far != (failed != nil) {
					w.Errorf("set back by %v: %v", back, failed)
				}
				g.end() // or crash: nothing else is known to the next one
				again := made.generator(w, workers)
				again.last = g.last
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				_, err := again.next(ctx)
				switch {
				case back > 10*time.Second:
					wantErr(w, "after a restart", err, recipes.ErrClockSkew)
				case errors.Is(err, recipes.ErrClockBehind): // by what was reserved, and the rest
				case err != nil:
					w.Errorf("after a restart: %v", err)
				}
				clock.set(0)
				time.Sleep(time.Minute)
				for range 100 {
					again.must()
				}
				again.end()
			})
		})
	}
}

// A clock that is far ahead makes no IDs and spoils nothing.
func TestSnowflakeClockAhead(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{11 * time.Second, time.Hour, 100 * 365 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				var clock tilt
				g := w.idSet().generator(w, w.workers(recipes.WithRange(0, 1), recipes.WithWall(clock.now)))
				g.must()
				clock.set(ahead)
				log := w.requests(isWork)
				for range 1000 {
					_, err := g.next(w.ctx)
					wantErr(w, "Next", err, recipes.ErrClockSkew)
				}
				w.settle()
				if ops := log.ops(); len(ops) > 20 {
					w.Errorf("%d requests: %q", len(ops), ops[:20])
				}
				clock.set(0)
				time.Sleep(time.Second)
				if at := g.must().Time(recipes.DefaultLayout()); time.Since(at) > time.Millisecond || time.Since(at) < 0 {
					w.Errorf("afterwards IDs are %v old", time.Since(at))
				}
				g.end()
				for range 2 {
					id := w.claim(w.workers(recipes.WithRange(0, 1)))
					if from, _ := id.Reserved(); time.Until(from) > 10*time.Second {
						w.Errorf("number %d is of use only from %v", id.ID(), from)
					}
					defer w.let(id)
				}
			})
		})
	}
}

// A machine that was asleep may be the copy of one that runs: another claim.
func TestSnowflakeAsleep(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		var clock tilt
		c := w.client()
		g := w.idSet().generator(w, recipes.NewWorkerIDs(c, idRoot, recipes.WithWall(clock.now)))
		g.must()
		was := g.Worker()
		clock.set(900 * time.Millisecond) // adjusted
		g.must()
		if g.Worker() != was {
			w.Error("another claim after an adjustment")
		}
		clock.set(3 * time.Second)
		id := g.must()
		if g.Worker() == was || g.Worker().ID() == was.ID() {
			w.Error("no other claim")
		}
		if ahead := id.Time(recipes.DefaultLayout()).Sub(clock.now()); ahead > 0 {
			w.Errorf("an ID that is %v ahead", ahead)
		}
		g.end()
	})
}

// A burst borrows from the time ahead up to the lead, and is then held to the
// layout's rate. Next does not outlast its context.
func TestSnowflakeBurst(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		l := recipes.DefaultLayout()
		l.SequenceBits = 4
		g := w.idSet().generator(w, w.workers(recipes.WithLayout(l)), recipes.WithMaxLead(100*time.Millisecond))
		g.must()
		began := time.Now()
		const per = 16 // a millisecond
		if _, err := g.NextN(w.ctx, 100*per); err != nil || time.Since(began) > 0 {
			w.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := g.NextN(w.ctx, 500*per); err != nil || time.Since(began) < 499*time.Millisecond || time.Since(began) > 501*time.Millisecond {
			w.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
		defer cancel()
		began = time.Now()
		_, err := g.NextN(ctx, 1<<20)
		wantErr(w, "a ctx that ends", err, context.DeadlineExceeded)
		if time.Since(began) != 10*time.Millisecond {
			w.Errorf("after %v", time.Since(began))
		}
		// Beyond the window: more is reserved meanwhile.
		began = time.Now()
		for range 150 {
			if _, err := g.NextN(w.ctx, 100*per); err != nil {
				w.Fatal(err)
			}
		}
		if took := time.Since(began); took < 14500*time.Millisecond || took > 15500*time.Millisecond {
			w.Errorf("15 s worth of IDs took %v", took)
		}
		g.end()
	})
}

// The layout's last moment, and its first.
func TestSnowflakeEndOfLife(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		l := recipes.DefaultLayout()
		l.TimeBits = 14 // 16 s
		l.Epoch = time.Now().Add(time.Minute).Truncate(time.Millisecond)
		var clock tilt
		ids := w.workers(recipes.WithLayout(l), recipes.WithWall(clock.now))
		g := w.idSet().generator(w, ids)
		_, err := g.next(w.ctx)
		wantErr(w, "before the epoch", err, recipes.ErrClockBehind)
		if e := w.explainWorkers(ids); e.Exists {
			w.Errorf("before the epoch the root was made: %v", e)
		}
		time.Sleep(time.Minute)
		n := 0
		for {
			id, err := g.next(w.ctx)
			if err != nil {
				wantErr(w, "in the end", err, recipes.ErrLayoutExhausted)
				break
			}
			if id < 0 || id.Time(l).Before(time.Now().Truncate(time.Millisecond)) {
				w.Errorf("%s", l.Describe(id))
			}
			n++
			time.Sleep(10 * time.Millisecond)
		}
		if n < 1600 || time.Until(l.EndOfLife()) > 0 {
			w.Errorf("%d IDs until %v, the end is %v", n, time.Now(), l.EndOfLife())
		}
		_, err = ids.Claim(w.ctx)
		wantErr(w, "Claim", err, recipes.ErrLayoutExhausted)
		g.end()
	})
}

func TestSnowflakeOtherLayout(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers())
		g.must()
		other := recipes.NewSnowflake(w.workers(recipes.WithLayout(recipes.JavaScriptLayout())))
		_, err := other.Next(w.ctx)
		wantErr(w, "another layout", err, recipes.ErrOtherLayout)
		if err := other.Close(); err != nil {
			w.Error(err)
		}
		g.end()
	})
}

// Other layouts, one with a unit that is no power of anything.
func TestSnowflakeLayouts(t *testing.T) {
	t.Parallel()
	odd := recipes.Layout{TimeBits: 40, WorkerBits: 0, SequenceBits: 1, Unit: 7 * time.Millisecond, Epoch: time.Date(2020, 2, 3, 4, 5, 6, 789e6, time.UTC)}
	for _, l := range []recipes.Layout{recipes.JavaScriptLayout(), wideLayout(), odd} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				g := w.idSet().generator(w, w.workers(recipes.WithLayout(l)), recipes.WithReclaim())
				for i := range 3000 {
					if i%500 == 250 {
						_ = w.srv.ExpireSession(g.Worker().Session().ID())
					}
					id := g.must()
					if off := time.Until(id.Time(l)); off > 11*time.Second || off <= -l.Unit {
						w.Errorf("%s at %v", l.Describe(id), time.Now().UTC())
					}
					if i%2 == 0 {
						time.Sleep(11 * time.Millisecond)
					}
				}
				g.end()
			})
		})
	}
}

// A reply that is lost, of a claim or an extension: what is reserved is what the
// slot says.
func TestSnowflakeLostReply(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*embedded.Server, func(embedded.Request) bool) <-chan struct{}{
		"reply lost": (*embedded.Server).LoseReply,
		"cut before": (*embedded.Server).CutBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				g := w.idSet().generator(w, w.workers())
				lost := lose(w.srv, op("multi"))
				g.must()
				<-lost
				for range 10 {
					lost := lose(w.srv, op("multi"))
					_, before := g.Worker().Reserved()
					for !isClosed(lost) {
						time.Sleep(100 * time.Millisecond)
						g.must()
					}
					time.Sleep(time.Second)
					_, after := g.Worker().Reserved()
					info, _ := w.srv.Node(g.Worker().SlotPath())
					if !after.After(before) || !strings.Contains(string(info.Data), after.Format("2006-01-02T15:04:05.000Z")) {
						w.Errorf("reserved until %v, then %v, and the slot says %s", before, after, info.Data)
					}
				}
				g.end()
			})
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Somebody writes the slot: the number is lost, and nothing is written over.
func TestSnowflakeOvertaken(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"by hand", "",
		`{"high":"2026-12-01T04:00:30.000Z","owner":"a","generation":9,"write":"b"}`,
	} {
		for _, lost := range []bool{false, true} {
			inIDBubble(t, func(w *world) {
				g := w.idSet().generator(w, w.workers(recipes.WithRange(0, 0)))
				g.must()
				path := g.Worker().SlotPath()
				c := w.client()
				if _, err := c.Set(w.ctx, path, []byte(data), framework.AnyVersion); err != nil {
					w.Fatal(err)
				}
				if lost {
					w.srv.LoseReply(op("multi"))
				}
				var err error
				for range 150 {
					time.Sleep(100 * time.Millisecond)
					if _, err = g.next(w.ctx); err != nil {
						break
					}
				}
				wantErr(w, "Next", err, recipes.ErrLost)
				if err != nil && !strings.Contains(err.Error(), path) {
					w.Errorf("%v does not name %s", err, path)
				}
				if now, _, _ := c.Get(w.ctx, path); string(now) != data {
					w.Errorf("the slot holds %q", now)
				}
				wantErr(w, "Close", g.Close(), recipes.ErrLost)
				time.Sleep(soon)
			})
		}
	}
}

// IDs of many goroutines are unique, and rise for each of them.
func TestSnowflakeConcurrent(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		made := w.idSet()
		workers := w.workers()
		g := recipes.NewSnowflake(workers, recipes.WithReclaim())
		var work sync.WaitGroup
		for range 64 {
			work.Go(func() {
				each := generator{Snowflake: g, w: w, workers: workers, made: made, last: -1}
				for i := range 200 {
					if _, err := each.next(w.ctx); err != nil {
						w.Error(err)
						return
					}
					if i%50 == 0 {
						time.Sleep(3 * time.Second)
					}
				}
			})
		}
		for range 3 {
			time.Sleep(2500 * time.Millisecond)
			if id := g.Worker(); id != nil {
				_ = w.srv.ExpireSession(id.Session().ID())
			}
		}
		work.Wait()
		if err := g.Close(); err != nil && !errors.Is(err, recipes.ErrLost) {
			w.Error(err)
		}
		time.Sleep(soon)
	})
}

// A lead that is longer than what is reserved does not go beyond that.
func TestSnowflakeLeadBeyondWindow(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		l := recipes.DefaultLayout()
		l.SequenceBits = 0
		g := w.idSet().generator(w, w.workers(recipes.WithLayout(l), recipes.WithWindow(time.Second)), recipes.WithMaxLead(5*time.Second))
		for range 4000 {
			g.must()
		}
		w.srv.DropConnections()
		w.link(w.clients[0]).refuse(true)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		var err error
		for err == nil {
			_, err = g.next(ctx)
		}
		wantErr(w, "without a connection", err, context.DeadlineExceeded)
		w.link(w.clients[0]).refuse(false)
		g.must()
		g.end()
	})
}

// A claim anew goes on above what a burst has used up.
func TestSnowflakeReclaimsAboveItself(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		l := recipes.DefaultLayout()
		l.SequenceBits = 0
		g := w.idSet().generator(w, w.workers(recipes.WithLayout(l)), recipes.WithReclaim())
		for range 3 {
			for range 4900 { // 4.9 s
				g.must()
			}
			_ = w.srv.ExpireSession(g.Worker().Session().ID())
			for was := g.Worker(); g.Worker() == was; time.Sleep(100 * time.Millisecond) {
				g.must()
			}
			g.must()
		}
		g.end()
	})
}

// Whose mark was deleted reserves nothing more, even if it has not heard of it.
func TestSnowflakeMarkDeletedUnheard(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		g := w.idSet().generator(w, w.workers())
		g.must()
		w.settle()
		other := w.client()
		_, until := g.Worker().Reserved()
		w.srv.Lag(g.Worker().Session().ID())
		w.remove(other, g.Worker().Path())
		var err error
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = g.next(w.ctx)
		}
		wantErr(w, "Next", err, recipes.ErrLost)
		if _, now := g.Worker().Reserved(); !now.Equal(until) {
			w.Errorf("reserved until %v, and then until %v", until, now)
		}
		wantErr(w, "Close", g.Close(), recipes.ErrLost)
	})
}

func TestSnowflakeAllocatesNothing(t *testing.T) {
	inIDBubble(t, func(w *world) {
		g := recipes.NewSnowflake(w.workers())
		if err := g.Start(w.ctx); err != nil {
			w.Fatal(err)
		}
		n := testing.AllocsPerRun(1000, func() {
			if _, err := g.Next(w.ctx); err != nil {
				w.Error(err)
			}
		})
		if n > 0 {
			w.Errorf("%v allocations for an ID", n)
		}
		if err := g.Close(); err != nil {
			w.Error(err)
		}
	})
}

// Whoever claims his own number again goes on where he was, unless another has had
// it in between, or a copy of him may have it.
func TestSnowflakeReclaimsItsOwn(t *testing.T) {
	t.Parallel()
	l := recipes.DefaultLayout()
	l.SequenceBits = 0 // so that equal times are equal IDs
	opts := []recipes.WorkerOption{recipes.WithLayout(l), recipes.WithRange(0, 0)}
	t.Run("nobody in between", func(t *testing.T) {
		t.Parallel()
		inIDBubble(t, func(w *world) {
			g := w.idSet().generator(w, w.workers(opts...), recipes.WithReclaim())
			g.must()
			for range 3 {
				was := g.Worker()
				_ = w.srv.ExpireSession(was.Session().ID())
				for g.Worker() == was {
					time.Sleep(10 * time.Millisecond)
					g.must()
				}
				time.Sleep(10 * time.Millisecond)
				began := time.Now()
				if id := g.must(); time.Since(began) > 0 || id.Time(l).Sub(began) > time.Millisecond {
					w.Errorf("%s at %v, after %v", l.Describe(id), began, time.Since(began))
				}
			}
			g.end()
		})
	})
	t.Run("another in between", func(t *testing.T) {
		t.Parallel()
		inIDBubble(t, func(w *world) {
			made, c := w.idSet(), w.client()
			g := made.generator(w, recipes.NewWorkerIDs(c, idRoot, opts...), recipes.WithReclaim())
			g.must()
			was := g.Worker()
			w.link(c).refuse(true)
			_ = w.srv.ExpireSession(was.Session().ID())
			rival := made.generator(w, w.workers(opts...))
			for range 3000 {
				rival.must()
			}
			rival.end()
			w.link(c).refuse(false)
			for range 10000 {
				g.must()
				time.Sleep(time.Millisecond)
			}
			if g.Worker() == was {
				w.Error("it has not claimed again")
			}
			g.end()
		})
	})
	t.Run("perhaps a copy", func(t *testing.T) {
		t.Parallel()
		inIDBubble(t, func(w *world) {
			var clock tilt
			g := w.idSet().generator(w, w.workers(append(opts, recipes.WithWall(clock.now))...))
			g.must()
			_, until := g.Worker().Reserved()
			clock.set(3 * time.Second)
			g.must()
			if from, _ := g.Worker().Reserved(); from.Before(until) {
				w.Errorf("reserved from %v, and before until %v", from, until)
			}
			g.end()
		})
	})
}

// What a restore from a backup, or an administrator, takes away of a slot is
// harmless as soon as nobody runs any more on what was reserved before.
func TestSnowflakeRestoredStore(t *testing.T) {
	t.Parallel()
	const window = 4 * time.Second
	for name, restore := range map[string]func(w *world, admin *framework.Client, slot string, old []byte){
		"set back": func(w *world, admin *framework.Client, slot string, old []byte) {
			if _, err := admin.Set(w.ctx, slot, old, framework.AnyVersion); err != nil {
				w.Error(err)
			}
		},
		"deleted": func(w *world, admin *framework.Client, slot string, _ []byte) { w.remove(admin, slot) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				made, admin := w.idSet(), w.client()
				opts := []recipes.WorkerOption{recipes.WithRange(0, 0), recipes.WithWindow(window)}
				g := made.generator(w, w.workers(opts...))
				g.must()
				slot := g.Worker().SlotPath()
				old, _, err := admin.Get(w.ctx, slot)
				if err != nil {
					t.Fatal(err)
				}
				for range 50 {
					time.Sleep(200 * time.Millisecond)
					g.must()
				}
				w.expire(g.Worker().Lease)
				w.settle()
				restore(w, admin, slot, old)
				for err == nil { // to the end of what is reserved
					time.Sleep(10 * time.Millisecond)
					_, err = g.next(w.ctx)
				}
				wantErr(w, "without a claim", err, recipes.ErrLost)
				next := made.generator(w, w.workers(opts...))
				for range 50 {
					if id := next.must(); id <= g.last {
						w.Errorf("%d comes after %d", id, g.last)
					}
					time.Sleep(200 * time.Millisecond)
				}
				wantErr(w, "Close", g.Close(), recipes.ErrLost)
				next.end()
			})
		})
	}
}
