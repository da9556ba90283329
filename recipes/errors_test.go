package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// An error names the package once, what was done next, and then why it came to
// nothing: a done context first.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, outsider := w.client(), w.client()
		m := recipes.NewInterProcessMutex(c, root)
		other := recipes.NewInterProcessMutex(c, root+"-2")
		want := func(err error, format string, paths ...string) {
			t.Helper()
			for _, p := range paths {
				format = strings.Replace(format, "%", p, 1)
			}
			if err == nil || err.Error() != format {
				t.Errorf("the error is\n%v, want\n%v", err, format)
			}
		}
		acquire := func(ctx context.Context, m *recipes.InterProcessMutex) error {
			t.Helper()
			_, err := m.Acquire(ctx)
			return err
		}
		holder := w.acquire(w.mutex(recipes.WithData([]byte("the holder"))))

		timeout, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		want(acquire(timeout, m),
			`recipes: acquire /locks/report: context deadline exceeded: waited 3s, 1 ahead, the next is % of "the holder"`, holder.Path())
		want(acquire(timeout, m), "recipes: acquire /locks/report: context deadline exceeded")
		stopped, stop := context.WithCancelCause(w.ctx)
		time.AfterFunc(soon, func() { stop(errors.New("shutting down")) })
		want(acquire(stopped, m),
			`recipes: acquire /locks/report: context canceled: shutting down: waited 1s, 1 ahead, the next is % of "the holder"`, holder.Path())
		want(acquire(stopped, m), "recipes: acquire /locks/report: context canceled: shutting down")
		w.settle() // the one that gave up leaves in the background
		w.settle() // what was cancelled leaves in the background
		_, err := m.TryAcquire(w.ctx)
		want(err, `recipes: acquire /locks/report: held by another: 1 ahead, the next is % of "the holder"`, holder.Path())
		w.release(holder)

		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		w.settle()
		w.remove(outsider, lease.Path())
		w.settle()
		want(lease.Err(), "recipes: lease lost: %: somebody deleted the node", lease.Path())
		want(acquire(ctx, m),
			"recipes: acquire /locks/report: context canceled: lease lost: %: somebody deleted the node", lease.Path())
		want(acquire(context.WithoutCancel(ctx), m),
			"recipes: acquire /locks/report: lease lost: %: somebody deleted the node", lease.Path())
		want(acquire(ctx, other),
			"recipes: acquire /locks/report-2: context canceled: lease lost: %: somebody deleted the node", lease.Path())
		_ = lease.Release()

		lease = w.acquire(m)
		w.release(lease)
		want(lease.Err(), "recipes: lease released: %", lease.Path())
		want(w.mutex().Release(lease), "recipes: not a lease of this lock: /locks/report")

		lease = w.acquire(m)
		waiting := w.queue(other, other)
		c.Close()
		want(lease.Err(), "recipes: lease ended: %: framework: client closed", lease.Path())
		<-waiting[1].done
		wantErr(t, "the waiting Acquire", waiting[1].err, recipes.ErrClosed)
		if text := waiting[1].err.Error(); !strings.HasPrefix(text, "recipes: acquire /locks/report-2: framework: client closed: waited ") {
			t.Errorf("the error is %v", text)
		}
		want(acquire(w.ctx, m), "recipes: acquire /locks/report: create2 /locks/report/lock-: framework: client closed")
	})
}

// Do adds to what fn says only what that does not tell.
func TestDoTellsOnce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	inBubble(t, func(w *world) {
		m, outsider := w.mutex(), w.client()
		do := func(fn func(ctx context.Context, lease *recipes.Lease) error) error {
			return m.Do(w.ctx, fn)
		}
		lose := func(ctx context.Context, lease *recipes.Lease) {
			w.settle()
			w.remove(outsider, lease.Path())
			<-ctx.Done()
		}
		if err := do(func(context.Context, *recipes.Lease) error { return broken }); err != broken { // by identity: nothing is wrapped around it
			t.Errorf("fn's error became %#v", err)
		}
		err := do(func(ctx context.Context, lease *recipes.Lease) error {
			lose(ctx, lease)
			return context.Cause(ctx)
		})
		wantErr(t, "a loss that fn returned", err, recipes.ErrLost)
		if n := strings.Count(err.Error(), "lease lost"); n != 1 {
			t.Errorf("the loss is told %d times: %v", n, err)
		}
		err = do(func(ctx context.Context, lease *recipes.Lease) error {
			lose(ctx, lease)
			return broken
		})
		wantErr(t, "a loss and fn's error", err, recipes.ErrLost, broken)
		err = do(func(ctx context.Context, lease *recipes.Lease) error {
			lose(ctx, lease)
			return nil
		})
		wantErr(t, "a loss that fn does not tell", err, recipes.ErrLost)
		if errors.Is(err, framework.ErrSessionLost) {
			t.Errorf("the loss is the session's: %v", err)
		}
	})
}
