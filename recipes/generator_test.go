package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A counter is any generator of this package, for the tests that all pass.
type counter interface {
	Next(ctx context.Context) (int64, error)
}

var counters = map[string]func(c *framework.Client, path string) counter{
	"sequence-ids": func(c *framework.Client, path string) counter { return recipes.NewSequenceIDs(c, path) },
	"block-ids":    func(c *framework.Client, path string) counter { return recipes.NewBlockIDs(c, path) },
}

// roots has all that has a root of its own.
func roots() map[string]func(c *framework.Client, path string) counter {
	all := maps.Clone(counters)
	all["worker-ids"] = func(c *framework.Client, path string) counter {
		return passing{recipes.NewWorkerIDs(c, path, recipes.WithLayout(earlyLayout()))}
	}
	return all
}

// earlyLayout is one whose epoch is before a bubble begins.
func earlyLayout() recipes.Layout {
	early := recipes.DefaultLayout()
	early.Epoch = time.Date(1999, time.January, 1, 0, 0, 0, 0, time.UTC)
	return early
}

// passing worker numbers are released when they have been claimed.
type passing struct{ *recipes.WorkerIDs }

func (p passing) Next(ctx context.Context) (int64, error) {
	id, err := p.Claim(ctx)
	if err != nil {
		return 0, err
	}
	return int64(id.ID()), id.Release()
}

// A generator at, in or above a lock's root is refused, whether the lock has
// marked that, or is known by its contenders only; and nothing is made.
func TestGeneratorBesideLock(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		for _, fam := range lockFamilies {
			for name, unmark := range map[string]bool{"marked": false, "in use": true} {
				for where, at := range map[string]string{"equal": root, "in it": root + "/ids", "deep in it": root + "/a/b/c", "above": "/locks"} {
					t.Run(strings.Join([]string{kind, fam.name, name, where}, "/"), func(t *testing.T) {
						t.Parallel()
						inBubble(t, fam.of(func(w *world) {
							m := w.fresh()
							lease := w.acquire(m)
							c := w.client()
							if unmark {
								w.write(c, root, "192.168.0.7")
								defer w.release(lease)
							} else {
								w.release(lease)
							}
							log := w.requests(op("create2", "createContainer", "setData", "multi"))
							for range 2 {
								_, err := make(c, at).Next(w.ctx)
								wantWrongRoot(t, err, at, w.rootOrLeases(err))
							}
							if ops := log.ops(); len(ops) > 0 && where != "above" {
								t.Errorf("it has written: %v", ops)
							}
						}))
					})
				}
			}
		}
	}
}

// rootOrLeases returns the path by which a lock's root is told in err: a
// semaphore's without a mark, seen from above, by the node of its contenders.
func (w *world) rootOrLeases(err error) string {
	for _, parent := range w.family.parents(root) {
		if err != nil && strings.Contains(err.Error(), parent) {
			return parent
		}
	}
	return root
}

// A lock that comes after a generator is refused, wherever it comes.
func TestLockAfterGenerator(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		for _, fam := range lockFamilies {
			for where, at := range map[string]string{"equal": root, "above": "/locks", "in it": root + "/ids", "deep in it": root + "/a/b"} {
				t.Run(kind+"/"+fam.name+"/"+where, func(t *testing.T) {
					t.Parallel()
					inBubble(t, fam.of(func(w *world) {
						g := make(w.client(), at)
						if _, err := g.Next(w.ctx); err != nil {
							t.Fatal(err)
						}
						_, err := w.fresh().Acquire(w.ctx)
						wantWrongRoot(t, err, root, at)
						for name, g := range map[string]counter{"the same": g, "another": make(w.client(), at)} {
							if _, err := g.Next(w.ctx); err != nil {
								t.Errorf("afterwards, %s: %v", name, err)
							}
						}
						_, name := framework.SplitPath(root)
						if where == "above" && slices.Contains(w.children(w.client(), at), name) {
							t.Errorf("the lock that was refused has left %s", root)
						}
					}))
				})
			}
		}
	}
}

// A lock's root in a generator's is in nobody's way, unless the lock is in use:
// as it came later, nobody can have got it.
func TestGeneratorAboveLeftOver(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		inBubble(t, func(w *world) {
			c := w.client()
			next := func() error { _, err := make(c, "/ids").Next(w.ctx); return err }
			if err := next(); err != nil {
				t.Fatal(err)
			}
			w.write(c, "/ids/a/lock", "baton:lock\n")
			w.write(c, "/ids/semaphore", "baton:lock\n")
			w.put(c, "/ids/semaphore/locks")
			if err := next(); err != nil {
				t.Errorf("%s, with a lock's empty root: %v", kind, err)
			}
			w.put(c, "/ids/a/lock/lock-0000000000")
			wantWrongRoot(t, next(), "/ids", "/ids/a/lock")
		})
	}
}

// Two generators do not share a root, nor does one lie in another.
func TestGeneratorBesideGenerator(t *testing.T) {
	t.Parallel()
	for first, makeFirst := range roots() {
		for second, makeSecond := range roots() {
			for where, at := range map[string]string{"equal": "/a/b", "above": "/a", "below": "/a/b/c/d"} {
				t.Run(first+"/"+second+"/"+where, func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(w *world) {
						if _, err := makeFirst(w.client(), "/a/b").Next(w.ctx); err != nil {
							t.Fatal(err)
						}
						_, err := makeSecond(w.client(), at).Next(w.ctx)
						if where == "equal" && first == second {
							if err != nil {
								t.Error(err)
							}
							return
						}
						wantWrongRoot(t, err, "/a/b", at)
					})
				})
			}
		}
	}
}

// What makes no sense is refused before anything is asked.
func TestGeneratorRefusals(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				done, cancel := context.WithCancel(w.ctx)
				cancel()
				log := w.requests(isWork)
				for name, tc := range map[string]struct {
					g   counter
					ctx context.Context
					err error
				}{
					"bad path":  {make(c, "x"), w.ctx, framework.ErrInvalidPath},
					"root":      {make(c, "/"), w.ctx, framework.ErrInvalidPath},
					"no client": {make(nil, idsRoot), w.ctx, framework.ErrInvalidOption},
					"done":      {make(c, idsRoot), done, context.Canceled},
				} {
					_, err := tc.g.Next(tc.ctx)
					wantErr(t, name, err, tc.err)
				}
				if ops := log.ops(); len(ops) > 0 {
					t.Errorf("requests were sent: %v", ops)
				}
			})
		})
	}
}

// A node that was made by hand, or as a parent, becomes a root. One that was
// written to since may have lost what a generator knew.
func TestGeneratorAtBlankNode(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				w.put(c, "/a/b")
				w.put(c, "/a/b/foreign")
				if _, err := make(w.client(), "/a/b").Next(w.ctx); err != nil {
					t.Error(err)
				}
				if _, err := c.Set(w.ctx, "/a/b", nil, framework.AnyVersion); err != nil {
					t.Fatal(err)
				}
				_, err := make(w.client(), "/a/b").Next(w.ctx)
				wantErr(t, "emptied", err, recipes.ErrCorrupt)
			})
		})
	}
}

// A generator and a lock that come at the same time, at any of each other's
// steps: at least one of them is refused, or both when each sees the other.
func TestGeneratorAndLockAtOnce(t *testing.T) {
	t.Parallel()
	for kind, make := range roots() {
		for _, at := range []string{root, root + "/ids", "/locks"} {
			for step, struck := 1, true; struck && !t.Failed(); step++ {
				inBubble(t, func(w *world) {
					c, other := w.client(), w.client()
					var lockErr error
					var leases recipes.Leases
					n := 0
					id := c.Session().ID()
					struck = false
					stop := w.srv.OnRequest(matcher(func(r embedded.Request) bool {
						if r.Session != id || !isWork(r) {
							return false
						}
						n++
						return n == step
					}).then(func() {
						struck = true
						var lease *recipes.Lease
						if lease, lockErr = recipes.NewInterProcessMutex(other, root).Acquire(w.ctx); lockErr == nil {
							leases = append(leases, lease)
						}
					}))
					_, err := make(c, at).Next(w.ctx)
					w.settle() // what it does behind the answer may be struck, too
					stop()
					if err := leases.Release(); err != nil {
						t.Errorf("%s at %s, step %d: %v", kind, at, step, err)
					}
					if struck && err == nil && lockErr == nil {
						t.Errorf("%s at %s, step %d: neither has seen the other", kind, at, step)
					}
				})
			}
		}
	}
}

// numbers checks the numbers of one path: that none is given twice, and that
// they rise.
type numbers struct {
	testing.TB
	global bool // they rise among all generators, and not only of each
	mu     sync.Mutex
	seen   map[int64]bool
	last   map[counter]int64
}

func newNumbers(t testing.TB) *numbers {
	return &numbers{TB: t, seen: make(map[int64]bool), last: make(map[counter]int64)}
}

// newSequence is newNumbers for those that rise among all generators.
func newSequence(t testing.TB) *numbers {
	ns := newNumbers(t)
	ns.global = true
	return ns
}

// floor returns what the next number of a generator must exceed.
func (ns *numbers) floor(g counter) int64 {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.global {
		g = nil
	}
	if last, ok := ns.last[g]; ok {
		return last
	}
	return -1
}

// from asks one generator for a number, and checks it.
func (ns *numbers) from(ctx context.Context, g counter) (int64, error) {
	floor := ns.floor(g)
	n, err := g.Next(ctx)
	if err == nil {
		ns.given(g, floor, n)
	}
	return n, err
}

// given checks a number that a generator gave when it had given floor.
func (ns *numbers) given(g counter, floor, n int64) {
	ns.Helper()
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.seen[n] || n < 0 {
		ns.Errorf("%d was given twice, or is negative", n)
	}
	if n <= floor {
		ns.Errorf("%d was given after %d", n, floor)
	}
	if ns.global {
		g = nil
	}
	ns.seen[n], ns.last[g] = true, max(ns.last[g], n)
}

// want asks one generator for numbers, and checks what they are.
func (ns *numbers) want(ctx context.Context, g counter, want ...int64) {
	ns.Helper()
	for _, want := range want {
		if n, err := ns.from(ctx, g); err != nil || n != want {
			ns.Errorf("Next: %d, %v, want %d", n, err, want)
		}
	}
}

// missing returns how many of the numbers below end were not given.
func (ns *numbers) missing(end int64) (n int64) {
	for i := range end {
		if !ns.seen[i] {
			n++
		}
	}
	return n
}

// idFaults are those that can strike a generator.
func idFaults() (some []fault) {
	for _, f := range faults {
		if !f.deletes && !strings.HasPrefix(f.name, "root reaped") {
			some = append(some, f)
		}
	}
	return some
}

// Each fault, at each request of the way to a number: none comes twice or goes
// back, no node is left, and the next number is to be had.
func TestSequenceIDsFaultAtEveryStep(t *testing.T) {
	strikeGenerators(t, "sequence-ids", map[string]func(w *world, ns *numbers, a, b counter){
		"path missing": nil,
		"warm":         warmUp,
		"end of the counter": func(w *world, ns *numbers, a, b counter) {
			warmUp(w, ns, a, b)
			if err := w.srv.SetSequence(firstEpoch, math.MaxInt32); err != nil {
				w.Fatal(err)
			}
		},
	})
}

func warmUp(w *world, ns *numbers, a, b counter) {
	for _, g := range []counter{a, b} {
		if _, err := ns.from(w.ctx, g); err != nil {
			w.Fatal(err)
		}
	}
}

func strikeGenerators(t *testing.T, kind string, scenarios map[string]func(w *world, ns *numbers, a, b counter)) {
	t.Parallel()
	for scenario, prepare := range scenarios {
		for _, f := range idFaults() {
			t.Run(scenario+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				atEveryStep(t, 1, func(step int) (struck bool) {
					inBubble(t, func(w *world) { struck = w.strikeGenerator(step, kind, prepare, f) })
					return struck
				})
			})
		}
	}
}

// strikeGenerator asks for a number with the fault at one request, and reports
// whether there was such a request.
func (w *world) strikeGenerator(step int, kind string, prepare func(w *world, ns *numbers, a, b counter), f fault) (struck bool) {
	c, other := w.client(), w.client()
	ns := newNumbers(w)
	ns.global = kind == "sequence-ids"
	g, later := counters[kind](c, idsRoot), counters[kind](other, idsRoot)
	if prepare != nil {
		prepare(w, ns, g, later)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	returned := make(chan struct{})
	s := &strike{world: w, cancel: cancel, returned: returned}
	defer w.arm(step, f, s, &struck, other.Session().ID(), isWork)()
	began := time.Now()
	_, err := ns.from(ctx, g)
	close(returned)
	switch {
	case f.cancels && err != nil:
		wantErr(w, fmt.Sprintf("step %d", step), err, context.Canceled)
	case err != nil:
		w.Errorf("step %d: %v", step, err)
	}
	if took := time.Since(began); took > 3*sessionTimeout {
		w.Errorf("step %d: it took %v", step, took)
	}
	for _, g := range []counter{later, g, later} {
		if _, err := ns.from(w.ctx, g); err != nil {
			w.Errorf("step %d: afterwards: %v", step, err)
		}
	}
	w.closeGenerators(step, f, ns, g, later)
	time.Sleep(3 * sessionTimeout)
	if left := w.ephemerals(); len(left) > 0 {
		w.Errorf("step %d: left behind: %v", step, left)
	}
	w.srv.Unsilence()
	return struck
}

// closeGenerators closes what is to be closed, whatever strikes meanwhile: then
// no number is missing, unless Close says so.
func (w *world) closeGenerators(step int, f fault, ns *numbers, all ...counter) {
	lost := false
	for _, g := range all {
		c, ok := g.(interface{ Close() error })
		if !ok {
			return
		}
		if err := c.Close(); err != nil {
			lost = true
			if !f.ends && !f.outage {
				w.Errorf("step %d: Close: %v", step, err)
			}
		}
	}
	state := w.blockState(idsRoot)
	missing := ns.missing(state.Next)
	for _, free := range state.Free {
		missing -= free.Size
	}
	if missing != 0 && !lost {
		w.Errorf("step %d: %d numbers are missing: %+v", step, missing, state)
	}
}

// blockState is what a path of BlockIDs holds, nothing if it is not there.
type blockState struct {
	Next int64
	Free []struct{ First, Size int64 }
}

func (w *world) blockState(path string) (s blockState) {
	w.Helper()
	node, there := w.srv.Node(path)
	if !there {
		return s
	}
	return w.parseBlockState(node.Data)
}

func (w *world) parseBlockState(data []byte) (s blockState) {
	w.Helper()
	text, ok := strings.CutPrefix(string(data), "baton:block-ids\n")
	if err := json.Unmarshal([]byte(text), &s); err != nil || !ok {
		w.Errorf("the data is %q: %v", data, err)
	}
	return s
}
