package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// explainWorkers explains, or fails the test.
func (w *world) explainWorkers(ids *recipes.WorkerIDs) recipes.WorkerExplanation {
	w.Helper()
	e, err := ids.Explain(w.ctx)
	if err != nil {
		w.Fatalf("Explain: %v", err)
	}
	return e
}

// slotOf returns what e says of a number.
func (w *world) slotOf(e recipes.WorkerExplanation, number int) recipes.WorkerSlot {
	w.Helper()
	i := slices.IndexFunc(e.Slots, func(s recipes.WorkerSlot) bool { return s.Number == number })
	if i < 0 {
		w.Fatalf("number %d is not among %+v", number, e.Slots)
	}
	return e.Slots[i]
}

func TestWorkerIDExplain(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ns, err := c.Namespace("ids")
		if err != nil {
			t.Fatal(err)
		}
		ids := recipes.NewWorkerIDs(ns, "/orders", recipes.WithRange(0, 9), recipes.WithPreferred(3), recipes.WithOwner("web-3"))
		e := w.explainWorkers(ids)
		if e.Exists || e.Path != idRoot || e.Session != c.Session().ID() || e.First != 0 || e.Last != 9 || len(w.nodes(c, "/ids")) > 0 {
			w.Errorf("of a root that does not exist: %+v", e)
		}
		wantText(t, e, "worker numbers "+idRoot+": all are free, the path does not exist\n")
		w.put(c, idRoot)
		if e = w.explainWorkers(ids); !e.Exists || e.Layout != (recipes.Layout{}) || len(e.Slots) > 0 {
			w.Errorf("of a root made by hand: %+v", e)
		}

		began := time.Now()
		mine := w.claim(ids)
		theirs := w.claim(w.workers(recipes.WithPreferred(700), recipes.WithOwner("web-4")))
		left := w.claim(w.workers(recipes.WithPreferred(8), recipes.WithOwner("web-5")))
		w.let(left)
		w.put(c, idRoot+"/notes")
		w.put(c, idRoot+"/slots/007")
		w.put(c, idRoot+"/claims/web")
		e = w.explainWorkers(ids)
		if e.Layout != recipes.DefaultLayout() || len(e.Slots) != 3 || e.Unread != 0 ||
			!slices.Equal(e.Foreign, []string{"notes", "claims/web", "slots/007"}) {
			w.Errorf("Explain: %+v", e)
		}
		s := w.slotOf(e, 3)
		_, until := mine.Reserved()
		if !s.InUse() || s.Owner != "web-3" || s.Generation != 1 || !s.ReservedUntil.Equal(until) || s.Problem != nil {
			w.Errorf("mine: %+v, reserved until %v", s, until)
		}
		if p := s.Claims[0]; len(s.Claims) != 1 || p.SessionID != c.Session().ID() || p.Path != mine.Path() || string(p.Data) != "web-3" ||
			p.Token != mine.Token() || !p.Holder || p.Since.Sub(began) > soon {
			w.Errorf("my claim: %+v", s.Claims)
		}
		if s := w.slotOf(e, 8); s.InUse() || s.Owner != "web-5" || s.Generation != 1 || s.Problem != nil {
			w.Errorf("the one that was let go: %+v", s)
		}
		text := "since " + began.UTC().Format(time.RFC3339) + "%s, claim 1 of it, reserved up to " + until.Format("2006-01-02T15:04")
		wantText(t, e, "worker numbers "+idRoot+": of 0 to 9, 1 are in use, 9 free\n", "layout: 1·41·10·12 of 1ms since ",
			fmt.Sprintf("in use: number 3, by \"web-3\", session %#x, "+text, c.Session().ID(), ", this client"),
			fmt.Sprintf("in use: number 700, by \"web-4\", session %#x, "+text, theirs.Session().ID(), ""),
			`foreign: "slots/007", ignored`)
		w.let(mine)
		w.let(theirs)
	})
}

// What keeps a number from being claimed, or from being used on, is named.
func TestWorkerIDExplainProblems(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ids := recipes.NewWorkerIDs(c, idRoot, recipes.WithRange(0, 4), recipes.WithPreferred(1))
		id := w.claim(ids)
		w.put(c, idRoot+"/slots/2")
		w.put(c, idRoot+"/slots/3")
		w.put(c, idRoot+"/claims/worker-4")
		far := fmt.Sprintf(`{"high":%q,"owner":"web-3","generation":1,"write":"x"}`, "2126-12-01T04:00:10.000Z")
		if _, err := c.Set(w.ctx, idRoot+"/slots/3", []byte(far), framework.AnyVersion); err != nil {
			w.Fatal(err)
		}
		w.remove(c, id.SlotPath())
		e := w.explainWorkers(ids)
		for number, want := range map[int]string{
			1: idRoot + "/slots/1 is missing",
			2: "corrupt",
			3: "reserved up to 2126-",
		} {
			s := w.slotOf(e, number)
			if s.Problem == nil {
				w.Errorf("nothing is wrong with %+v", s)
			}
			wantText(t, e, fmt.Sprintf("problem: number %d: ", number), want)
		}
		if !errors.Is(w.slotOf(e, 2).Problem, recipes.ErrCorrupt) {
			w.Errorf("number 2: %v", w.slotOf(e, 2).Problem)
		}
		if s := w.slotOf(e, 4); s.InUse() || s.Problem != nil || len(s.Claims) != 1 || !s.Claims[0].Dead {
			w.Errorf("of a dead claim: %+v", s)
		}
		wantText(t, e, "of 0 to 4, 1 are in use, 2 free, 2 cannot be used\n", "dead: number 4: worker-4, passed over")
		w.put(c, idRoot+"/lock/lock-0000000000")
		e = w.explainWorkers(ids)
		if !errors.Is(e.Problem, recipes.ErrWrongRoot) {
			w.Errorf("a lock in the root: %v", e.Problem)
		}
		wantText(t, e, "problem: no number can be claimed: wrong root: ", idRoot+"/lock\", the root of a lock")
		w.let(id)
	})
}

func TestWorkerIDExplainMany(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		ids := recipes.NewWorkerIDs(c, idRoot, recipes.WithPreferred(1020))
		id := w.claim(ids)
		for n := range 1010 {
			w.put(c, fmt.Sprintf("%s/slots/%d", idRoot, n))
		}
		e := w.explainWorkers(ids)
		if len(e.Slots) != 1000 || e.Unread != 11 || e.Slots[999].Number != 1020 || !e.Slots[999].InUse() {
			w.Errorf("%d slots, %d not read, the last of them %+v", len(e.Slots), e.Unread, e.Slots[len(e.Slots)-1])
		}
		wantText(t, e, "problem: 989 more\n", "; 11 were not read\n")
		w.let(id)
	})
}

func TestWorkerIDExplainFails(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		w.release(w.acquire(recipes.NewInterProcessMutex(c, "/locks/a")))
		done, cancel := context.WithCancel(w.ctx)
		cancel()
		for name, test := range map[string]struct {
			ids  *recipes.WorkerIDs
			ctx  context.Context
			want error
		}{
			"a lock's root":          {recipes.NewWorkerIDs(c, "/locks/a"), w.ctx, recipes.ErrWrongRoot},
			"a malformed root":       {recipes.NewWorkerIDs(c, "ids"), w.ctx, framework.ErrInvalidPath},
			"a context that is done": {recipes.NewWorkerIDs(c, "/ids/a"), done, context.Canceled},
		} {
			if _, err := test.ids.Explain(test.ctx); !errors.Is(err, test.want) {
				w.Errorf("%s: %v", name, err)
			}
		}
		w.let(w.claim(w.workers(recipes.WithLayout(recipes.JavaScriptLayout()))))
		if e := w.explainWorkers(w.workers()); e.Layout != recipes.JavaScriptLayout() {
			w.Errorf("another layout: %+v", e)
		}
	})
}
