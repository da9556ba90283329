package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Option changes one call of [Do].
type Option struct {
	retryable func(error) bool
	onRetry   func(attempt int, err error, wait time.Duration)
}

// If makes Do retry only errors for which retryable returns true; any other is
// returned at once. By default every error is retried, except those marked by
// [Stop]. A marked error is final without asking.
func If(retryable func(error) bool) Option { return Option{retryable: retryable} }

// OnRetry makes Do call f after each failed try that will be followed by
// another, before it waits: attempt is the number of the try that failed,
// counted from 1, err its error. f runs in the goroutine of Do, and delays it.
func OnRetry(f func(attempt int, err error, wait time.Duration)) Option {
	return Option{onRetry: f}
}

// merge returns the options as one, later ones overriding earlier ones.
func merge(opts []Option) Option {
	var o Option
	for _, opt := range opts {
		if opt.retryable != nil {
			o.retryable = opt.retryable
		}
		if opt.onRetry != nil {
			o.onRetry = opt.onRetry
		}
	}
	return o
}

// Do runs op until it succeeds or policy allows no further try, and waits in
// between as the policy says. It returns
//
//   - nil as soon as op does, even if ctx has ended meanwhile;
//   - op's error, without the mark of [Stop], at once if it is final;
//   - op's last error if the policy allows no further try;
//   - when ctx ends, during op or a wait, an error that matches ctx.Err(), its
//     cause, and op's last error; a ctx that is done already fails before op
//     is run;
//   - an error that matches [ErrInvalidPolicy], before op is run.
//
// Inside the operation of another Do, that is with a ctx derived from the one
// it was handed, op is run exactly once and its error returned unchanged, mark
// of Stop included: the outer Do alone decides, with its own options. A nested
// Do calls no OnRetry.
//
// Do blocks as long as op and the waits take. It may be called from any number
// of goroutines with the same policy.
func Do(ctx context.Context, policy Policy, op func(ctx context.Context) error, opts ...Option) error {
	if err := policy.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx, nil)
	}
	if nested(ctx) {
		return op(ctx)
	}
	t := &tree{Context: ctx}
	defer t.ended.Store(true)
	return loop(t, policy, op, merge(opts))
}

func loop(ctx context.Context, policy Policy, op func(ctx context.Context) error, o Option) error {
	var schedule *Schedule
	if policy.kind == kindElapsed {
		schedule = policy.Schedule() // its time runs from here
	}
	for attempt := 1; ; attempt++ {
		err := op(ctx)
		if err == nil {
			return nil
		}
		if isStopped(err) || (o.retryable != nil && !o.retryable(err)) {
			return unmarked(err)
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if schedule == nil {
			schedule = policy.Schedule()
		}
		wait, ok := schedule.Next()
		if !ok {
			return err
		}
		if o.onRetry != nil {
			o.onRetry(attempt, err, wait)
		}
		if !sleep(ctx, wait) {
			return ended(ctx, err)
		}
	}
}

// sleep waits for d and reports whether ctx is still alive afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// ended returns the error for a ctx that is done, with op's last error if
// there is one.
func ended(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); errors.Is(cause, err) {
		err = cause
	} else {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	switch {
	case last == nil:
		return err
	case errors.Is(last, err):
		return last // op failed because of the context, and says so itself
	}
	return fmt.Errorf("%w; last error: %w", err, last)
}
