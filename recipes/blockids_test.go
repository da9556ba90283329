package recipes_test

import (
	"context"
	"errors"
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

// take asks for n numbers, and checks them.
func (ns *numbers) take(ctx context.Context, g counter, n int) {
	ns.Helper()
	for range n {
		if _, err := ns.from(ctx, g); err != nil {
			ns.Errorf("Next: %v", err)
			return
		}
	}
}

// blocks returns the generator at idsRoot for a new client.
func (w *world) blocks(opts ...recipes.BlockOption) *recipes.BlockIDs {
	w.Helper()
	return recipes.NewBlockIDs(w.client(), idsRoot, opts...)
}

// closeBlocks closes, or fails the test.
func (w *world) closeBlocks(all ...*recipes.BlockIDs) {
	w.Helper()
	for _, b := range all {
		if err := b.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
	}
}

// Those of one generator are adjacent until its block ends, and what is given
// back comes again, so that nothing is missing in the end.
func TestBlockIDs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		a, b := w.blocks(), w.blocks()
		ns.want(w.ctx, a, 0, 1, 2)
		ns.want(w.ctx, b, 50, 51)
		ns.want(w.ctx, a, 3)
		if a.Path() != idsRoot {
			t.Errorf("Path: %s", a.Path())
		}
		if node, _ := w.srv.Node(idsRoot); node.Mode != "persistent" {
			t.Errorf("the root is %s", node.Mode)
		}
		w.closeBlocks(a)
		if s := w.blockState(idsRoot); s.Next != 100 || len(s.Free) != 1 || s.Free[0].First != 4 || s.Free[0].Size != 46 {
			t.Errorf("with one closed: %+v", s)
		}
		w.closeBlocks(b)
		if s := w.blockState(idsRoot); s.Next != 52 || len(s.Free) != 1 {
			t.Errorf("with both closed: %+v", s)
		}
		c := w.blocks()
		ns.take(w.ctx, c, 46)
		ns.want(w.ctx, c, 52, 53)
		w.closeBlocks(c)
		if s := w.blockState(idsRoot); s.Next != 54 || len(s.Free) != 0 {
			t.Errorf("in the end: %+v", s)
		}
		if n := ns.missing(54); n != 0 {
			t.Errorf("%d numbers are missing", n)
		}
	})
}

// What was given back below a generator's own numbers is for others: its own
// rise.
func TestBlockIDsTakeNothingBelow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		a, b := w.blocks(recipes.WithBlockSize(20, 20)), w.blocks(recipes.WithBlockSize(20, 20))
		ns.want(w.ctx, a, 0, 1)
		ns.want(w.ctx, b, 10)
		w.closeBlocks(a)
		for range 30 {
			ns.take(w.ctx, b, 1)
		}
		w.closeBlocks(b)
	})
}

// The next numbers are fetched while there are some left, and by nobody else than
// who asks.
func TestBlockIDsFetchAhead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		b := w.blocks(recipes.WithBlockSize(100, 100))
		log := w.requests(isWork)
		ns.take(w.ctx, b, 1)
		time.Sleep(10 * time.Minute)
		first := len(log.ops())
		ns.take(w.ctx, b, 24)
		time.Sleep(10 * time.Minute)
		if n := len(log.ops()); n != first {
			t.Errorf("%d requests with half of a block left", n-first)
		}
		ns.take(w.ctx, b, 1)
		w.settle()
		if got := strings.Join(log.ops()[first:], " "); got != "getData setData" {
			t.Errorf("the next block took %s", got)
		}
		w.link(w.clients[0]).refuse(true) // no server is needed for what is reserved
		w.link(w.clients[0]).drop()
		began := time.Now()
		ns.take(w.ctx, b, 24+50)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		short, cancel := context.WithTimeout(w.ctx, soon)
		defer cancel()
		_, err := b.Next(short)
		wantErr(t, "Next with nothing left and no server", err, context.DeadlineExceeded)
		w.link(w.clients[0]).refuse(false)
		ns.take(w.ctx, b, 60)
		w.closeBlocks(b)
		if s := w.blockState(idsRoot); s.Next != 160 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// However fast numbers are used, no more than the largest block is reserved and
// unused at any time: so much a crash may lose. How much follows the demand.
func TestBlockIDsAdapt(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{2, 3, 10, 1000, 1_000_000} {
		inBubble(t, func(w *world) {
			ns := newNumbers(t)
			b := w.blocks(recipes.WithBlockSize(2, most))
			used := int64(0)
			ahead := func() int64 { w.settle(); return w.blockState(idsRoot).Next - used }
			var fast, slow int64
			for range 1000 {
				ns.take(w.ctx, b, 1)
				if used++; ahead() > most {
					t.Fatalf("%d are reserved, at most %d may be lost", ahead(), most)
				}
				fast = max(fast, ahead())
			}
			for range 3000 {
				ns.take(w.ctx, b, 1)
				if used++; ahead() > most {
					t.Fatalf("%d are reserved, at most %d may be lost", ahead(), most)
				}
				slow = ahead()
				time.Sleep(time.Second)
			}
			if want := min(most/2, 250); fast < want || slow > 8 {
				t.Errorf("of %d at most: %d are reserved under load, and then %d", most, fast, slow)
			}
			w.closeBlocks(b)
			if s := w.blockState(idsRoot); s.Next != 4000 || ns.missing(4000) > 0 {
				t.Errorf("in the end %+v", s)
			}
		})
	}
}

func TestBlockIDsFaultAtEveryStep(t *testing.T) {
	strikeGenerators(t, "block-ids", map[string]func(w *world, ns *numbers, a, b counter){
		"path missing": nil,
		"used up": func(w *world, ns *numbers, a, b counter) {
			warmUp(w, ns, a, b)
			ns.take(w.ctx, a, 49)
			w.settle() // the next block is there
			ns.take(w.ctx, a, 24)
		},
	})
}

// A reservation whose reply was lost is found again, if others have not made
// very many since; what is given back twice would come twice.
func TestBlockIDsLostReply(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1, 12, 60} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprint(others, closes), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					ns := newNumbers(t)
					a, b := w.blocks(recipes.WithBlockSize(2, 2)), w.blocks(recipes.WithBlockSize(2, 2))
					if closes {
						a = w.blocks()
						ns.take(w.ctx, a, 1)
						w.settle()
					}
					ns.take(w.ctx, b, 1)
					w.settle()
					mine := w.clients[len(w.clients)-1]
					if !closes {
						mine = w.clients[0]
					}
					third := w.blocks(recipes.WithBlockSize(2, 2))
					w.loseOnce(mine, op("setData"), func() { ns.take(w.ctx, third, others) })
					var err error
					if closes {
						err = a.Close()
						ns.take(w.ctx, w.blocks(), 200)
					} else {
						ns.take(w.ctx, a, 1)
						w.closeBlocks(a)
					}
					if (err != nil) != (closes && others > 16) {
						t.Errorf("Close: %v", err)
					}
					w.closeBlocks(b, third)
					if s := w.blockState(idsRoot); others <= 12 && !closes && ns.missing(s.Next) != s.size() {
						t.Errorf("%d numbers are missing, %d are free", ns.missing(s.Next), s.size())
					}
				})
			})
		}
	}
}

// size returns how many numbers are free.
func (s blockState) size() (n int64) {
	for _, f := range s.Free {
		n += f.Size
	}
	return n
}

// loseOnce loses the reply to the next such request of a client, and then runs f
// before that client is back.
func (w *world) loseOnce(c *framework.Client, match matcher, f func()) {
	var once sync.Once
	w.srv.OnReply(of(c, match).verdict(func() embedded.Verdict {
		v := embedded.Pass
		once.Do(func() {
			v = embedded.Cut
			w.link(c).refuse(true)
			go func() {
				f()
				w.link(c).refuse(false)
			}()
		})
		return v
	}))
}

// verdict has f judge each of the requests.
func (m matcher) verdict(f func() embedded.Verdict) func(embedded.Request) embedded.Verdict {
	return func(r embedded.Request) embedded.Verdict {
		if m(r) {
			return f()
		}
		return embedded.Pass
	}
}

// Data that the generator cannot have written is left as it is, and the error
// names it. What a person may write instead is enough.
func TestBlockIDsCorrupt(t *testing.T) {
	t.Parallel()
	const mark = "baton:block-ids\n"
	for _, data := range []string{
		"7", "\x00\x00\x00\x07", `{"next":7}`, mark, mark + `{"next":-1}`, mark + `{"next":9223372036854775808}`, mark + `{"next":1}x`, mark + `{"nxt":1}`,
		mark + `{"next":9,"free":[{"first":5,"size":5}]}`, mark + `{"next":9,"free":[{"first":-1,"size":2}]}`,
		mark + `{"next":9,"free":[{"first":2,"size":0}]}`, mark + `{"next":9,"free":[{"first":4,"size":1},{"first":2,"size":1}]}`,
		mark + `{"next":9,"free":[{"first":1,"size":3},{"first":3,"size":1}]}`,
		mark + `{"next":9,"changes":[{"nonce":"x","first":9223372036854775807,"size":2}]}`,
	} {
		inBubble(t, func(w *world) {
			w.write(w.client(), idsRoot, data)
			b := w.blocks()
			_, err := b.Next(w.ctx)
			wantErr(t, fmt.Sprintf("Next with %q", data), err, recipes.ErrCorrupt)
			if err != nil && !strings.Contains(err.Error(), idsRoot+" holds") {
				t.Errorf("%q does not name the path", err)
			}
			w.closeBlocks(b)
			if node, _ := w.srv.Node(idsRoot); string(node.Data) != data || node.Version != 0 {
				t.Errorf("%q was changed: %+v", data, node)
			}
		})
	}
	inBubble(t, func(w *world) {
		w.write(w.client(), idsRoot, mark+`{"next":5000}`)
		newNumbers(t).want(w.ctx, w.blocks(), 5000)
	})
}

// A counter that has gone back, or has gone, is an error for whoever knows
// better: others may have had the numbers in between.
func TestBlockIDsWentBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meddle func(w *world, c *framework.Client)
		err    error
	}{
		"set back": {func(w *world, c *framework.Client) {
			w.write(c, idsRoot, "baton:block-ids\n{\"next\":5}")
		}, recipes.ErrCorrupt},
		"deleted": {func(w *world, c *framework.Client) { w.remove(c, idsRoot) }, framework.ErrNoNode},
		"deleted and begun anew": {func(w *world, c *framework.Client) {
			w.remove(c, idsRoot)
			if _, err := recipes.NewBlockIDs(c, idsRoot).Next(w.ctx); err != nil {
				w.Fatal(err)
			}
		}, recipes.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				ns := newNumbers(t)
				b := w.blocks(recipes.WithBlockSize(200, 200))
				ns.take(w.ctx, b, 1)
				tc.meddle(w, w.client())
				ns.take(w.ctx, b, 99)
				for range 2 {
					_, err := b.Next(w.ctx)
					wantErr(t, "Next", err, tc.err)
				}
				w.write(w.clients[1], idsRoot, "baton:block-ids\n{\"next\":100}") // which mends it
				if tc.err == recipes.ErrCorrupt {
					ns.want(w.ctx, b, 100)
				}
			})
		})
	}
}

// A new session may be of a server that lags behind: what looks as if the counter
// had gone back, or had gone, is looked at again.
func TestBlockIDsOnLaggingServer(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(w *world, outsider *framework.Client){
		"no root yet": func(w *world, outsider *framework.Client) { w.remove(outsider, idsRoot) },
		"the first state": func(w *world, outsider *framework.Client) {
			w.write(outsider, idsRoot, "baton:block-ids\n{\"next\":0}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				ns := newNumbers(t)
				b := w.blocks()
				ns.take(w.ctx, b, 20)
				outsider := w.client()
				now, _ := w.srv.Node(idsRoot)
				lags := true
				defer w.srv.OnRequest(of(w.clients[0], op("getData")).once(func() { old(w, outsider) }))()
				defer w.srv.OnRequest(of(w.clients[0], op("sync")).then(func() {
					w.write(outsider, idsRoot, string(now.Data))
					lags = false
				}))()
				ns.take(w.ctx, b, 200)
				if lags {
					t.Error("it was not looked at again")
				}
				w.closeBlocks(b)
			})
		})
	}
}

// The numbers end before they would be negative.
func TestBlockIDsExhausted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		b := w.blocks(recipes.WithFirst(math.MaxInt64 - 60))
		for i := range int64(60) {
			ns.want(w.ctx, b, math.MaxInt64-60+i)
		}
		n, err := b.Next(w.ctx)
		wantErr(t, fmt.Sprintf("Next: %d", n), err, recipes.ErrExhausted)
		got, err := b.NextN(w.ctx, 3)
		wantErr(t, fmt.Sprintf("NextN: %d", got), err, recipes.ErrExhausted)
		w.closeBlocks(b)
		if s := w.blockState(idsRoot); s.Next != math.MaxInt64 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestBlockIDsNextN(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		b := w.blocks(recipes.WithBlockSize(10, 10))
		var all []int64
		for _, n := range []int{1, 3, 1, 25, 7} {
			got, err := b.NextN(w.ctx, n)
			if err != nil || len(got) != n {
				t.Fatalf("NextN(%d): %d, %v", n, got, err)
			}
			all = append(all, got...)
		}
		want := make([]int64, 37)
		for i := range want {
			want[i] = int64(i)
		}
		if !slices.Equal(all, want) {
			t.Errorf("got %d", all)
		}
		w.settle()
		w.link(w.clients[0]).refuse(true)
		w.link(w.clients[0]).drop()
		short, cancel := context.WithTimeout(w.ctx, soon)
		defer cancel()
		got, err := b.NextN(short, 100)
		wantErr(t, "NextN", err, context.DeadlineExceeded)
		w.link(w.clients[0]).refuse(false)
		w.closeBlocks(b)
		if s := w.blockState(idsRoot); len(got) == 0 || s.Next != 37+int64(len(got)) {
			t.Errorf("got %d, and left %+v", got, s)
		}
		if got, err := b.NextN(w.ctx, 0); len(got) > 0 || err != nil {
			t.Errorf("NextN(0): %d, %v", got, err)
		}
		_, err = b.NextN(w.ctx, -1)
		wantErr(t, "NextN(-1)", err, framework.ErrInvalidOption)
	})
}

// Close ends all calls, is one however often and wherever it is called, and does
// not wait for ever.
func TestBlockIDsClose(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		c := w.client()
		b := recipes.NewBlockIDs(c, idsRoot)
		w.closeBlocks(recipes.NewBlockIDs(c, idsRoot)) // unused
		ns.take(w.ctx, b, 1)
		var closes sync.WaitGroup
		for range 3 {
			closes.Go(func() { w.closeBlocks(b) })
		}
		closes.Wait()
		_, err := b.Next(w.ctx)
		wantErr(t, "Next of a closed one", err, recipes.ErrClosed)
		_, err = b.NextN(w.ctx, 2)
		wantErr(t, "NextN of a closed one", err, recipes.ErrClosed)

		b = recipes.NewBlockIDs(c, idsRoot)
		ns.take(w.ctx, b, 49)
		w.settle()
		waiting := make(chan error)
		w.link(c).refuse(true)
		w.link(c).drop()
		go func() {
			for {
				if _, err := ns.from(w.ctx, b); err != nil {
					waiting <- err
					return
				}
			}
		}()
		w.settle()
		began := time.Now()
		err = b.Close()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("Close took %v", took)
		}
		wantErr(t, "Next meanwhile", <-waiting, recipes.ErrClosed)
		w.link(c).refuse(false)
		if err != nil { // nothing was left
			t.Errorf("Close: %v", err)
		}
	})
}

// After the client's Close what is reserved is still handed out, and then there
// is an error.
func TestBlockIDsOfClosedClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		b := w.blocks()
		ns.take(w.ctx, b, 1)
		if err := w.clients[0].Close(); err != nil {
			t.Fatal(err)
		}
		ns.take(w.ctx, b, 40)
		wantErr(t, "Close", b.Close(), recipes.ErrClosed)
		_, err := b.Next(w.ctx)
		wantErr(t, "Next", err, recipes.ErrClosed)
	})
}

func TestBlockIDsRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		done, cancel := context.WithCancel(w.ctx)
		cancel()
		log := w.requests(isWork)
		for name, tc := range map[string]struct {
			b   *recipes.BlockIDs
			ctx context.Context
			err error
		}{
			"bad path":       {recipes.NewBlockIDs(c, "x"), w.ctx, framework.ErrInvalidPath},
			"nil option":     {recipes.NewBlockIDs(c, idsRoot, nil), w.ctx, framework.ErrInvalidOption},
			"tiny blocks":    {recipes.NewBlockIDs(c, idsRoot, recipes.WithBlockSize(1, 5)), w.ctx, framework.ErrInvalidOption},
			"blocks swapped": {recipes.NewBlockIDs(c, idsRoot, recipes.WithBlockSize(5, 4)), w.ctx, framework.ErrInvalidOption},
			"first":          {recipes.NewBlockIDs(c, idsRoot, recipes.WithFirst(-1)), w.ctx, framework.ErrInvalidOption},
			"done":           {recipes.NewBlockIDs(c, idsRoot), done, context.Canceled},
		} {
			_, err := tc.b.Next(tc.ctx)
			wantErr(t, name, err, tc.err)
			_, err = tc.b.NextN(tc.ctx, 5)
			wantErr(t, name+", NextN", err, tc.err)
			w.closeBlocks(tc.b)
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
		b := recipes.NewBlockIDs(c, idsRoot)
		newNumbers(t).take(w.ctx, b, 1)
		if _, err := b.Next(done); !errors.Is(err, context.Canceled) {
			t.Errorf("with a number at hand: %v", err)
		}
		w.closeBlocks(b)
	})
}

// Many goroutines of several generators, in real time: each sees its numbers rise,
// and together they are dense.
func TestBlockIDsInParallel(t *testing.T) {
	t.Parallel()
	w, stop := startWorld(t)
	defer stop()
	const generators, goroutines, each = 3, 8, 20_000
	all := make([][]int64, generators*goroutines)
	var bs []*recipes.BlockIDs
	var calls sync.WaitGroup
	for i := range generators {
		b := w.blocks(recipes.WithBlockSize(10, 5000))
		bs = append(bs, b)
		for j := range goroutines {
			calls.Go(func() {
				mine := &all[i*goroutines+j]
				for len(*mine) < each {
					if len(*mine)%1000 == 999 {
						some, err := b.NextN(w.ctx, 100)
						if *mine = append(*mine, some...); err != nil {
							t.Error(err)
							return
						}
						continue
					}
					n, err := b.Next(w.ctx)
					if *mine = append(*mine, n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	calls.Wait()
	w.closeBlocks(bs...)
	seen := make(map[int64]bool)
	for _, numbers := range all {
		if !slices.IsSorted(numbers) {
			t.Error("numbers of one goroutine do not rise")
		}
		for _, n := range numbers {
			if seen[n] {
				t.Fatalf("%d was given twice", n)
			}
			seen[n] = true
		}
	}
	s := w.blockState(idsRoot)
	if missing := s.Next - int64(len(seen)); missing != s.size() {
		t.Errorf("%d numbers are missing, %d are free", missing, s.size())
	}
}

// TestRandomBlockIDs lets several processes take numbers, while connections break,
// replies are lost, sessions end, and processes are closed, or end in a crash, and
// begin anew. Numbers are missing only for crashes, no more than a block for each.
func TestRandomBlockIDs(t *testing.T) {
	const most = 40
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 8).Draw(t, "what"), rapid.IntRange(0, 2).Draw(t, "who"), rapid.IntRange(1, 30).Draw(t, "n")}
		}), 5, 40).Draw(rt, "script")
		var problems problems
		inBubbleOf(t, func(w *world) {
			ns := newNumbers(&problems)
			var all [3]*recipes.BlockIDs
			begin := func(i int) { all[i] = recipes.NewBlockIDs(w.clients[i], idsRoot, recipes.WithBlockSize(4, most)) }
			for i := range all {
				w.client()
				begin(i)
			}
			crashes := int64(0)
			var calls sync.WaitGroup
			for _, step := range script {
				c, b, n := w.clients[step[1]], all[step[1]], step[2]
				switch step[0] {
				case 0, 1, 2, 3:
					calls.Go(func() { ns.take(w.ctx, b, n) })
				case 4:
					w.link(c).drop()
				case 5:
					w.srv.LoseReply(op("setData"))
				case 6:
					if session := c.Session(); session != nil {
						_ = w.srv.ExpireSession(session.ID())
					}
				case 7:
					calls.Wait()
					if err := b.Close(); err != nil {
						problems.Errorf("Close: %v", err)
					}
					begin(step[1])
				case 8:
					calls.Wait()
					crashes++
					begin(step[1])
				}
				time.Sleep(time.Duration(n) * time.Millisecond)
			}
			calls.Wait()
			for _, b := range all {
				if err := b.Close(); err != nil {
					problems.Errorf("Close: %v", err)
				}
			}
			s := w.blockState(idsRoot)
			if missing := ns.missing(s.Next) - s.size(); len(problems.list) == 0 && (missing < 0 || missing > crashes*most) {
				problems.Errorf("%d numbers are missing after %d crashes", missing, crashes)
			}
		})
		if len(problems.list) > 0 {
			rt.Fatal(strings.Join(problems.list, "\n"))
		}
	})
}
