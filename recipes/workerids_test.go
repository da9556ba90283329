package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const idRoot = "/ids/orders"

// inIDBubble is inBubble at a time that the layouts have numbers for.
func inIDBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	inBubbleFrom(t, time.Date(2026, time.December, 1, 4, 0, 0, 0, time.UTC), f)
}

// workers returns the worker numbers of idRoot for a new client.
func (w *world) workers(opts ...recipes.WorkerOption) *recipes.WorkerIDs {
	w.Helper()
	return recipes.NewWorkerIDs(w.client(), idRoot, opts...)
}

// claim claims, or fails the test.
func (w *world) claim(ids *recipes.WorkerIDs) *recipes.WorkerID {
	w.Helper()
	id, err := ids.Claim(w.ctx)
	if err != nil {
		w.Fatalf("Claim: %v", err)
	}
	return id
}

// let releases, or fails the test.
func (w *world) let(id *recipes.WorkerID) {
	w.Helper()
	if err := id.Release(); err != nil {
		w.Errorf("Release: %v", err)
	}
}

func TestWorkerIDClaim(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ids := recipes.NewWorkerIDs(c, idRoot, recipes.WithOwner("web-3"), recipes.WithRange(5, 6))
		began := time.Now()
		a, b := w.claim(ids), w.claim(ids)
		if a.ID() == b.ID() || min(a.ID(), b.ID()) != 5 || max(a.ID(), b.ID()) != 6 {
			w.Errorf("numbers %d and %d", a.ID(), b.ID())
		}
		from, until := a.Reserved()
		if a.Owner() != "web-3" || a.Generation() != 1 || until.Sub(from) != 10*time.Second || from.UnixMilli() != began.UnixMilli() {
			w.Errorf("owner %q, generation %d, reserved %v to %v", a.Owner(), a.Generation(), from, until)
		}
		data, _, err := c.Get(w.ctx, a.SlotPath())
		if want := fmt.Sprintf(`{"high":%q,"owner":"web-3","generation":1,"write":`, until.Format("2006-01-02T15:04:05.000Z")); err != nil || !strings.HasPrefix(string(data), want) {
			w.Errorf("%s, %v, want %s", data, err, want)
		}
		data, _, err = c.Get(w.ctx, idRoot)
		const layout = "baton:worker-ids\n" + `{"time":41,"worker":10,"sequence":12,"unit":"1ms","epoch":"2025-01-01T00:00:00Z"}`
		if err != nil || string(data) != layout {
			w.Errorf("%s, %v, want %s", data, err, layout)
		}
		ctx := a.Context(w.ctx)
		w.let(a)
		if !isDone(ctx) || !errors.Is(context.Cause(ctx), recipes.ErrReleased) {
			w.Errorf("the context: %v", context.Cause(ctx))
		}
		again := w.claim(ids)
		if again.ID() != a.ID() || again.Generation() != 2 {
			w.Errorf("number %d, generation %d", again.ID(), again.Generation())
		}
		if start, _ := again.Reserved(); start.Before(until) {
			w.Errorf("the next reservation begins at %v, before the end of the last, %v", start, until)
		}
		w.let(again)
		w.let(b)
	})
}

// Numbers that never were used come first, and then those that rested longest.
func TestWorkerIDLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		ids := w.workers(recipes.WithRange(0, 2))
		var order []int
		for range 9 {
			time.Sleep(time.Minute)
			id := w.claim(ids)
			order = append(order, id.ID())
			w.let(id)
		}
		first := slices.Clone(order[:3])
		slices.Sort(first)
		if !slices.Equal(first, []int{0, 1, 2}) || !slices.Equal(order[3:6], order[:3]) || !slices.Equal(order[6:], order[:3]) {
			w.Errorf("in the order %v", order)
		}
	})
}

func TestWorkerIDPreferred(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		ids := w.workers(recipes.WithPreferred(777))
		for range 3 { // free and new, then free and used
			a := w.claim(ids)
			b := w.claim(ids) // not free
			if a.ID() != 777 || b.ID() == 777 {
				w.Errorf("numbers %d and %d", a.ID(), b.ID())
			}
			w.let(a)
			w.let(b)
		}
	})
}

// Claims that nobody alive owns keep no number for ever, and who is alive is
// asked for once.
func TestWorkerIDDeadClaims(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ids := recipes.NewWorkerIDs(c, idRoot, recipes.WithRange(0, 3))
		var all []*recipes.WorkerID
		for range 2 {
			all = append(all, w.claim(ids))
		}
		for n := range 4 {
			w.put(c, fmt.Sprintf("%s/claims/worker-%d", idRoot, n))
		}
		for range 2 {
			all = append(all, w.claim(ids))
		}
		seen := make(map[int]bool)
		for _, id := range all {
			seen[id.ID()] = true
		}
		if len(seen) != 4 {
			w.Errorf("numbers %v", seen)
		}
		for _, want := range []int{1, 0} { // that is alive was asked for three of the four before
			log := w.requests(op("exists"))
			_, err := ids.Claim(w.ctx)
			var full *recipes.NoWorkerSlotError
			if !errors.As(err, &full) || full.Live != 4 {
				w.Errorf("Claim: %v", err)
			}
			log.stop()
			if n := len(log.ops()) - 4; n != want { // the dead are asked for each time
				w.Errorf("%d claims were asked for, want %d", n, want)
			}
		}
		w.let(all[3])
		if again := w.claim(w.workers(recipes.WithPreferred(all[3].ID()))); again.ID() != all[3].ID() {
			w.Errorf("number %d, want the preferred %d", again.ID(), all[3].ID())
		} else {
			w.let(again)
		}
		for _, id := range all[:3] {
			w.let(id)
		}
	})
}

// One more than there are numbers.
func TestWorkerIDExhausted(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		ids := w.workers()
		var all []*recipes.WorkerID
		seen := make(map[int]bool)
		for range 1024 {
			id := w.claim(ids)
			all = append(all, id)
			seen[id.ID()] = true
		}
		if len(seen) != 1024 {
			w.Errorf("%d numbers", len(seen))
		}
		_, err := ids.Claim(w.ctx)
		wantErr(w, "the 1,025th", err, recipes.ErrNoWorkerSlot)
		var full *recipes.NoWorkerSlotError
		if !errors.As(err, &full) || full.Total != 1024 || full.Live != 1024 || full.Root != idRoot || !strings.Contains(err.Error(), "1024 of 1024 are in use") {
			w.Errorf("%v, %+v", err, full)
		}
		w.let(all[500])
		next := w.claim(w.workers())
		if next.ID() != all[500].ID() {
			w.Errorf("number %d, want %d", next.ID(), all[500].ID())
		}
		w.let(next)
		for i, id := range all {
			if i != 500 {
				w.let(id)
			}
		}
		if text := w.log.String(); !strings.Contains(text, "running short") {
			w.Error("the log does not warn")
		}
	})
}

// One who waits for a number asks for nothing while none is free.
func TestWorkerIDWait(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		ids, waiting := w.workers(recipes.WithRange(0, 0)), w.workers(recipes.WithRange(0, 0), recipes.WaitForNumber())
		id := w.claim(ids)
		type result struct {
			id  *recipes.WorkerID
			err error
		}
		got := make(chan result, 1)
		claim := func(ctx context.Context) {
			next, err := waiting.Claim(ctx)
			got <- result{next, err}
		}
		ctx, cancel := context.WithCancel(w.ctx)
		go claim(ctx)
		w.settle()
		log := w.requests(isWork)
		time.Sleep(time.Minute)
		if ops := log.ops(); len(ops) > 0 {
			w.Errorf("while it waits it asks %q", ops)
		}
		cancel()
		wantErr(w, "cancelled", (<-got).err, context.Canceled, recipes.ErrNoWorkerSlot)
		go claim(w.ctx)
		w.settle()
		w.let(id)
		r := <-got
		if r.err != nil {
			w.Fatal(r.err)
		}
		w.let(r.id)
	})
}

// What the documentation of Claim says: of a claim, of a value's first look at
// a root of two names, of what the first of all has to make, of a claim among
// numbers that all were used.
const (
	claimRequests = 8
	apartRequests = 5
	firstRequests = 7 + apartRequests
	usedRequests  = 17
)

// A hundred processes at once: a hundred numbers, and no storm of requests.
func TestWorkerIDsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		last   int
		used   bool // all were used before
		faster int  // how often others may be, for one and on average
		mean   int
	}{
		{"plenty", 1023, false, 3, 1},
		{"one each", 99, false, 3 * 8, 8},
		{"plenty, used", 299, true, 16, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				const processes = 100
				if tc.used {
					ids := w.workers(recipes.WithRange(0, tc.last))
					for range tc.last + 1 {
						w.let(w.claim(ids))
					}
				}
				all := make([]*recipes.WorkerIDs, processes)
				for i := range all {
					c := w.client()
					w.link(c).latency.Store(int64(10 * time.Millisecond)) // so that all see the same
					all[i] = recipes.NewWorkerIDs(c, idRoot, recipes.WithRange(0, tc.last))
				}
				w.settle()
				var mu sync.Mutex
				requests := make(map[int64]int)
				defer w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
					if isWork(r) {
						mu.Lock()
						defer mu.Unlock()
						requests[r.Session]++
					}
					return embedded.Pass
				})()
				got := make([]*recipes.WorkerID, processes)
				var claims sync.WaitGroup
				for i, ids := range all {
					claims.Go(func() {
						var err error
						if got[i], err = ids.Claim(w.ctx); err != nil {
							w.Errorf("Claim: %v", err)
						}
					})
				}
				claims.Wait()
				w.settle()
				if w.Failed() {
					return
				}
				seen := make(map[int]bool)
				for _, id := range got {
					seen[id.ID()] = true
				}
				total, most := 0, 0
				mu.Lock()
				for _, n := range requests {
					total, most = total+n, max(most, n)
				}
				mu.Unlock()
				w.Logf("%d requests, at most %d by one", total, most)
				one, mean := claimRequests+apartRequests+firstRequests+tc.faster, claimRequests+apartRequests+1+tc.mean
				if tc.used {
					one, mean = one+usedRequests, mean+usedRequests
				} else {
					mean += firstRequests // which all of them see missing
				}
				if len(seen) != processes || most > one || total > processes*mean {
					w.Errorf("%d numbers; %d requests, at most %d by one", len(seen), total, most)
				}
				for _, id := range got {
					w.let(id)
				}
			})
		})
	}
}

// Nothing is written over that is not understood.
func TestWorkerIDForeignData(t *testing.T) {
	t.Parallel()
	const far = `{"high":"2090-01-01T00:00:00.000Z","owner":"a","generation":1,"write":"b"}`
	for _, tc := range []struct{ name, path, data, want string }{
		{"slot", idRoot + "/slots/0", "web-3", idRoot + "/slots/0: it holds \"web-3\""},
		{"slot without data", idRoot + "/slots/0", "", idRoot + "/slots/0: it holds \"\""},
		{"slot that is far ahead", idRoot + "/slots/0", far, idRoot + "/slots/0: time is reserved up to 2090-01-01"},
		{"root", idRoot, "a lock", idRoot + " holds \"a lock\""},
		{"root without layout", idRoot, "baton:worker-ids\n{}", idRoot + " holds \"{}\""},
		{"root of a lock", idRoot, "baton:lock\n", "it is that of a lock"},
		{"floor", idRoot + "/floor", "seven", idRoot + "/floor holds \"seven\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				c := w.client()
				w.put(c, tc.path)
				if _, err := c.Set(w.ctx, tc.path, []byte(tc.data), framework.AnyVersion); err != nil {
					w.Fatal(err)
				}
				id, err := w.workers(recipes.WithRange(0, 0)).Claim(w.ctx)
				if id != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
					w.Errorf("%v, want %s", err, tc.want)
				}
				if data, _, _ := c.Get(w.ctx, tc.path); string(data) != tc.data {
					w.Errorf("it now holds %q", data)
				}
				if strings.HasPrefix(tc.name, "slot") { // others are of use
					w.let(w.claim(w.workers(recipes.WithRange(0, 1))))
				}
			})
		})
	}
}

// A root made by hand, and children that mean nothing.
func TestWorkerIDForeignNodes(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		for _, path := range []string{"/workid", "/slots/007", "/slots/-1", "/slots/a", "/slots/2048", "/claims/x", "/claims/worker-01"} {
			w.put(c, idRoot+path)
		}
		id := w.claim(w.workers(recipes.WithRange(0, 0)))
		w.let(id)
		for _, child := range []string{"slots/007", "slots/a", "claims/x"} {
			if !strings.Contains(w.log.String(), idRoot+"/"+child) {
				w.Errorf("the log does not name %s", child)
			}
		}
	})
}

func TestWorkerIDOtherLayout(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		w.let(w.claim(w.workers()))
		later := recipes.DefaultLayout()
		later.Epoch = later.Epoch.Add(time.Hour)
		for _, l := range []recipes.Layout{recipes.JavaScriptLayout(), later} {
			_, err := w.workers(recipes.WithLayout(l)).Claim(w.ctx)
			wantErr(w, "another layout", err, recipes.ErrOtherLayout)
			if err != nil && !(strings.Contains(err.Error(), l.String()) && strings.Contains(err.Error(), recipes.DefaultLayout().String())) {
				w.Errorf("%v does not name both", err)
			}
		}
	})
}

func TestWorkerIDOptions(t *testing.T) {
	t.Parallel()
	servers, err := ensemble.NewFixed("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := framework.New(servers)
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]recipes.WorkerOption{
		"nil":              {nil},
		"layout":           {recipes.WithLayout(recipes.Layout{})},
		"range, reversed":  {recipes.WithRange(5, 4)},
		"range, negative":  {recipes.WithRange(-1, 4)},
		"range, too large": {recipes.WithRange(0, 1024)},
		"preferred":        {recipes.WithRange(0, 5), recipes.WithPreferred(6)},
		"preferred, -1":    {recipes.WithPreferred(-1)},
		"window":           {recipes.WithWindow(time.Millisecond)},
		"long window":      {recipes.WithWindow(2 * time.Hour)},
		"skew":             {recipes.WithMaxSkew(0)},
		"owner":            {recipes.WithOwner(strings.Repeat("x", 2000))},
	} {
		_, err := recipes.NewWorkerIDs(c, idRoot, opts...).Claim(t.Context())
		wantErr(t, name, err, framework.ErrInvalidOption)
	}
	_, err = recipes.NewWorkerIDs(c, "ids").Claim(t.Context())
	wantErr(t, "path", err, framework.ErrInvalidPath)
	_, err = recipes.NewWorkerIDs(nil, idRoot).Claim(t.Context())
	wantErr(t, "no client", err, framework.ErrInvalidOption)
}

// A clock that is off the servers' reserves nothing.
func TestWorkerIDClockSkew(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{100 * 365 * 24 * time.Hour, time.Hour, 11 * time.Second, -11 * time.Second, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			inIDBubble(t, func(w *world) {
				wall := func() time.Time { return time.Now().Add(off) }
				first := w.claim(w.workers(recipes.WithRange(0, 0)))
				_, until := first.Reserved()
				w.let(first)
				_, err := w.workers(recipes.WithRange(0, 0), recipes.WithWall(wall)).Claim(w.ctx)
				wantErr(w, "Claim", err, recipes.ErrClockSkew)
				for _, at := range []time.Time{wall(), time.Now()} {
					if err != nil && !strings.Contains(err.Error(), at.UTC().Format("2006-01-02T15:04")) {
						w.Errorf("%v does not say %v", err, at.UTC())
					}
				}
				next := w.claim(w.workers(recipes.WithRange(0, 0)))
				if from, _ := next.Reserved(); from.Sub(until) != max(0, from.Sub(until)) || from.Sub(until) > time.Second {
					w.Errorf("the next begins at %v, the last ended at %v", from, until)
				}
				w.let(next)
			})
		})
	}
}

// Servers whose clock has gone back are noticed, whatever this process's clock.
func TestWorkerIDFloor(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		w.let(w.claim(w.workers()))
		// As if it had been written in an hour from now, by servers whose clock was
		// right or wrong.
		floor := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
		if _, err := c.Set(w.ctx, idRoot+"/floor", []byte(floor), framework.AnyVersion); err != nil {
			w.Fatal(err)
		}
		for range 2 {
			_, err := w.workers().Claim(w.ctx)
			wantErr(w, "Claim", err, recipes.ErrClockSkew)
			if err != nil && !(strings.Contains(err.Error(), floor) && strings.Contains(err.Error(), idRoot+"/floor")) {
				w.Errorf("%v", err)
			}
		}
		w.remove(c, idRoot+"/floor")
		w.let(w.claim(w.workers()))
	})
}

// The claim goes with the session, what is reserved does not.
func TestWorkerIDSessionLoss(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		ids := w.workers(recipes.WithRange(0, 0))
		id := w.claim(ids)
		ctx := id.Context(w.ctx)
		_, until := id.Reserved()
		_ = w.srv.ExpireSession(id.Session().ID())
		<-ctx.Done()
		wantErr(w, "the context", context.Cause(ctx), recipes.ErrLost)
		if state := id.State(); state != recipes.LeaseLost {
			w.Errorf("state %v", state)
		}
		next := w.claim(ids) // by the same client, in a new session
		if from, _ := next.Reserved(); from.Before(until) {
			w.Errorf("the next begins at %v, before %v", from, until)
		}
		wantErr(w, "Release", id.Release(), recipes.ErrLost)
		if err := next.Err(); err != nil { // untouched by the release of the old one
			w.Error(err)
		}
		w.let(next)
	})
}

// A number whose own older session has not expired yet is not free.
func TestWorkerIDOwnOlderSession(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ids := recipes.NewWorkerIDs(c, idRoot, recipes.WithPreferred(7))
		id := w.claim(ids)
		w.srv.Silence(id.Session().ID())
		<-id.Done() // by the deadline, before the server's
		next := w.claim(ids)
		if next.ID() == 7 {
			w.Error("the number was given out while its node was there")
		}
		w.let(next)
		time.Sleep(2 * sessionTimeout) // the old session's node goes with it
		w.srv.Unsilence()
	})
}

// A number that another claims between the look at the claims and the look at the
// slot is not taken from him.
func TestWorkerIDClaimedWhileLooking(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		a, b := w.client(), w.client()
		opts := recipes.WithRange(0, 0)
		w.let(w.claim(recipes.NewWorkerIDs(b, idRoot, opts)))
		var other *recipes.WorkerID
		defer w.srv.OnRequest(of(a, func(r embedded.Request) bool {
			return r.Op == "getData" && r.Path == idRoot+"/slots/0"
		}).once(func() { other = w.claim(recipes.NewWorkerIDs(b, idRoot, opts)) }))()
		_, err := recipes.NewWorkerIDs(a, idRoot, opts).Claim(w.ctx)
		wantErr(w, "Claim", err, recipes.ErrNoWorkerSlot)
		if other == nil {
			w.Fatal("the slot was not read")
		}
		w.let(other)
	})
}

// A copied machine has the claim and the session of its original. What they have
// in common ends with the first extension, by either.
func TestWorkerIDTwin(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		inIDBubble(t, func(w *world) {
			id := w.claim(w.workers())
			twin := id.Twin()
			time.Sleep(6 * time.Second)
			if err := twin.Extend(w.ctx); err != nil {
				w.Fatal(err)
			}
			if lost {
				w.srv.LoseReply(op("multi"))
			}
			_, until := id.Reserved()
			wantErr(w, "the other", id.Extend(w.ctx), recipes.ErrLost)
			if _, now := id.Reserved(); !now.Equal(until) {
				w.Errorf("both reserved: until %v, and then until %v", until, now)
			}
			wantErr(w, "Release", id.Release(), recipes.ErrLost)
			time.Sleep(soon)
		})
	}
}
