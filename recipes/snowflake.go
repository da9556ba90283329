package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/framework"
)

// A Snowflake makes IDs of a worker number, the time and a sequence. Each ID is
// made of time that was reserved for this claim of the number by a committed
// compare-and-set; so no two generators of a root ever make the same one,
// whatever clocks, networks, pauses and lost sessions do. IDs of one generator
// rise, each call's being larger than those of all calls that had returned before it
// began.
//
// Beyond that are the copy of a machine that runs on beside it, and servers that were
// restored from a backup: docs/ids.md says what remains then.
//
// All methods are safe for concurrent use.
type Snowflake struct {
	workers *WorkerIDs
	lead    time.Duration
	reclaim bool
	err     error // why it cannot be used

	span  atomic.Pointer[span] // nil before the first claim
	floor atomic.Uint64        // stamps below were given out by earlier spans

	working context.Context // what renewals run with
	stop    context.CancelFunc

	mu       sync.Mutex
	renewal  *renewal      // under way
	failure  error         // of the last renewal that failed
	failedAt time.Duration // in monotonic time
	closed   bool

	closing sync.Once
	outcome error // of Close
}

// A SnowflakeOption changes one setting of a [Snowflake].
type SnowflakeOption func(*snowflakeSettings)

type snowflakeSettings struct {
	lead    time.Duration
	reclaim bool
	err     error
}

// WithMaxLead sets how far ahead of this process's clock an ID's time may be, 5 s
// unless set: what a burst beyond the layout's rate may borrow, and what remains
// possible when the clock is set back. At the limit Next waits, see there. With 0
// no ID is ahead of the clock.
func WithMaxLead(d time.Duration) SnowflakeOption {
	return func(s *snowflakeSettings) {
		if d < 0 || d > time.Hour {
			s.err = fmt.Errorf("%w: a lead of %v, want up to an hour", framework.ErrInvalidOption, d)
		}
		s.lead = d
	}
}

// WithReclaim has the generator claim another number when it has lost its own,
// and go on with that, instead of failing with [ErrLost] when its reserved time is
// over.
func WithReclaim() SnowflakeOption {
	return func(s *snowflakeSettings) { s.reclaim = true }
}

const defaultLead = 5 * time.Second

// NewSnowflake returns a generator that claims a number of workers by Start, or
// when it is first asked for an ID. It does no I/O; an option that makes no sense
// is reported by the first call that would do some.
func NewSnowflake(workers *WorkerIDs, opts ...SnowflakeOption) *Snowflake {
	s := snowflakeSettings{lead: defaultLead}
	nilOption := apply(&s, opts)
	g := &Snowflake{workers: workers, lead: s.lead, reclaim: s.reclaim}
	g.working, g.stop = context.WithCancel(context.Background())
	switch err := errors.Join(s.err, nilOption); {
	case workers == nil:
		g.err = fmt.Errorf("recipes: snowflake: %w: worker IDs are nil", framework.ErrInvalidOption)
	case workers.err != nil:
		g.err = workers.err
	case err != nil:
		g.err = fmt.Errorf("recipes: snowflake %q: %w", workers.Root(), err)
	}
	return g
}

// Start claims a number, if that has not been done, so that it is known that
// there is one before the first ID is wanted. It blocks and fails as
// [WorkerIDs.Claim] does.
func (g *Snowflake) Start(ctx context.Context) error {
	if g.err != nil {
		return g.err
	}
	for {
		if ctx.Err() != nil {
			return g.failed(waited(ctx, g.workers.client))
		}
		if g.working.Err() != nil {
			return g.failed(errGeneratorClosed)
		}
		if g.span.Load() != nil {
			return nil
		}
		if err := g.renew(ctx, nil); err != nil { // nil is also that of one that others have given up
			return g.failed(err)
		}
	}
}

// Worker returns the present claim, nil before the first. It is the generator's,
// which releases it.
func (g *Snowflake) Worker() *WorkerID {
	if s := g.span.Load(); s != nil {
		return s.id
	}
	return nil
}

// Next returns the next ID. Its time is not before that of this process's clock
// at the last look, which is at most about a millisecond ago, and at most the lead
// after it, see [WithMaxLead]. It needs no server while there is reserved time.
// Half a window before the end more is reserved in the background, and only then: a
// generator that is not asked for IDs writes nothing.
//
// It blocks, for as long as ctx allows,
//
//   - until the first claim has been made;
//   - until more is reserved, if the clock has come to the end of what is: after a
//     pause of more than half a window, or an outage;
//   - until the clock allows, if the IDs are ahead of it by the lead: after a burst,
//     after the clock was set back, or because the number's last owner has crashed
//     and had time reserved.
//
// It fails, besides with ctx, as [WorkerIDs.Claim] does, while it claims a number;
// with [ErrLost] if the number was lost and the reserved time is over, unless
// [WithReclaim] is set; with [ErrClockBehind] if the clock was set back by so much
// that it would have to wait longer than the lead and a window; with [ErrClockSkew]
// if the clock is off the servers' and the reserved time over; with
// [ErrLayoutExhausted] at the layout's end; with [ErrClosed], which is [ErrReleased]
// too, after Close; with ErrClosed after the client's Close, once the reserved time
// is over. An error is not for ever, except for ErrLost, ErrClosed and that
// of an option.
//
// If more time has passed than the process's monotonic clock knows of, by a second or
// more, the machine was asleep, or is the copy of one that runs elsewhere, with the
// same number and the same reserved time. So another number is claimed.
func (g *Snowflake) Next(ctx context.Context) (ID, error) {
	if s := g.span.Load(); s != nil && ctx.Err() == nil {
		if stamp, ok := s.next(); ok {
			return s.layout.id(int64(stamp), s.number()), nil
		}
	}
	s, stamp, _, err := g.take(ctx, 1)
	if err != nil {
		return 0, err
	}
	return s.layout.id(int64(stamp), s.number()), nil
}

// NextN returns n IDs, in order; none, without a look at anything, if n is 0. It
// blocks and fails as Next does; if it fails it returns none.
func (g *Snowflake) NextN(ctx context.Context, n int) ([]ID, error) {
	if n < 0 {
		return nil, g.failed(fmt.Errorf("%w: %d IDs, want 0 or more", framework.ErrInvalidOption, n))
	}
	var ids []ID
	for len(ids) < n {
		s, first, got, err := g.take(ctx, uint64(n-len(ids)))
		if err != nil {
			return nil, err
		}
		if ids == nil {
			ids = make([]ID, 0, n)
		}
		for stamp := first; stamp < first+got; stamp++ {
			ids = append(ids, s.layout.id(int64(stamp), s.number()))
		}
	}
	return ids, nil
}

// take takes at least one stamp and up to n, waiting for what it takes.
func (g *Snowflake) take(ctx context.Context, n uint64) (s *span, first, got uint64, err error) {
	if g.err != nil {
		return nil, 0, 0, g.err
	}
	for {
		if ctx.Err() != nil {
			return nil, 0, 0, g.failed(waited(ctx, g.workers.client))
		}
		s := g.span.Load()
		if s == nil {
			err = g.renew(ctx, nil)
		} else {
			glance := g.look(s)
			if first, got = s.take(n); got > 0 {
				return s, first, got, nil
			}
			err = g.await(ctx, s, glance)
		}
		if err != nil {
			return nil, 0, 0, g.failed(err)
		}
	}
}

// look looks at the clock, and sees to what follows from it.
func (g *Snowflake) look(s *span) glance {
	glance := s.look()
	switch {
	case glance.broken:
		g.retire(s)
	case glance.renew, g.reclaim && s.id.Err() != nil:
		g.renewSoon(s)
	}
	if glance.taken >= paceFrom {
		g.pace(s)
	}
	return glance
}

// await waits until s may have a stamp, or there is another span.
func (g *Snowflake) await(ctx context.Context, s *span, glance glance) error {
	state := s.state.Load()
	bits := s.layout.SequenceBits
	if s.isSealed() || state >= s.limit.Load() || uint64(max(glance.now, 0))<<bits >= s.limit.Load() {
		return g.renew(ctx, s)
	}
	ahead := time.Duration(int64(state>>bits)-glance.now) * s.layout.Unit
	wait := ahead - time.Duration(s.lead)*s.layout.Unit
	if wait <= 0 {
		return nil // the clock has moved since
	}
	behind := func() error {
		return fmt.Errorf("%w: it says %s, and they are at %s, where %v are allowed", ErrClockBehind,
			clockText(s.layout.at(glance.now)), clockText(s.layout.at(int64(state>>bits))), g.lead)
	}
	if wait > g.lead+g.workers.settings.window { // more than a crash's leftover
		return behind()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return withContext(ctx, behind())
	}
}

func (g *Snowflake) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("recipes: IDs of %s: %w", g.workers.Root(), bare{err})
}

// Close ends the generator and releases its number, for which it blocks as
// [Lease.Release] does, and returns what that returns. No ID is made any more
// when it has returned. It may be called again.
func (g *Snowflake) Close() error {
	g.closing.Do(func() {
		g.mu.Lock()
		g.closed = true
		renewal := g.renewal
		g.mu.Unlock()
		g.stop()
		if renewal != nil {
			<-renewal.done
		}
		if s := g.span.Load(); s != nil {
			g.retire(s)
			g.outcome = s.id.Release()
		}
	})
	return g.outcome
}

// isLoss reports whether err says that nothing more can be reserved by a claim.
func isLoss(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) || errors.Is(err, framework.ErrSessionLost)
}
