package retry

import (
	"fmt"
	"math"
	"time"
)

// Unlimited, given as a number of retries, means that retries never run out.
const Unlimited = math.MaxInt

// Jitter of the policies unless [Policy.WithJitter] says otherwise.
const (
	fullJitter  = 1.0
	fixedJitter = 0.1
)

// longest is the longest wait of any schedule, about 146 years: far beyond any
// use, and far enough below the largest time.Duration that a wait, its jitter
// and the time already spent can be added up without overflow.
const longest = time.Duration(1) << 62

type kind uint8

const (
	kindNone kind = iota
	kindFixed
	kindElapsed
	kindForever
	kindExponential
	kindBounded
)

// Policy says how often a failed operation is retried, and after which waits.
//
// It is an immutable value, safe for concurrent use: each [Do] and each
// [Policy.Schedule] counts for itself. The zero Policy means one try, like
// [None]. The constructors accept any value; [Policy.Validate] tells which
// are refused, and Do fails with the same error before its first try.
type Policy struct {
	kind       kind
	maxRetries int           // kindFixed, kindExponential, kindBounded
	wait       time.Duration // the first nominal wait
	max        time.Duration // longest wait (kindBounded) or longest time (kindElapsed)
	jitter     float64
}

// None returns the policy that never retries.
func None() Policy { return Policy{} }

// NTimes returns a policy that retries n times, n ≥ 0, each time after sleep,
// which may be zero. [Unlimited] retries without end.
func NTimes(n int, sleep time.Duration) Policy {
	return Policy{kind: kindFixed, maxRetries: n, wait: sleep, jitter: fixedJitter}
}

// OneTime returns a policy that retries once, after sleep.
func OneTime(sleep time.Duration) Policy { return NTimes(1, sleep) }

// UntilElapsed returns a policy that retries after sleep, again and again, as
// long as the wait ends within maxElapsed from the start of the call. Both
// must be positive. A try that has begun is not cut short.
func UntilElapsed(maxElapsed, sleep time.Duration) Policy {
	return Policy{kind: kindElapsed, wait: sleep, max: maxElapsed, jitter: fixedJitter}
}

// Forever returns a policy that retries after interval, which must be
// positive, until the context ends or the error is final.
func Forever(interval time.Duration) Policy {
	return Policy{kind: kindForever, wait: interval, jitter: fixedJitter}
}

// Exponential returns a policy that retries up to maxRetries times, the
// nominal wait being base, which must be positive, and doubling each time.
// With its full jitter the wait before retry n, counted from 0, is uniform
// between zero and base·2ⁿ⁺¹: the spread of Curator's ExponentialBackoffRetry
// without its steps.
//
// The waits grow without bound: 20 retries from 100 ms add up to a day. Where
// nothing else ends the loop, use [BoundedExponential].
func Exponential(base time.Duration, maxRetries int) Policy {
	return Policy{kind: kindExponential, maxRetries: maxRetries, wait: base, jitter: fullJitter}
}

// BoundedExponential is [Exponential] with waits of at most maxWait, jitter
// included; maxWait must not be less than base. With [Unlimited] retries it is
// the policy for reconnecting to a server.
func BoundedExponential(base, maxWait time.Duration, maxRetries int) Policy {
	return Policy{kind: kindBounded, maxRetries: maxRetries, wait: base, max: maxWait, jitter: fullJitter}
}

// WithJitter returns p with its waits scattered evenly by the given fraction,
// from 0 (exact) to 1 (full), to either side of the nominal wait. The default
// is 1 for exponential policies and 0.1 for the others.
func (p Policy) WithJitter(fraction float64) Policy {
	p.jitter = fraction
	return p
}

// Validate returns nil, or an error that matches [ErrInvalidPolicy] and names
// the value that is refused.
func (p Policy) Validate() error {
	switch {
	case !(p.jitter >= 0 && p.jitter <= 1): // in this form, NaN is refused too
		return invalid("jitter %v is not between 0 and 1", p.jitter)
	case p.kind == kindNone:
		return nil
	case p.maxRetries < 0:
		return invalid("number of retries %d is negative", p.maxRetries)
	case p.wait < 0:
		return invalid("wait %v is negative", p.wait)
	case p.wait == 0 && p.kind != kindFixed:
		return invalid("wait %v is not positive", p.wait)
	case p.kind == kindElapsed && p.max <= 0:
		return invalid("longest time %v is not positive", p.max)
	case p.kind == kindBounded && p.max < p.wait:
		return invalid("longest wait %v is less than the first, %v", p.max, p.wait)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidPolicy, fmt.Sprintf(format, args...))
}
