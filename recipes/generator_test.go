package recipes_test

import (
	"context"
	"strings"
	"testing"

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
}

// A generator at, in or above a lock's root is refused, whether the lock has
// marked that, or is known by its contenders only; and nothing is made.
func TestGeneratorBesideLock(t *testing.T) {
	t.Parallel()
	for kind, make := range counters {
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
	for kind, make := range counters {
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
						if _, err := g.Next(w.ctx); err != nil {
							t.Errorf("afterwards: %v", err)
						}
					}))
				})
			}
		}
	}
}

// Two generators do not share a root, nor does one lie in another.
func TestGeneratorBesideGenerator(t *testing.T) {
	t.Parallel()
	for first, makeFirst := range counters {
		for second, makeSecond := range counters {
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

// A generator and a lock that come at the same time, at any of each other's
// steps: at least one of them is refused, or both when each sees the other.
func TestGeneratorAndLockAtOnce(t *testing.T) {
	t.Parallel()
	for kind, make := range counters {
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
					stop()
					_ = leases.Release()
					if struck && err == nil && lockErr == nil {
						t.Errorf("%s at %s, step %d: neither has seen the other", kind, at, step)
					}
				})
			}
		}
	}
}
