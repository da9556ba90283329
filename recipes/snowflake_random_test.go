package recipes_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/recipes"
)

// Whatever is called at once, given up at any moment, and whatever becomes of
// sessions, connections and replies: no ID is made twice, those of a goroutine
// rise, Start returns with a claim or an error, and nothing is left.
func TestRandomSnowflakes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		inIDBubble(t, func(w *world) {
			defer func() {
				if w.Failed() {
					w.Logf("seed %d", seed)
				}
			}()
			randomSnowflakes(w, seed)
		})
	}
}

func randomSnowflakes(w *world, seed uint64) {
	made := w.idSet()
	stop := make(chan struct{})
	var users, closes sync.WaitGroup
	var all []*recipes.Snowflake
	for i := range uint64(3) { // with two numbers
		g := recipes.NewSnowflake(w.workers(recipes.WithRange(0, 1), recipes.WaitForNumber(), recipes.WithWindow(2*time.Second)), recipes.WithReclaim())
		all = append(all, g)
		for j := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 10*i+j))
			users.Go(func() { useAtRandom(w, r, g, made, stop) })
		}
	}
	r := rand.New(rand.NewPCG(seed, 100))
	for range 30 {
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		of := op([]string{"multi", "setData", "getData", "exists", "create2", "getChildren2"}[r.IntN(6)])
		switch sessions := w.srv.Sessions(); r.IntN(5) {
		case 0:
			w.srv.DropConnections()
		case 1:
			w.srv.LoseReply(of)
		case 2:
			w.srv.CutBefore(of)
		case 3, 4:
			if len(sessions) > 0 {
				_ = w.srv.ExpireSession(sessions[r.IntN(len(sessions))].ID)
			}
		}
	}
	for i, g := range all {
		closes.Go(func() {
			time.Sleep(time.Duration(i) * time.Second)
			_ = g.Close() // the claim may be lost
		})
	}
	closes.Wait()
	close(stop)
	users.Wait()
	w.shortly("nothing is left", func() bool { return len(w.ephemerals()) == 0 })
}

// useAtRandom asks g for IDs until stop is closed, with contexts that end at any
// moment.
func useAtRandom(w *world, r *rand.Rand, g *recipes.Snowflake, made *idSet, stop <-chan struct{}) {
	last := recipes.ID(-1)
	take := func(ids ...recipes.ID) {
		for _, id := range ids {
			if id <= last {
				w.Errorf("%d after %d", id, last)
			}
			last = id
			made.add(w, id)
		}
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(w.ctx, time.Duration(r.IntN(800))*time.Millisecond)
		switch r.IntN(4) {
		case 0:
			if err := g.Start(ctx); err == nil && g.Worker() == nil {
				w.Error("Start returned without a claim")
			}
		case 1:
			ids, err := g.NextN(ctx, r.IntN(20))
			if err == nil {
				take(ids...)
			}
		default:
			id, err := g.Next(ctx)
			if err == nil {
				take(id)
			}
		}
		cancel()
		time.Sleep(time.Duration(1+r.IntN(1200)) * time.Millisecond)
	}
}
