package recipes_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const (
	idsRoot    = "/ids/orders"
	epochStep  = int64(1) << 31
	firstEpoch = idsRoot + "/0000000000"
)

func TestSequenceIDs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newSequence(t)
		a, b := recipes.NewSequenceIDs(w.client(), idsRoot), recipes.NewSequenceIDs(w.client(), idsRoot)
		ns.want(w.ctx, a, 0, 1, 2)
		ns.want(w.ctx, b, 3, 4)
		ns.want(w.ctx, a, 5)
		if a.Path() != idsRoot {
			t.Errorf("Path: %s", a.Path())
		}
		if node, _ := w.srv.Node(idsRoot); string(node.Data) != "baton:sequence-ids\n{\"epoch\":0}" || node.Mode != "persistent" {
			t.Errorf("the root is %s, %q", node.Mode, node.Data)
		}
		if node, _ := w.srv.Node(firstEpoch); node.Mode != "persistent" || len(node.Children) != 0 {
			t.Errorf("the epoch's node is %+v", node)
		}
		log := w.requests(isWork)
		ns.want(w.ctx, a, 6)
		if got := strings.Join(log.ops(), " "); got != "multi delete" {
			t.Errorf("a number took %s", got)
		}
	})
}

// The servers' counter has 31 bits, and then stays at its end or, in old
// versions, wraps. The numbers go on, for everybody.
func TestSequenceIDsBeyondTheCounter(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]embedded.Option{"sticks": nil, "wraps": {embedded.WithWrappingSequence()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				ns := newSequence(t)
				a, b := recipes.NewSequenceIDs(w.client(), idsRoot), recipes.NewSequenceIDs(w.client(), idsRoot)
				ns.want(w.ctx, a, 0)
				ns.want(w.ctx, b, 1)
				if err := w.srv.SetSequence(firstEpoch, math.MaxInt32-2); err != nil {
					t.Fatal(err)
				}
				ns.want(w.ctx, a, math.MaxInt32-2)
				ns.want(w.ctx, b, math.MaxInt32-1, epochStep)
				ns.want(w.ctx, a, epochStep+1)
				ns.want(w.ctx, recipes.NewSequenceIDs(w.client(), idsRoot), epochStep+2)
				if node, _ := w.srv.Node(idsRoot); len(node.Children) != 1 {
					t.Errorf("old epochs are left: %v", node.Children)
				}
			}, opts...)
		})
	}
}

// A whole crowd comes to the counter's end at once.
func TestSequenceIDsCrowdAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]embedded.Option{"sticks": nil, "wraps": {embedded.WithWrappingSequence()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				ns := newSequence(t)
				ns.want(w.ctx, recipes.NewSequenceIDs(w.client(), idsRoot), 0)
				if err := w.srv.SetSequence(firstEpoch, math.MaxInt32-20); err != nil {
					t.Fatal(err)
				}
				log := w.requests(isWork)
				var crowd sync.WaitGroup
				for range 5 {
					s := recipes.NewSequenceIDs(w.client(), idsRoot)
					for range 3 {
						crowd.Go(func() {
							for range 10 {
								if _, err := ns.from(w.ctx, s); err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				crowd.Wait()
				if want := epochStep + 150 - 20 - 1; ns.floor(nil) != want {
					t.Errorf("the last is %d, want %d", ns.floor(nil), want)
				}
				if n := len(log.ops()); n > 150*2+15*20 {
					t.Errorf("%d requests", n)
				}
			}, opts...)
		})
	}
}

// What an outsider does to the epoch's node, or to the path's data, makes no
// number come again.
func TestSequenceIDsMeddledWith(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]func(w *world, c *framework.Client){
		"epoch deleted": func(w *world, c *framework.Client) { w.remove(c, firstEpoch) },
		"epoch deleted and made again": func(w *world, c *framework.Client) {
			w.remove(c, firstEpoch)
			w.put(c, firstEpoch)
		},
		"epoch restored with its counter set back": func(w *world, _ *framework.Client) {
			_ = w.srv.SetSequence(firstEpoch, 0)
		},
		"epoch with a node in it, set back": func(w *world, c *framework.Client) {
			w.put(c, firstEpoch+"/left", framework.WithMode(framework.Ephemeral))
			_ = w.srv.SetSequence(firstEpoch, 0)
		},
		"epoch written to": func(w *world, c *framework.Client) { w.write(c, firstEpoch, "x") },
		"data restored": func(w *world, c *framework.Client) {
			_ = w.srv.SetSequence(firstEpoch, math.MaxInt32)
			_, _ = recipes.NewSequenceIDs(c, idsRoot).Next(w.ctx) // epoch 1
			w.write(c, idsRoot, "baton:sequence-ids\n{\"epoch\":0}")
			w.put(c, firstEpoch)
		},
	} {
		for _, newFirst := range []bool{false, true} {
			if newFirst && strings.HasSuffix(name, "set back") {
				continue // only who has had larger numbers can notice
			}
			t.Run(fmt.Sprint(name, newFirst), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					ns := newSequence(t)
					c := w.client()
					a, b := recipes.NewSequenceIDs(w.client(), idsRoot), recipes.NewSequenceIDs(w.client(), idsRoot)
					ns.want(w.ctx, b, 0)
					ns.want(w.ctx, a, 1, 2)
					meddle(w, c)
					all := []*recipes.SequenceIDs{a, b, recipes.NewSequenceIDs(c, idsRoot)}
					if newFirst {
						slices.Reverse(all)
					}
					for range 2 {
						for _, s := range all {
							if _, err := ns.from(w.ctx, s); err != nil {
								t.Error(err)
							}
						}
					}
					_ = c.Delete(w.ctx, firstEpoch+"/left", framework.AnyVersion)
				})
			})
		}
	}
}

// Data that the generator cannot have written is left as it is, and the error
// names it; so is a node that goes with a session.
func TestSequenceIDsCorrupt(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"x", "5", "baton:sequence-ids", "baton:sequence-ids\n", "baton:sequence-ids\n{}x", `baton:sequence-ids` + "\n" + `{"epoch":-2}`,
		"baton:sequence-ids\n{\"epoch\":4294967296}", "baton:sequence-ids\n{\"epoch\":1.5}", "baton:sequence-ids\n{\"epoch\":1,\"more\":2}",
		"baton:sequence-ids\n{\"epoch\":0}{\"epoch\":0}", `{"epoch":0}`,
	} {
		inBubble(t, func(w *world) {
			c := w.client()
			w.write(c, idsRoot, data)
			_, err := recipes.NewSequenceIDs(c, idsRoot).Next(w.ctx)
			wantErr(t, fmt.Sprintf("Next with %q", data), err, recipes.ErrCorrupt)
			if err != nil && !strings.Contains(err.Error(), idsRoot+" holds") {
				t.Errorf("%q does not name the path", err)
			}
			if node, _ := w.srv.Node(idsRoot); string(node.Data) != data || node.Version != 0 || len(node.Children) > 0 {
				t.Errorf("%q was changed: %+v", data, node)
			}
		})
	}
	inBubble(t, func(w *world) {
		c := w.client()
		w.write(c, idsRoot, "baton:sequence-ids\n{\"epoch\":0}", framework.WithMode(framework.Ephemeral))
		_, err := recipes.NewSequenceIDs(c, idsRoot).Next(w.ctx)
		wantErr(t, "Next with an ephemeral node", err, recipes.ErrCorrupt)
		w.remove(c, idsRoot)
	})
}

// A path that was deleted is not silently begun anew by who has used it.
func TestSequenceIDsDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		s := recipes.NewSequenceIDs(c, idsRoot)
		newSequence(t).want(w.ctx, s, 0, 1)
		if err := c.Delete(w.ctx, idsRoot, framework.AnyVersion, framework.WithChildren()); err != nil {
			t.Fatal(err)
		}
		_, err := s.Next(w.ctx)
		wantErr(t, "Next", err, framework.ErrNoNode)
		if _, ok := w.srv.Node(idsRoot); ok {
			t.Error("it was made anew")
		}
	})
}

func TestSequenceIDsExhausted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		w.write(c, idsRoot, "baton:sequence-ids\n{\"epoch\":4294967294}")
		s := recipes.NewSequenceIDs(c, idsRoot)
		n, err := s.Next(w.ctx)
		if err != nil || n != 4294967295<<31 {
			t.Errorf("Next: %d, %v", n, err)
		}
		if err := w.srv.SetSequence(idsRoot+"/4294967295", math.MaxInt32-1); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Next(w.ctx); err != nil || n != math.MaxInt64-1 {
			t.Errorf("Next: %d, %v", n, err)
		}
		n, err = s.Next(w.ctx)
		wantErr(t, fmt.Sprintf("Next: %d", n), err, recipes.ErrExhausted)
	})
}

// TestRandomSequenceIDs lets several clients ask at once, while connections
// break, sessions end, counters jump and epochs are deleted.
func TestRandomSequenceIDs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int {
			return [2]int{rapid.IntRange(0, 7).Draw(t, "what"), rapid.IntRange(0, 2).Draw(t, "who")}
		}), 5, 40).Draw(rt, "script")
		var problems problems
		inBubbleOf(t, func(w *world) {
			ns := newSequence(&problems)
			var clients []*framework.Client
			var all []*recipes.SequenceIDs
			for range 3 {
				clients = append(clients, w.client())
				all = append(all, recipes.NewSequenceIDs(clients[len(clients)-1], idsRoot))
			}
			var calls sync.WaitGroup
			for _, step := range script {
				c, s := clients[step[1]], all[step[1]]
				switch step[0] {
				case 0, 1, 2, 3:
					calls.Go(func() {
						if _, err := ns.from(w.ctx, s); err != nil {
							problems.Errorf("Next: %v", err)
						}
					})
				case 4:
					w.link(c).drop()
				case 5:
					w.srv.LoseReply(op("multi"))
				case 6:
					if session := c.Session(); session != nil {
						_ = w.srv.ExpireSession(session.ID())
					}
				case 7:
					root, _ := w.srv.Node(idsRoot)
					for _, child := range root.Children {
						path := framework.JoinPath(idsRoot, child)
						if node, _ := w.srv.Node(path); node.Sequence < 1<<20 { // never back
							_ = w.srv.SetSequence(path, math.MaxInt32-1)
						}
					}
				}
				time.Sleep(time.Duration(step[1]) * time.Millisecond)
			}
			calls.Wait()
		})
		if len(problems.list) > 0 {
			rt.Fatal(strings.Join(problems.list, "\n"))
		}
	})
}
