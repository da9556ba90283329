package framework

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/retry"
)

// run keeps one session going after the other until the client closes.
func (k *core) run() {
	pauses := k.reconnect.Schedule()
	for {
		s := newSession(k)
		k.mu.Lock()
		k.session = s
		k.mu.Unlock()

		began := k.now()
		d, err := startDriver(s)
		if err != nil { // the driver refuses only what New has validated
			k.logger.Error("driver", "err", err)
			s.end(fmt.Errorf("%w: %w", ErrSessionLost, err))
		} else {
			k.watch(s)
			d.stop()
		}
		if k.ctx.Err() != nil {
			return
		}
		if k.now()-began > int64(s.patience()) {
			pauses.Reset() // not after a session that was lost at once
		}
		sleep(k.ctx, nextPause(pauses))
	}
}

// nextPause returns the schedule's next wait. One that has ended begins again.
func nextPause(s *retry.Schedule) time.Duration {
	wait, ok := s.Next()
	if !ok {
		s.Reset()
		wait, _ = s.Next()
	}
	return max(wait, minPause)
}

// minPause keeps a policy without waits from trying in a tight loop.
const minPause = 5 * time.Millisecond

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch returns when the session is over. It ends a session itself when the
// client closes, or when the driver is stuck before there is a deadline.
func (k *core) watch(s *Session) {
	stuck := time.NewTimer(s.untilStuck())
	defer stuck.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-k.ctx.Done():
			s.end(ErrClosed)
			return
		case <-stuck.C:
		}
		k.mu.Lock()
		established := s.established
		k.mu.Unlock()
		if established {
			stuck.Stop() // from now on the deadline watches
			continue
		}
		if s.untilStuck() <= 0 {
			s.end(fmt.Errorf("%w: the driver makes no progress", ErrSessionLost))
			return
		}
		stuck.Reset(s.untilStuck())
	}
}

// allow gives the driver d, and a session timeout in reserve, for its next step.
func (s *Session) allow(d time.Duration) {
	s.stuckAt.Store(s.core.now() + int64(d+s.core.sessionTimeout))
}

func (s *Session) untilStuck() time.Duration {
	return time.Duration(s.stuckAt.Load() - s.core.now())
}
