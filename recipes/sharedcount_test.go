package recipes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const countPath = "/counts/limit"

// The node is Curator's: four bytes, big-endian, below containers.
func TestSharedCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		count := recipes.NewSharedCount(c, countPath, -2)
		want := func(value, version int32, data ...byte) {
			t.Helper()
			v, ver, err := count.Get(w.ctx)
			if err != nil || v != value || ver != version {
				t.Errorf("Get: %d, version %d, %v, want %d, version %d", v, ver, err, value, version)
			}
			node, _ := w.srv.Node(countPath)
			if !slices.Equal(node.Data, data) || node.Mode != "persistent" {
				t.Errorf("the node is %+v, want %v", node, data)
			}
		}
		want(-2, 0, 0xff, 0xff, 0xff, 0xfe)
		if node, _ := w.srv.Node("/counts"); node.Mode != "container" {
			t.Errorf("its parent is a %s", node.Mode)
		}
		other := recipes.NewSharedCount(w.client(), countPath, 99) // a seed is for those who come first
		if err := other.Set(w.ctx, 0x01020304); err != nil {
			t.Fatal(err)
		}
		want(0x01020304, 1, 1, 2, 3, 4)
		if err := count.TrySet(w.ctx, 1, 7); err != nil {
			t.Error(err)
		}
		wantErr(t, "TrySet of an old version", other.TrySet(w.ctx, 1, 8), framework.ErrBadVersion)
		want(7, 2, 0, 0, 0, 7)
		w.srv.LoseReply(op("setData"))
		if err := count.TrySet(w.ctx, 2, 8); err != nil {
			t.Errorf("TrySet with its reply lost: %v", err)
		}
		want(8, 3, 0, 0, 0, 8)
		wantErr(t, "TrySet of no version", count.TrySet(w.ctx, framework.AnyVersion, 1), framework.ErrInvalidOption)
		w.remove(c, countPath)
		wantErr(t, "TrySet of a deleted one", count.TrySet(w.ctx, 3, 1), framework.ErrNoNode)
		if err := count.Set(w.ctx, 5); err != nil {
			t.Error(err)
		}
		want(5, 0, 0, 0, 0, 5)
		if count.Path() != countPath {
			t.Errorf("Path: %s", count.Path())
		}
	})
}

func TestSharedCountRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		for _, data := range []string{"", "abc", "abcde", "12"} {
			if _, err := c.Create(w.ctx, countPath, []byte(data), framework.WithParents(), framework.OrSet()); err != nil {
				t.Fatal(err)
			}
			_, _, err := recipes.NewSharedCount(c, countPath, 1).Get(w.ctx)
			wantErr(t, "Get", err)
			for _, want := range []string{countPath, `"` + data + `"`, "4 bytes"} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
		}
		done, cancel := context.WithCancel(w.ctx)
		cancel()
		log := w.requests(isWork)
		for name, tc := range map[string]struct {
			count *recipes.SharedCount
			ctx   context.Context
			err   error
		}{
			"bad path":  {recipes.NewSharedCount(c, "x", 1), w.ctx, framework.ErrInvalidPath},
			"root":      {recipes.NewSharedCount(c, "/", 1), w.ctx, framework.ErrInvalidPath},
			"no client": {recipes.NewSharedCount(nil, countPath, 1), w.ctx, framework.ErrInvalidOption},
			"done":      {recipes.NewSharedCount(c, countPath, 1), done, context.Canceled},
		} {
			_, _, err := tc.count.Get(tc.ctx)
			wantErr(t, name+", Get", err, tc.err)
			wantErr(t, name+", Set", tc.count.Set(tc.ctx, 1), tc.err)
			wantErr(t, name+", TrySet", tc.count.TrySet(tc.ctx, 0, 1), tc.err)
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
	})
}

// live returns a semaphore for a new client, whose limit is the count.
func (w *world) live(seed int32) *recipes.InterProcessSemaphore {
	w.Helper()
	c := w.client()
	return recipes.NewInterProcessSemaphore(c, root, recipes.SharedLimit(recipes.NewSharedCount(c, countPath, seed)))
}

func (w *world) set(count *recipes.SharedCount, value int32) {
	w.Helper()
	if err := count.Set(w.ctx, value); err != nil {
		w.Fatal(err)
	}
}

// S6: raising the limit wakes who waits at once; lowering it takes nothing
// from anybody, and is kept from then on.
func TestLiveLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		count := recipes.NewSharedCount(w.client(), countPath, 1)
		first := w.acquireN(w.live(1), 1)
		pair, single := w.wish(w.live(1), 2), w.wish(w.live(1), 1)
		if w.out() != 1 || w.inLine() != 2 {
			t.Errorf("%d are out, %d in line", w.out(), w.inLine())
		}
		w.set(count, 2)
		w.settle()
		if pair.granted() || single.granted() {
			t.Error("granted beyond the limit, or out of turn")
		}
		began := time.Now()
		w.set(count, 4)
		held := append(w.waitAll(pair), w.waitAll(single)...)
		for _, v := range []*wish{pair, single} {
			if late := v.at.Sub(began); late > 0 {
				t.Errorf("granted %v after the limit was raised", late)
			}
		}
		w.set(count, 1)
		next := w.wish(w.live(1), 1)
		for i, l := range held {
			if err := l.Err(); err != nil {
				t.Errorf("permit %d ended when the limit was lowered: %v", i, err)
			}
			if next.granted() {
				t.Errorf("granted with %d out", w.out())
			}
			w.release(l)
			w.settle()
		}
		w.releaseAll(first)
		w.releaseAll(w.waitAll(next))
		w.set(count, 0)
		_, err := w.live(1).TryAcquire(w.ctx)
		wantErr(t, "with a limit of 0", err, recipes.ErrHeld)
		w.set(count, -1)
		last := w.wish(w.live(1), 1)
		w.remove(w.client(), countPath) // the seed again
		w.releaseAll(w.waitAll(last))
	})
}

// No permit is granted by a limit that was lowered before.
func TestLimitLoweredBeforeGrant(t *testing.T) {
	t.Parallel()
	for name, lower := range map[string]func(w *world, admin *framework.Client){
		"set":     func(w *world, admin *framework.Client) { w.set(recipes.NewSharedCount(admin, countPath, 9), 1) },
		"deleted": func(w *world, admin *framework.Client) { w.remove(admin, countPath) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				admin, c := w.client(), w.client()
				count := recipes.NewSharedCount(c, countPath, 1)
				w.set(count, 2)
				s := recipes.NewInterProcessSemaphore(c, root, recipes.SharedLimit(count))
				held := w.acquireN(s, 1)
				w.capped(1)
				w.srv.OnRequest(of(c, op("multi")).once(func() { lower(w, admin) }))
				waiting := w.wish(s, 1)
				time.Sleep(soon)
				if waiting.granted() || w.out() != 1 {
					t.Errorf("%d are out after the limit was lowered to 1", w.out())
				}
				w.releaseAll(held)
				w.releaseAll(w.waitAll(waiting))
			})
		})
	}
}

// A count that is none ends the wait, with its path, and is what Explain tells.
func TestLimitBecomesGarbage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		held := w.acquireN(w.live(1), 1)
		waiting := w.wish(w.live(1), 1)
		if _, err := w.client().Set(w.ctx, countPath, []byte("many"+"!"), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-waiting.done
		_, explained := w.live(1).Explain(w.ctx)
		for call, err := range map[string]error{"AcquireN": waiting.err, "Explain": explained} {
			wantErr(t, call, err)
			for _, want := range []string{root, countPath, `"many!"`} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %q does not say %s", call, err, want)
				}
			}
			if err != nil && strings.Count(err.Error(), "recipes: ") > 1 {
				t.Errorf("%s: %q names the package more than once", call, err)
			}
		}
		w.releaseAll(held)
	})
}
