package recipes

import (
	"context"
	"time"
)

// A renewal gets a generator more time: it extends the claim, or makes another.
// There is one at a time, on a goroutine of the client's, for all who wait for it.
type renewal struct {
	done   chan struct{} // closed when err is set
	err    error
	cancel context.CancelFunc
	// waiting counts who waits. Once nobody does, a renewal that was not begun in
	// the background is given up. Guarded by the generator's mu.
	waiting    int
	background bool
}

// renew waits for a renewal, of s or, if that is nil, for the first span.
func (g *Snowflake) renew(ctx context.Context, s *span) error {
	g.mu.Lock()
	if g.span.Load() != s { // it is done
		g.mu.Unlock()
		return nil
	}
	if g.renewal == nil && g.rests(failureRest) {
		defer g.mu.Unlock()
		return g.failure
	}
	r := g.begin(s, false)
	r.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.waiting--; r.waiting == 0 && !r.background {
			r.cancel()
		}
	}()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return waited(ctx, g.workers.client)
	}
}

// renewSoon begins a renewal of s in the background. One that has failed is not
// tried again for a tenth of a window.
func (g *Snowflake) renewSoon(s *span) {
	over := !g.reclaim && s.id.Err() != nil
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.renewal == nil && g.span.Load() == s && !over && !g.rests(g.workers.settings.window/10) {
		g.begin(s, true)
	}
}

// failureRest is how long the error of a renewal is that of all who would want
// another, so that many calls are not as many requests.
const failureRest = 50 * time.Millisecond

// rests reports whether a renewal has failed within the last d. The caller holds
// mu.
func (g *Snowflake) rests(d time.Duration) bool {
	return g.failure != nil && g.workers.clock.elapsed() < g.failedAt+d
}

// begin returns the renewal that is under way, or begins one. The caller holds
// mu.
func (g *Snowflake) begin(s *span, background bool) *renewal {
	if g.renewal != nil {
		return g.renewal
	}
	r := &renewal{done: make(chan struct{}), background: background, cancel: func() {}}
	if g.closed {
		r.err = errGeneratorClosed
		close(r.done)
		return r
	}
	ctx, cancel := context.WithCancel(g.working)
	if background { // nobody may be asking for IDs any more
		ctx, cancel = context.WithTimeout(g.working, g.workers.settings.window)
	}
	r.cancel = cancel
	g.renewal = r
	work := func() {
		defer cancel()
		err := g.replenish(ctx, s)
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case err != nil && g.closed:
			r.err = errGeneratorClosed
		case err != nil && ctx.Err() == nil: // else it was given up, and whoever has come since begins anew
			r.err, g.failure, g.failedAt = err, err, g.workers.clock.elapsed()
		}
		g.renewal = nil
		close(r.done)
	}
	if !g.workers.client.Go(work) {
		cancel()
		r.err, g.renewal = ErrClosed, nil
		close(r.done)
	}
	return r
}

// replenish extends the claim of s, or makes another if it is lost and there is
// to be one.
func (g *Snowflake) replenish(ctx context.Context, s *span) error {
	if s == nil {
		return g.takeOver(ctx, nil)
	}
	if !s.broken.Load() {
		used := s.layout.at(int64(s.state.Load() >> s.layout.SequenceBits)).UnixMilli()
		err := s.id.extend(ctx, used)
		if err == nil {
			s.reserved()
			g.look(s)
			return nil
		}
		if !g.reclaim || !isLoss(err) {
			return err
		}
	}
	return g.takeOver(ctx, s)
}

// takeOver claims a number for a new span, which takes the place of old. That
// one, if it may be used at all, is in use until then.
func (g *Snowflake) takeOver(ctx context.Context, old *span) error {
	if old != nil && old.isSealed() {
		_ = old.id.Release() // there may be no other number
	}
	id, err := g.workers.claim(ctx)
	if err != nil {
		return err
	}
	if old != nil {
		id.inherit(old)
		g.retire(old)
	}
	s := newSpan(id, g.lead, g.floor.Load())
	g.look(s)
	g.span.Store(s)
	if old != nil {
		_ = old.id.Release()
		g.workers.client.Logger().Info("IDs go on with another worker number",
			"root", g.workers.Root(), "was", old.number(), "is", s.number())
	}
	return nil
}

// retire seals s. Whatever comes after it is later.
func (g *Snowflake) retire(s *span) {
	next := s.seal()
	for next < sealed {
		floor := g.floor.Load()
		if next <= floor || g.floor.CompareAndSwap(floor, next) {
			return
		}
	}
}

const (
	// paceFrom is how many IDs between two looks at the clock make it worth
	// while to have a pacer look, and paceTo how few of them no more.
	paceFrom = 1000
	paceTo   = 250
	// paceRest is how many looks in a row have to find few.
	paceRest = 16
)

// pace lets a goroutine look at the clock for those who take IDs from s, for as
// long as they take many: a look takes longer than all the rest.
func (g *Snowflake) pace(s *span) {
	if s.id.Err() != nil || g.working.Err() != nil || !s.paced.CompareAndSwap(false, true) {
		return
	}
	began := g.workers.client.Go(func() {
		defer s.paced.Store(false)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for few := 0; few < paceRest && !s.isSealed(); {
			select {
			case <-ticker.C:
			case <-s.id.Done():
				return
			case <-g.working.Done():
				return
			}
			if few++; g.look(s).taken >= paceTo {
				few = 0
			}
		}
	})
	if !began {
		s.paced.Store(false)
	}
}
