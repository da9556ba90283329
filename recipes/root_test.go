package recipes_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// lockFamilies are kinds of locks whose roots differ.
var lockFamilies = []family{mutexes, semaphoresOf(2), semaphoreMutexes, readers, writers}

// write puts data into a persistent node, which is made if there is none.
func (w *world) write(c *framework.Client, path, data string, opts ...framework.CreateOption) {
	w.Helper()
	opts = append(opts, framework.WithParents(), framework.OrSet())
	if _, err := c.Create(w.ctx, path, []byte(data), opts...); err != nil {
		w.Fatal(err)
	}
}

// A lock whose root is a generator's, lies in one or has one in it is refused,
// by an error that names both, and leaves nothing behind; when the generator has
// gone the same lock can be had.
func TestLockBesideGenerator(t *testing.T) {
	t.Parallel()
	for _, fam := range lockFamilies {
		for where, at := range map[string]string{
			"equal": root, "above": "/locks", "in it": root + "/ids", "deep in it": root + "/a/b",
		} {
			t.Run(fam.name+"/"+where, func(t *testing.T) {
				t.Parallel()
				inBubble(t, fam.of(func(w *world) {
					c := w.client()
					w.write(c, at, "baton:future-ids\nwhatever")
					m := w.fresh()
					for range 2 {
						_, err := m.Acquire(w.ctx)
						wantWrongRoot(w, err, root, at)
						_, err = m.TryAcquire(w.ctx)
						wantWrongRoot(w, err, root, at)
					}
					w.settle()
					if left := w.ephemerals(); len(left) > 0 {
						w.Errorf("left behind: %v", left)
					}
					w.write(c, at, "nothing in particular")
					w.release(w.acquire(m))
				}))
			})
		}
	}
}

func wantWrongRoot(t testing.TB, err error, paths ...string) {
	t.Helper()
	wantErr(t, "in a wrong root", err, recipes.ErrWrongRoot)
	for _, path := range paths {
		if err != nil && !strings.Contains(err.Error(), strconv.Quote(path)) {
			t.Errorf("%q does not name %s", err, path)
		}
	}
}

// A generator's root above the namespace is seen, and told by the path that the
// servers know.
func TestGeneratorAboveNamespace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		w.write(c, "/app", "baton:block-ids\n")
		view, err := c.Namespace("/app/eu")
		if err != nil {
			t.Fatal(err)
		}
		_, err = recipes.NewInterProcessMutex(view, "/report").Acquire(w.ctx)
		wantWrongRoot(t, err, "/app/eu/report", "/app")
	})
}

// A root made by hand, by an older tool or by Java, with foreign children and
// whatever data, is a lock's as ever; so is one whose data may not be read.
func TestUnmarkedRoots(t *testing.T) {
	t.Parallel()
	for _, fam := range lockFamilies {
		for name, prepare := range map[string]func(w *world, c *framework.Client){
			"made by hand":   func(w *world, c *framework.Client) { w.write(c, root, "") },
			"made by Java":   func(w *world, c *framework.Client) { w.write(c, root, "192.168.0.7") },
			"something else": func(w *world, c *framework.Client) { w.write(c, root, "batons, not baton:\n") },
			"foreign children": func(w *world, c *framework.Client) {
				for _, child := range []string{"0", "workid", "workid/deep/deeper/deepest", "lock-", "x/y"} {
					w.write(c, root+"/"+child, "192.168.0.7")
				}
			},
			"not to be read": func(w *world, c *framework.Client) {
				blind := framework.WithACL(framework.WorldACL(framework.PermAll &^ (framework.PermRead | framework.PermWrite | framework.PermAdmin))...)
				w.write(c, "/locks", "", blind)
			},
			"children not to be read": func(w *world, c *framework.Client) {
				blind := framework.WithACL(framework.WorldACL(framework.PermDelete)...)
				w.write(c, root+"/secret", "", blind)
			},
		} {
			t.Run(fam.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, fam.of(func(w *world) {
					c := w.client()
					prepare(w, c)
					before, _ := w.srv.Node(root)
					w.release(w.acquire(w.fresh()))
					if after, _ := w.srv.Node(root); len(before.Path) > 0 && string(after.Data) != string(before.Data) {
						w.Errorf("the root holds %q, and held %q", after.Data, before.Data)
					}
				}))
			})
		}
	}
}

// Whenever a lock makes its root, that says what it is, also when a server has
// reaped it.
func TestLockRootIsMarked(t *testing.T) {
	t.Parallel()
	for _, fam := range lockFamilies {
		t.Run(fam.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, fam.of(func(w *world) {
				m := w.fresh()
				for range 2 {
					w.release(w.acquire(m))
					node, ok := w.srv.Node(root)
					if !ok || string(node.Data) != "baton:lock\n" || node.Mode != "container" {
						w.Errorf("the root is %+v", node)
					}
					for range 2 { // the line, and then the root
						w.srv.ReapContainers()
					}
					if _, ok := w.srv.Node(root); ok {
						w.Error("the root was not reaped")
					}
				}
			}))
		})
	}
}

// Only a lock's first use looks around, and asks no round trip for it: the reads
// are sent with what is sent anyway.
func TestLooksAroundOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fam         family
		first, then string
	}{
		{mutexes, "create2 getData getData getChildren2", "create2 getChildren2"},
		{
			semaphoresOf(2), "create2 getData getData getData getChildren2 getChildren2 getChildren2 multi exists",
			"create2 getChildren2 getChildren2 multi exists",
		},
	} {
		inBubble(t, tc.fam.of(func(w *world) {
			w.release(w.acquire(w.fresh())) // makes the parents
			w.settle()
			m := w.fresh()
			for _, want := range []string{tc.first, tc.then, tc.then} {
				log := w.requests(func(r embedded.Request) bool { return isWork(r) && !readsNode(r) && r.Op != "delete" })
				w.release(w.acquire(m))
				w.settle()
				log.stop()
				if got := strings.Join(log.ops(), " "); got != want {
					w.Errorf("a %s asked %s, want %s", tc.fam.name, got, want)
				}
			}
		}))
	}
}

// However much lies in a root, the look around is bounded.
func TestLookAroundIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		for i := range 60 {
			for j := range 3 {
				w.put(c, fmt.Sprintf("%s/%d/%d/deep/deeper", root, i, j))
			}
		}
		log := w.requests(op("getData", "getChildren2"))
		w.release(w.acquire(w.mutex()))
		if n := len(log.ops()); n > 300 {
			t.Errorf("%d reads", n)
		}
	})
}

// A server's answer that the root is in use elsewhere does not depend on which
// of the reads is answered, or how often the connection breaks.
func TestWrongRootThroughFaults(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"/locks", root + "/ids"} {
		for step := 1; step <= 6; step++ {
			for name, verdict := range map[string]embedded.Verdict{"cut": embedded.Cut, "throttled": embedded.Answer(-127)} {
				inBubble(t, func(w *world) {
					c := w.client()
					w.write(c, at, "baton:future-ids\n")
					m := w.mutex()
					n := 0
					defer w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
						if !isWork(r) {
							return embedded.Pass
						}
						if n++; n == step {
							return verdict
						}
						return embedded.Pass
					})()
					_, err := m.Acquire(w.ctx)
					if wantWrongRoot(t, err, at); t.Failed() {
						t.Logf("%s at %d", name, step)
					}
					w.shortly("nothing is left", func() bool { return len(w.ephemerals()) == 0 })
				})
			}
		}
	}
}

// Contenders of another kind of lock in the same root are no reason to look at
// each of them.
func TestContendersAreNotLookedInto(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		for range 5 {
			lease, err := rw.ReadLock().Acquire(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
		}
		w.settle()
		log := w.requests(readsNode)
		lease := w.acquire(w.mutex())
		w.settle()
		if ops := log.ops(); !slices.Equal(ops, []string{"getData"}) { // its own
			t.Errorf("it read %v", ops)
		}
		_ = lease.Release()
	})
}
