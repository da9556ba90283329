package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/retry"
)

var (
	errTransient = errors.New("transient")
	errFinal     = errors.New("final")
)

// failing returns an operation that fails the first n times, and its count.
func failing(n int, err error) (op func(context.Context) error, tries *int) {
	tries = new(int)
	return func(context.Context) error {
		*tries++
		if *tries <= n {
			return err
		}
		return nil
	}, tries
}

func TestDoTriesAndWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  retry.Policy
		fails   int
		tries   int
		elapsed time.Duration
		err     error
	}{
		{"success at once", retry.Forever(time.Second), 0, 1, 0, nil},
		{"zero policy", retry.Policy{}, 1, 1, 0, errTransient},
		{"none", retry.None(), 1, 1, 0, errTransient},
		{"one time", retry.OneTime(time.Second), 1, 2, time.Second, nil},
		{"one time, used up", retry.OneTime(time.Second), 2, 2, time.Second, errTransient},
		{"n times", retry.NTimes(3, time.Minute), 3, 4, 3 * time.Minute, nil},
		{"n times, used up", retry.NTimes(3, time.Minute), 9, 4, 3 * time.Minute, errTransient},
		{"at once", retry.NTimes(3, 0), 3, 4, 0, nil},
		{"until elapsed", retry.UntilElapsed(10*time.Second, 3*time.Second), 9, 4, 9 * time.Second, errTransient},
		{"for ever", retry.Forever(time.Hour), 1000, 1001, 1000 * time.Hour, nil},
		{"exponential", retry.Exponential(time.Second, 5), 9, 6, 31 * time.Second, errTransient},
		{"bounded", retry.BoundedExponential(time.Second, 5*time.Second, 5), 9, 6, 17 * time.Second, errTransient},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, tries := failing(c.fails, errTransient)
				start := time.Now()
				err := retry.Do(t.Context(), c.policy.WithJitter(0), op)
				if err != c.err {
					t.Errorf("error %v, want %v", err, c.err)
				}
				if *tries != c.tries {
					t.Errorf("%d tries, want %d", *tries, c.tries)
				}
				if got := time.Since(start); got != c.elapsed {
					t.Errorf("took %v, want %v", got, c.elapsed)
				}
			})
		})
	}
}

// The time of the tries counts too, from the start of the first.
func TestUntilElapsedCountsTheTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries int
		err := retry.Do(t.Context(), retry.UntilElapsed(10*time.Second, time.Second), func(context.Context) error {
			tries++
			time.Sleep(6 * time.Second)
			return errTransient
		})
		if err != errTransient || tries != 2 {
			t.Errorf("%v after %d tries, want %v after 2", err, tries, errTransient)
		}
	})
}

func TestDoEndsOnFinalErrors(t *testing.T) {
	wrapped := fmt.Errorf("reading: %w", retry.Stop(errFinal))
	for _, c := range []struct {
		name string
		err  error
		want error
		opts []retry.Option
	}{
		{"stop", retry.Stop(errFinal), errFinal, nil},
		{"stop inside", wrapped, wrapped, nil},
		{"not retryable", errFinal, errFinal, []retry.Option{retry.If(func(err error) bool { return err == errTransient })}},
		{"stop is not asked about", retry.Stop(errFinal), errFinal, []retry.Option{retry.If(func(error) bool { return true })}},
	} {
		t.Run(c.name, func(t *testing.T) {
			op, tries := failing(5, c.err)
			err := retry.Do(t.Context(), retry.NTimes(5, 0), op, c.opts...)
			if err != c.want || *tries != 1 {
				t.Errorf("%#v after %d tries, want %v after 1", err, *tries, c.want)
			}
			if !errors.Is(err, errFinal) {
				t.Errorf("%v does not match %v", err, errFinal)
			}
		})
	}
	if err := retry.Stop(nil); err != nil {
		t.Errorf("Stop(nil) = %v", err)
	}
}

func TestDoFailsOnADoneContext(t *testing.T) {
	closed := errors.New("client closed")
	for _, cause := range []error{nil, closed, fmt.Errorf("%w: %w", closed, context.Canceled)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		op, tries := failing(0, nil)
		err := retry.Do(ctx, retry.Forever(1), op)
		if *tries != 0 {
			t.Errorf("%d tries, want none", *tries)
		}
		if !errors.Is(err, context.Canceled) || (cause != nil && !errors.Is(err, cause)) {
			t.Errorf("%v, want it to match the context's error and its cause, %v", err, cause)
		}
	}
}

func TestContextCutsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		op, tries := failing(9, errTransient)
		start := time.Now()
		err := retry.Do(ctx, retry.NTimes(9, time.Minute).WithJitter(0), op)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errTransient) {
			t.Errorf("%v, want both the deadline and the operation's error", err)
		}
		if *tries != 2 || time.Since(start) != 90*time.Second {
			t.Errorf("%d tries in %v, want 2 in 1m30s", *tries, time.Since(start))
		}
	})
}

func TestContextEndsDuringTheOperation(t *testing.T) {
	closing := errors.New("closing")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := retry.Do(ctx, retry.NTimes(9, time.Hour), func(context.Context) error {
		cancel(closing)
		return errTransient
	})
	for _, want := range []error{context.Canceled, closing, errTransient} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not match %v", err, want)
		}
	}

	// An operation that reports the context's error itself is not repeated.
	ctx, stop := context.WithCancel(t.Context())
	own := fmt.Errorf("reading: %w", context.Canceled)
	err = retry.Do(ctx, retry.NTimes(9, time.Hour), func(context.Context) error {
		stop()
		return own
	})
	if err != own {
		t.Errorf("%v, want %v unchanged", err, own)
	}
}

func TestSuccessOutlivesTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := retry.Do(ctx, retry.None(), func(context.Context) error { cancel(); return nil })
	if err != nil {
		t.Errorf("%v, want the success to count", err)
	}
}

func TestDoRefusesAnInvalidPolicy(t *testing.T) {
	op, tries := failing(0, nil)
	err := retry.Do(t.Context(), retry.NTimes(-1, 0), op)
	if !errors.Is(err, retry.ErrInvalidPolicy) || *tries != 0 {
		t.Errorf("%v after %d tries, want ErrInvalidPolicy before any", err, *tries)
	}
}

func TestOnRetrySeesEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		note := retry.OnRetry(func(attempt int, err error, wait time.Duration) {
			seen = append(seen, fmt.Sprint(attempt, err, wait))
		})
		op, _ := failing(9, errTransient)
		_ = retry.Do(t.Context(), retry.Exponential(time.Second, 2).WithJitter(0), op, note)
		if want := []string{"1 transient 1s", "2 transient 2s"}; !slices.Equal(seen, want) {
			t.Errorf("saw %q, want %q", seen, want)
		}
	})
}

// Whatever the operation does, it runs at most retries+1 times, and no more
// once it has succeeded or failed for good.
func TestDoRunsWithinItsBudget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		retries := rapid.IntRange(0, 20).Draw(rt, "retries")
		results := rapid.SliceOfN(rapid.SampledFrom([]error{nil, errTransient, retry.Stop(errFinal)}), 21, 21).Draw(rt, "results")
		var tries int
		err := retry.Do(t.Context(), retry.NTimes(retries, 0), func(context.Context) error {
			tries++
			return results[tries-1]
		})
		want := slices.IndexFunc(results, func(err error) bool { return err != errTransient })
		if want < 0 || want > retries {
			want = retries
		}
		if tries != want+1 {
			rt.Fatalf("%d tries, want %d", tries, want+1)
		}
		if (err == nil) != (results[want] == nil) || (err != nil && !errors.Is(results[want], err)) {
			rt.Fatalf("error %v, want %v", err, results[want])
		}
	})
}
