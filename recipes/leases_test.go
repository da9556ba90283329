package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func TestDoN(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	inBubble(t, func(w *world) {
		s, other := w.semaphore(3), w.client()
		var inner context.Context
		err := s.DoN(w.ctx, 2, func(ctx context.Context, leases recipes.Leases) error {
			inner = ctx
			if len(leases) != 2 || w.out() != 2 || leases.Err() != nil || ctx.Err() != nil {
				t.Errorf("within DoN: %d leases, %d out, %v, %v", len(leases), w.out(), leases.Err(), ctx.Err())
			}
			return broken
		})
		wantErr(t, "DoN", err, broken)
		wantErr(t, "the cause after DoN", context.Cause(inner), recipes.ErrReleased)

		err = s.DoN(w.ctx, 3, func(ctx context.Context, leases recipes.Leases) error {
			w.remove(other, leases[1].Path())
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantErr(t, "DoN after a loss", err, recipes.ErrLost)
		if n := strings.Count(err.Error(), "lost"); n != 1 {
			t.Errorf("the loss is told %d times: %v", n, err)
		}
		err = s.DoN(w.ctx, 3, func(ctx context.Context, leases recipes.Leases) error {
			err := leases[0].Release()
			<-ctx.Done()
			return err
		})
		if err != nil {
			t.Errorf("DoN of a function that gives one back: %v", err)
		}
		func() {
			defer func() {
				if r := recover(); r != "panic" {
					t.Errorf("DoN recovered %v", r)
				}
			}()
			_ = s.DoN(w.ctx, 3, func(context.Context, recipes.Leases) error { panic("panic") })
		}()
		if n := w.out(); n != 0 {
			t.Errorf("%d permits are out", n)
		}
	})
}

// One of several was revoked under DoN's function, maybe after another was
// given back: the error says so.
func TestDoNTellsOfRevocation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		s := w.semaphore(3, recipes.EndWhenRevoked())
		err := s.DoN(w.ctx, 3, func(_ context.Context, leases recipes.Leases) error {
			err := leases[0].Release()
			w.revoke(outsider, leases[2].Path())
			<-leases[2].Done()
			return err
		})
		wantErr(t, "DoN", err, recipes.ErrRevoked)
		if errors.Is(err, recipes.ErrReleased) {
			t.Errorf("what was given back is an error: %v", err)
		}
	})
}

func TestDoNRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		s := w.semaphore(3)
		called := func(context.Context, recipes.Leases) error { t.Error("called"); return nil }
		wantErr(t, "no function", s.DoN(w.ctx, 1, nil), framework.ErrInvalidOption)
		wantErr(t, "none", s.DoN(w.ctx, 0, called), framework.ErrInvalidOption)
		wantErr(t, "too many", s.DoN(w.ctx, 4, called), framework.ErrInvalidOption)
		bad := recipes.NewInterProcessSemaphore(w.client(), "no/path", recipes.FixedLimit(1))
		wantErr(t, "no path", bad.DoN(w.ctx, 1, nil), framework.ErrInvalidPath)
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		wantErr(t, "done", s.DoN(ctx, 1, called), context.Canceled)
	})
}

// What several leases say of themselves together.
func TestLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, outsider := w.client(), w.client()
		leases := w.acquireN(recipes.NewInterProcessSemaphore(c, root, recipes.FixedLimit(3)), 3)
		checks := leases.Checks()
		if _, err := c.Multi(w.ctx, checks...); err != nil || len(checks) != 3 || leases.Err() != nil {
			t.Errorf("%d checks: %v; %v", len(checks), err, leases.Err())
		}
		if err := leases[0].Release(); err != nil {
			t.Error(err)
		}
		wantErr(t, "with one given back", leases.Err(), recipes.ErrReleased)
		_, err := c.Multi(w.ctx, checks...)
		wantErr(t, "the checks", err, recipes.ErrLost)
		w.remove(outsider, leases[2].Path())
		<-leases[2].Done()
		wantErr(t, "with one lost", leases.Err(), recipes.ErrLost)
		_, err = c.Multi(w.ctx, leases.Checks()...)
		wantErr(t, "new checks", err, recipes.ErrReleased)
		err = append(leases, leases[2]).Release() // as somebody may gather them
		wantErr(t, "Release", err, recipes.ErrLost)
		if n := strings.Count(err.Error(), "lost"); n != 1 {
			t.Errorf("one loss is told %d times: %v", n, err)
		}
		if err := (recipes.Leases{}).Err(); err != nil {
			t.Errorf("of none: %v", err)
		}
	})
}
