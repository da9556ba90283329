package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/batonzk/baton/retry"
)

// Run with: go test -run '^$' -bench Do -benchmem ./retry

func BenchmarkDoSuccess(b *testing.B) {
	ctx := context.Background()
	policy := retry.BoundedExponential(100*time.Millisecond, 5*time.Second, 8)
	op := func(context.Context) error { return nil }
	isRetryable := func(error) bool { return true }
	b.ReportAllocs()
	for b.Loop() {
		if err := retry.Do(ctx, policy, op, retry.If(isRetryable)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDoNested(b *testing.B) {
	policy := retry.NTimes(3, time.Second)
	op := func(context.Context) error { return nil }
	_ = retry.Do(context.Background(), policy, func(ctx context.Context) error {
		b.ReportAllocs()
		for b.Loop() {
			if err := retry.Do(ctx, policy, op); err != nil {
				b.Fatal(err)
			}
		}
		return nil
	})
}

// The path without a retry costs the mark and nothing else.
func TestDoAllocatesOnlyItsMark(t *testing.T) {
	ctx := context.Background()
	policy := retry.NTimes(3, time.Second)
	op := func(context.Context) error { return nil }
	got := testing.AllocsPerRun(100, func() { _ = retry.Do(ctx, policy, op, retry.If(func(error) bool { return true })) })
	if got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
	_ = retry.Do(ctx, policy, func(ctx context.Context) error {
		if got := testing.AllocsPerRun(100, func() { _ = retry.Do(ctx, policy, op) }); got != 0 {
			t.Errorf("nested: %v allocations, want none", got)
		}
		return nil
	})
}
