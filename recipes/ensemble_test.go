package recipes_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/recipes"
)

// TestEnsemble has what one server cannot show: leaders that change, and a
// majority that is gone.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	ens := testenv.StartApache(t, 3, apache.WithTick(conformTick))
	in := func(timeout time.Duration, test func(w *world, ens *apache.Ensemble)) func(t *testing.T) {
		return func(t *testing.T) {
			w := newWorld(t, ens, timeout)
			defer w.closeClients()
			test(w, ens)
		}
	}
	t.Run("held across leaders", in(10*time.Second, ensembleLeaders))
	t.Run("lost with the majority", in(2*time.Second, ensembleMajority))
	t.Run("contention", in(10*time.Second, ensembleContention))
}

// leader returns the leader of an ensemble that serves.
func (w *world) leader(ens *apache.Ensemble) *apache.Server {
	w.Helper()
	leader, err := ens.Leader(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	return leader
}

// must ends the test if something that is done to a server fails.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// A lock is held, and its line kept, while each server in turn is killed or
// stands still: the session outlives them all.
func ensembleLeaders(w *world, ens *apache.Ensemble) {
	c := w.client()
	lease := w.acquire(w.lock(c))
	as := w.queue(w.mutex(), w.mutex(), w.mutex())
	for range 2 {
		leader := w.leader(ens)
		w.must(leader.Kill())
		w.leader(ens)
		w.must(leader.Restart(w.ctx))
		w.must(ens.WaitServing(w.ctx))
	}
	paused := w.leader(ens)
	w.must(paused.Pause())
	w.eventually("another leads", func() bool { return w.leader(ens) != paused })
	w.must(paused.Resume())
	w.must(ens.WaitServing(w.ctx))
	if _, err := c.Multi(w.ctx, lease.Check()); err != nil {
		w.Fatalf("the server knows of no holder: %v", err)
	}
	for _, a := range as {
		if a.returned() {
			w.Fatalf("granted while another holds: %v", a.err)
		}
		if err := lease.Err(); err != nil {
			w.Fatalf("lost: %v", err)
		}
		w.release(lease)
		lease = w.wait(a)
	}
	w.release(lease)
}

// Without a majority nobody knows who holds: the holder has lost the lock
// before any other can have it, and all go on when servers come back.
func ensembleMajority(w *world, ens *apache.Ensemble) {
	lease := w.acquire(w.mutex())
	waiting := w.queue(w.mutex())[0]
	w.must(ens.Server(0).Kill())
	w.must(ens.Server(1).Kill())
	<-lease.Done()
	wantErr(w, "Err", lease.Err(), recipes.ErrLost)
	if waiting.returned() {
		w.Errorf("granted by no majority: %v", waiting.err)
	}
	w.must(ens.Server(0).Restart(w.ctx))
	w.must(ens.Server(1).Restart(w.ctx))
	w.must(ens.WaitServing(w.ctx))
	<-waiting.done
	if errors.Is(waiting.err, recipes.ErrLost) {
		waiting = w.attempt(w.mutex()) // its session went with the majority
	}
	w.release(w.wait(waiting))
}

// Every kind of lock is handed round while leaders come and go.
func ensembleContention(w *world, ens *apache.Ensemble) {
	for _, f := range []family{mutexes, semaphoreMutexes, semaphoresOf(2), writers} {
		w.Run(f.name, func(t *testing.T) {
			inner := newWorld(t, ens, w.timeout)
			inner.family = f
			defer inner.closeClients()
			inner.handRound(func() {
				leader := inner.leader(ens)
				inner.must(leader.Kill())
				inner.leader(ens)
				inner.must(leader.Restart(inner.ctx))
				inner.must(ens.WaitServing(inner.ctx))
			})
		})
	}
}

// handRound has contenders take turns until trouble is over, and then some
// more. Each gets turns after it.
func (w *world) handRound(trouble func()) {
	const contenders, after = 5, 3
	var before, ended atomic.Int64
	over := make(chan struct{})
	var done sync.WaitGroup
	for range contenders {
		m := w.lock(w.client())
		turn := func() {
			w.release(w.acquire(m))
		}
		done.Go(func() {
			for first := true; ; first = false {
				select {
				case <-over:
					for range after {
						turn()
					}
					ended.Add(1)
					return
				default:
				}
				turn()
				if first {
					before.Add(1)
				}
			}
		})
	}
	w.eventually("all had a turn", func() bool { return before.Load() == contenders })
	trouble()
	close(over)
	w.eventually("the turns end", func() bool { return ended.Load() == contenders })
	done.Wait()
}
