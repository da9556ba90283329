package recipes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// extend reserves a window of time more, from used on if the IDs are ahead of
// the clock. It is for one caller at a time. It goes on through outages for as
// long as ctx and the session allow. If the claim is lost, or the slot is another's, the
// error wraps ErrLost and nothing more can be reserved; what is reserved already
// is not concerned.
func (id *WorkerID) extend(ctx context.Context, used int64) error {
	if err := id.Err(); err != nil {
		return err
	}
	w := id.workers
	if !w.clock.agrees() { // unless the machine was asleep, which stops the other clock
		if err := w.consult(ctx); err != nil {
			return err
		}
	}
	if id.pending != nil {
		if err := id.settle(ctx); err != nil {
			return err
		}
	}
	now := w.clock.wall()
	r := id.reservation()
	next := r.extend(now.UnixMilli(), used, w.settings.window.Milliseconds(), rand.Text())
	if err := w.withinLayout(&next, now); err != nil {
		return err
	}
	if next.slot.high <= r.slot.high {
		if next.slot.high < w.settings.layout.EndOfLife().UnixMilli() {
			return nil
		}
		return fmt.Errorf("%w: all of it is reserved", ErrLayoutExhausted)
	}
	return id.commit(ctx, next)
}

// commit writes a reservation. A write whose reply was lost is neither believed
// nor sent again before the slot has been read.
func (id *WorkerID) commit(ctx context.Context, next reservation) error {
	w, path := id.workers, id.SlotPath()
	var pauses pauses
	for {
		asked := w.clock.wall()
		results, err := w.client.Multi(ctx, id.Check(), framework.SetOp(path, next.slot.encode(), next.over).In(id.Session()))
		switch {
		case err == nil:
			id.confirm(next)
			_ = w.clock.heardServer(results[1].Stat.Modified, asked) // the next extension sees to it
			return nil
		case framework.IsUnknown(err):
			id.pending = &next
			if err := id.settle(ctx); err != nil || id.reservation() == next {
				return err
			}
			continue // it was not executed, and cannot be any more
		case ctx.Err() != nil:
			return withContext(ctx, err)
		case id.Err() != nil:
			return id.Err()
		case errors.Is(err, ErrLost):
			return id.hold.missing()
		case errors.Is(err, framework.ErrBadVersion), errors.Is(err, framework.ErrNoNode):
			return id.overtaken(err)
		case !framework.IsRetryable(err):
			return err
		}
		pauses.pause(ctx)
	}
}

// settle finds out what became of a write whose reply was lost. In a session
// that still lives the write is not on its way any more: once the session has
// come to another connection, servers refuse what is left of the old one.
func (id *WorkerID) settle(ctx context.Context) error {
	w, path := id.workers, id.SlotPath()
	var pauses pauses
	for {
		err := w.client.Sync(ctx, path)
		var data []byte
		var stat framework.Stat
		if err == nil {
			data, stat, err = w.client.Get(ctx, path)
		}
		switch {
		case err == nil:
			s, err := decodeSlot(data)
			if err != nil {
				return id.overtaken(err)
			}
			return id.judge(slotView{slot: s, version: stat.Version})
		case ctx.Err() != nil:
			return withContext(ctx, err)
		case errors.Is(err, framework.ErrNoNode):
			return id.overtaken(err)
		case id.Err() != nil:
			return id.Err()
		case !framework.IsRetryable(err):
			return err
		}
		pauses.pause(ctx)
	}
}

// judge concludes from what the slot holds.
func (id *WorkerID) judge(v slotView) error {
	pending := *id.pending
	switch pending.outcome(v) {
	case outcomeDone:
		id.confirm(pending)
	case outcomeOpen:
		id.pending = nil
	case outcomeLost:
		return id.overtaken(fmt.Errorf("it is %s's, generation %d", v.owner, v.generation))
	}
	return nil
}

func (id *WorkerID) confirm(r reservation) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.reserved, id.pending = r, nil
}

// overtaken ends the claim of a number whose slot somebody else has written.
func (id *WorkerID) overtaken(why error) error {
	err := id.hold.end(fmt.Errorf("%w: the slot %s was changed by another: %w", ErrLost, id.SlotPath(), why))
	id.workers.client.Logger().Warn("worker number lost: another has changed its slot", "slot", id.SlotPath(), "err", why)
	return err
}
