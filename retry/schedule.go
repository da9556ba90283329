package retry

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Schedule hands out the waits of one run of a [Policy], for loops that cannot
// be put into the shape of [Do]. It is not safe for concurrent use.
type Schedule struct {
	waits backoff.BackOff
	limit time.Duration
}

// Schedule starts a new run of p; where p ends by time, the time counts from
// here. The schedule of an invalid policy is empty.
func (p Policy) Schedule() *Schedule {
	s := &Schedule{limit: longest}
	if p.kind == kindNone || p.Validate() != nil {
		s.waits = &backoff.StopBackOff{}
		return s
	}
	if p.kind == kindBounded {
		s.limit = min(p.max, longest)
	}
	s.waits = p.waits(s.limit)
	if p.limitsRetries() {
		s.waits = backoff.WithMaxRetries(s.waits, uint64(p.maxRetries))
	}
	return s
}

// waits returns the waits of a valid policy, without its limit on retries.
func (p Policy) waits(limit time.Duration) backoff.BackOff {
	// The nominal wait stays where its jitter cannot carry it past the limit.
	nominal := time.Duration(float64(limit) / (1 + p.jitter))
	first := min(p.wait, nominal)
	b := &backoff.ExponentialBackOff{
		InitialInterval:     first,
		RandomizationFactor: p.jitter,
		Multiplier:          1,
		MaxInterval:         first,
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	switch p.kind {
	case kindExponential, kindBounded:
		b.Multiplier = 2
		b.MaxInterval = nominal
	case kindElapsed:
		b.MaxElapsedTime = p.max
	}
	b.Reset()
	return b
}

func (p Policy) limitsRetries() bool {
	return p.kind != kindElapsed && p.kind != kindForever && p.maxRetries != Unlimited
}

// Next returns how long to wait before the next retry, and true; or false when
// there shall be no further one. It does not block. The wait is never
// negative.
func (s *Schedule) Next() (time.Duration, bool) {
	wait := s.waits.NextBackOff()
	if wait == backoff.Stop {
		return 0, false
	}
	return min(wait, s.limit), true
}

// Reset begins the schedule again, as after a success.
func (s *Schedule) Reset() { s.waits.Reset() }
