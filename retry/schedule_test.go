package retry_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/retry"
)

// take returns the first waits of policy, at most n.
func take(policy retry.Policy, n int) []time.Duration {
	var waits []time.Duration
	s := policy.Schedule()
	for range n {
		wait, ok := s.Next()
		if !ok {
			break
		}
		waits = append(waits, wait)
	}
	return waits
}

func TestExactSchedules(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		policy retry.Policy
		want   []time.Duration
	}{
		{"none", retry.None(), nil},
		{"zero", retry.Policy{}, nil},
		{"one time", retry.OneTime(5 * ms), []time.Duration{5 * ms}},
		{"three times", retry.NTimes(3, 5*ms), []time.Duration{5 * ms, 5 * ms, 5 * ms}},
		{"at once", retry.NTimes(2, 0), []time.Duration{0, 0}},
		{"for ever", retry.Forever(7 * ms), []time.Duration{7 * ms, 7 * ms, 7 * ms, 7 * ms, 7 * ms, 7 * ms}},
		{"exponential", retry.Exponential(ms, 4), []time.Duration{ms, 2 * ms, 4 * ms, 8 * ms}},
		{"bounded", retry.BoundedExponential(ms, 3*ms, 5), []time.Duration{ms, 2 * ms, 3 * ms, 3 * ms, 3 * ms}},
		{"unlimited", retry.BoundedExponential(ms, 2*ms, retry.Unlimited), []time.Duration{ms, 2 * ms, 2 * ms, 2 * ms, 2 * ms, 2 * ms}},
	} {
		if got := take(c.policy.WithJitter(0), 6); !slices.Equal(got, c.want) {
			t.Errorf("%s: waits %v, want %v", c.name, got, c.want)
		}
	}
}

func TestScheduleEndsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retry.UntilElapsed(10*time.Second, 4*time.Second).WithJitter(0).Schedule()
		var waits int
		for {
			wait, ok := s.Next()
			if !ok {
				break
			}
			waits++
			time.Sleep(wait)
		}
		if waits != 2 { // the third would end after 12 s
			t.Errorf("%d waits, want 2", waits)
		}
		s.Reset()
		if _, ok := s.Next(); !ok {
			t.Error("no wait after Reset")
		}
	})
}

func TestScheduleResets(t *testing.T) {
	s := retry.Exponential(time.Second, 2).WithJitter(0).Schedule()
	for range 2 {
		for _, want := range []time.Duration{time.Second, 2 * time.Second} {
			if got, ok := s.Next(); !ok || got != want {
				t.Fatalf("Next() = %v, %v; want %v", got, ok, want)
			}
		}
		if _, ok := s.Next(); ok {
			t.Fatal("a third wait, want two")
		}
		s.Reset()
	}
}

// drawPolicy draws a valid policy of a random kind, enormous values included,
// and its longest possible wait where one follows from the parameters.
func drawPolicy(t *rapid.T) (policy retry.Policy, most time.Duration) {
	retries := rapid.OneOf(rapid.IntRange(0, 50), rapid.Just(retry.Unlimited)).Draw(t, "retries")
	base := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base"))
	jitter := rapid.Float64Range(0, 1).Draw(t, "jitter")
	// A wait is computed in float64, with some five roundings to 53 bits: at
	// most 2^-50 of it, and a nanosecond where that is less.
	const rounding = 1.0 / (1 << 50)
	spread := time.Duration(min(float64(base)*(1+jitter)*(1+rounding)+1, 1<<62))
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		policy, most = retry.NTimes(retries, base), spread
	case 1:
		policy, most = retry.Forever(base), spread
	case 2:
		policy, most = retry.UntilElapsed(math.MaxInt64, base), spread
	case 3:
		policy, most = retry.Exponential(base, retries), 1<<62
	case 4:
		most = time.Duration(rapid.Int64Range(int64(base), math.MaxInt64).Draw(t, "max"))
		policy = retry.BoundedExponential(base, most, retries)
	}
	return policy.WithJitter(jitter), most
}

func TestWaitsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy, most := drawPolicy(t)
		if err := policy.Validate(); err != nil {
			t.Fatal(err)
		}
		for i, wait := range take(policy, 1100) {
			if wait < 0 || wait > most {
				t.Fatalf("wait %d is %v, want 0 to %v", i, wait, most)
			}
		}
	})
}

func TestRetriesAreCountedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1500).Draw(t, "n")
		base := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base"))
		for _, policy := range []retry.Policy{
			retry.NTimes(n, base), retry.Exponential(base, n), retry.BoundedExponential(base, base, n),
		} {
			if got := len(take(policy, n+10)); got != n {
				t.Fatalf("%d waits, want %d", got, n)
			}
		}
	})
}

// The default jitter has to scatter, and in the mean to keep the nominal wait.
func TestJitterScatters(t *testing.T) {
	const runs = 4000
	for _, c := range []struct {
		name   string
		policy retry.Policy
		low    time.Duration
		high   time.Duration
	}{
		{"fixed", retry.OneTime(time.Second), 900 * time.Millisecond, 1100 * time.Millisecond},
		{"exponential", retry.Exponential(time.Second, 1), 0, 2 * time.Second},
		{"at its bound", retry.BoundedExponential(2*time.Second, 2*time.Second, 1), 0, 2 * time.Second},
	} {
		least, most, sum := time.Duration(math.MaxInt64), time.Duration(0), time.Duration(0)
		for range runs {
			wait := take(c.policy, 1)[0]
			least, most, sum = min(least, wait), max(most, wait), sum+wait
		}
		// With 4000 draws each of these misses less than once in 10¹⁰ runs.
		width := c.high - c.low
		if least < c.low || least > c.low+width/10 || most > c.high || most < c.high-width/10 {
			t.Errorf("%s: waits from %v to %v, want %v to %v", c.name, least, most, c.low, c.high)
		}
		if mean := sum / runs; (mean - time.Second).Abs() > width/20 {
			t.Errorf("%s: mean %v, want about 1s", c.name, mean)
		}
	}
}
