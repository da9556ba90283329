package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/retry"
)

// nest runs op below depth loops, each with contexts derived in between.
func nest(ctx context.Context, depth int, policy retry.Policy, op func(context.Context) error) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, depth))
		defer cancel()
		if depth == 1 {
			return op(ctx)
		}
		return nest(ctx, depth-1, policy, op)
	})
}

// CURATOR-559: 20 tries in 20 tries were 400.
func TestNestedLoopsDoNotMultiply(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		depth := rapid.IntRange(1, 6).Draw(rt, "depth")
		retries := rapid.IntRange(0, 19).Draw(rt, "retries")
		op, tries := failing(1000, errTransient)
		err := nest(t.Context(), depth, retry.NTimes(retries, 0), op)
		if err != errTransient || *tries != retries+1 {
			rt.Fatalf("%v after %d tries, want %v after %d", err, *tries, errTransient, retries+1)
		}
	})
}

func TestStopEndsTheWholeTree(t *testing.T) {
	op, tries := failing(1000, retry.Stop(errFinal))
	err := nest(t.Context(), 3, retry.NTimes(9, 0), op)
	if err != errFinal || *tries != 1 {
		t.Errorf("%#v after %d tries, want %v after 1", err, *tries, errFinal)
	}
}

func TestOuterOptionsDecide(t *testing.T) {
	inner, tries := failing(1000, errTransient)
	err := retry.Do(t.Context(), retry.NTimes(2, 0), func(ctx context.Context) error {
		return retry.Do(ctx, retry.NTimes(50, 0), inner,
			retry.If(func(error) bool { t.Error("the nested If was asked"); return true }),
			retry.OnRetry(func(int, error, time.Duration) { t.Error("the nested OnRetry was called") }))
	})
	if err != errTransient || *tries != 3 {
		t.Errorf("%v after %d tries, want %v after 3", err, *tries, errTransient)
	}
}

func TestNestedDoFailsOnADoneContext(t *testing.T) {
	inner, tries := failing(0, nil)
	err := retry.Do(t.Context(), retry.NTimes(2, 0), func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return retry.Stop(retry.Do(ctx, retry.None(), inner))
	})
	if !errors.Is(err, context.Canceled) || *tries != 0 {
		t.Errorf("%v after %d tries, want canceled before any", err, *tries)
	}
}

func TestMarkEndsWithItsLoop(t *testing.T) {
	var kept context.Context
	err := retry.Do(t.Context(), retry.None(), func(ctx context.Context) error { kept = ctx; return nil })
	if err != nil {
		t.Fatal(err)
	}
	op, tries := failing(2, errTransient)
	if err := retry.Do(kept, retry.NTimes(2, 0), op); err != nil || *tries != 3 {
		t.Errorf("%v after %d tries, want success after 3", err, *tries)
	}
}

func TestMarkEndsWhenTheOperationPanics(t *testing.T) {
	var kept context.Context
	func() {
		defer func() { _ = recover() }()
		_ = retry.Do(t.Context(), retry.None(), func(ctx context.Context) error { kept = ctx; panic("broken") })
	}()
	op, tries := failing(1, errTransient)
	if err := retry.Do(kept, retry.NTimes(1, 0), op); err != nil || *tries != 2 {
		t.Errorf("%v after %d tries, want success after 2", err, *tries)
	}
}

func TestFreshRetriesOnItsOwn(t *testing.T) {
	inner, tries := failing(3, errTransient)
	outer := 0
	err := retry.Do(t.Context(), retry.NTimes(9, 0), func(ctx context.Context) error {
		outer++
		cleanup := retry.Fresh(context.WithoutCancel(ctx))
		return retry.Do(cleanup, retry.NTimes(3, 0), inner)
	})
	if err != nil || outer != 1 || *tries != 4 {
		t.Errorf("%v, %d outer and %d inner tries; want success, 1 and 4", err, outer, *tries)
	}
}

func TestMarkedContextIsStillAContext(t *testing.T) {
	type key struct{}
	cause := errors.New("cause")
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	_ = retry.Do(parent, retry.None(), func(ctx context.Context) error {
		child, stop := context.WithCancel(ctx)
		defer stop()
		if child.Value(key{}) != "value" {
			t.Error("a value of the parent is hidden")
		}
		cancel(cause)
		<-child.Done()
		if got := context.Cause(child); got != cause {
			t.Errorf("cause %v, want %v", got, cause)
		}
		return nil
	})
}
