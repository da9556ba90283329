package recipes

import (
	"context"
	"time"

	"github.com/batonzk/baton/retry"
)

// A contender waits for as long as its context allows, so that what it tries
// over and over is not bounded by the client's retry policy, and is spread in
// time here, beyond the waits of that policy.
const longestPause = 500 * time.Millisecond

var pausePolicy = retry.BoundedExponential(10*time.Millisecond, longestPause, retry.Unlimited)

// pauses are the waits between rounds of one loop. The zero value is ready.
type pauses struct{ schedule *retry.Schedule }

// pause waits for a moment, longer with each call, or until ctx is done.
func (p *pauses) pause(ctx context.Context) {
	if p.schedule == nil {
		p.schedule = pausePolicy.Schedule()
	}
	d, _ := p.schedule.Next()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// reset begins anew.
func (p *pauses) reset() { p.schedule = nil }
