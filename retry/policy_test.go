package retry_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/retry"
)

func TestValidateNamesTheRefusedValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy retry.Policy
		value  string
	}{
		{"negative retries", retry.NTimes(-3, time.Second), "-3"},
		{"negative sleep", retry.NTimes(3, -time.Second), "-1s"},
		{"one time, negative sleep", retry.OneTime(-7), "-7ns"},
		{"no time", retry.UntilElapsed(0, time.Second), "0s"},
		{"negative time", retry.UntilElapsed(-time.Minute, time.Second), "-1m0s"},
		{"busy until elapsed", retry.UntilElapsed(time.Second, 0), "0s"},
		{"busy for ever", retry.Forever(0), "0s"},
		{"negative interval", retry.Forever(-2), "-2ns"},
		{"zero base", retry.Exponential(0, 3), "0s"},
		{"negative base", retry.Exponential(-5, 3), "-5ns"},
		{"negative retries, exponential", retry.Exponential(time.Second, -1), "-1"},
		{"max below base", retry.BoundedExponential(2*time.Second, time.Second, 3), "1s"},
		{"zero base, bounded", retry.BoundedExponential(0, time.Second, 3), "0s"},
		{"negative jitter", retry.OneTime(1).WithJitter(-0.5), "-0.5"},
		{"jitter above one", retry.OneTime(1).WithJitter(1.5), "1.5"},
		{"jitter not a number", retry.None().WithJitter(math.NaN()), "NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.policy.Validate()
			if !errors.Is(err, retry.ErrInvalidPolicy) {
				t.Fatalf("Validate() = %v, want ErrInvalidPolicy", err)
			}
			if !strings.Contains(err.Error(), c.value) {
				t.Errorf("%q does not name %s", err, c.value)
			}
			if wait, ok := c.policy.Schedule().Next(); ok {
				t.Errorf("the schedule of an invalid policy gave %v", wait)
			}
		})
	}
}

func TestValidateAcceptsTheEdges(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"zero":             {},
		"none":             retry.None(),
		"no retries":       retry.NTimes(0, 0),
		"at once":          retry.NTimes(3, 0),
		"unlimited":        retry.NTimes(retry.Unlimited, 1),
		"bound is base":    retry.BoundedExponential(5, 5, 0),
		"enormous":         retry.Exponential(math.MaxInt64, retry.Unlimited),
		"enormous bound":   retry.BoundedExponential(1, math.MaxInt64, retry.Unlimited),
		"enormous elapsed": retry.UntilElapsed(math.MaxInt64, math.MaxInt64),
		"full jitter":      retry.Forever(1).WithJitter(1),
	} {
		if err := policy.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
