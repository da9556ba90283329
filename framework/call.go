package framework

import (
	"context"
	"errors"

	"github.com/batonzk/baton/internal/wire"
)

// A call is one request and, once done is closed, its outcome.
type call struct {
	op      wire.OpCode
	request wire.Record
	reply   wire.Record // filled if err is nil
	// onReply is called in the receive path with the server's answer, good or
	// bad, before any later frame is looked at. It is not called if there
	// never is an answer.
	onReply func(*call)

	xid  int32
	sent int64 // when it was queued to be sent, see core.now
	code wire.Code
	err  error
	lost bool          // there was no answer: whether it was executed is unknown
	slot chan struct{} // what the outcome frees a place in, if not nil
	done chan struct{}
}

func newCall(op wire.OpCode, request, reply wire.Record) *call {
	return &call{op: op, request: request, reply: reply, done: make(chan struct{})}
}

// finish says that the server has answered.
func (c *call) finish() {
	if c.onReply != nil {
		c.onReply(c)
	}
	c.complete()
}

// fail says that no answer will come.
func (c *call) fail(err error) {
	c.err, c.lost = connectionLoss(err), true
	c.complete()
}

func (c *call) complete() {
	if c.slot != nil {
		<-c.slot
	}
	close(c.done)
}

// await waits for the answer. When ctx or the client ends first, the request
// may still be executed, and its answer is dropped.
func (c *call) await(ctx context.Context, core *core) error {
	select {
	case <-c.done:
		return c.outcome()
	default:
	}
	select {
	case <-c.done:
		return c.outcome()
	case <-ctx.Done():
		return &lostReply{contextError(ctx)}
	case <-core.ctx.Done():
		return &lostReply{ErrClosed}
	}
}

func (c *call) outcome() error {
	if c.lost {
		return &lostReply{c.err}
	}
	if c.err != nil {
		return &answer{code: c.code, err: c.err}
	}
	return nil
}

// roundTrip sends calls together and awaits the answer of the last, which is
// the last to come. The outcomes of the others are then known too.
func (c *conn) roundTrip(ctx context.Context, calls ...*call) error {
	last := calls[len(calls)-1]
	err := c.inFlight(ctx, last, func() error { return c.submit(calls...) })
	if err != nil {
		return err
	}
	return last.await(ctx, c.session.core)
}

// inFlight runs submit when the limit on requests in flight allows it. The
// place is the call's until it has its outcome, even if nobody waits for that
// any longer: what a silent server leaves unanswered stays bounded.
func (c *conn) inFlight(ctx context.Context, call *call, submit func() error) error {
	k := c.session.core
	select {
	case k.slots <- struct{}{}:
	case <-c.broken:
		return c.loss()
	case <-ctx.Done():
		return contextError(ctx)
	case <-k.ctx.Done():
		return ErrClosed
	}
	call.slot = k.slots
	if err := submit(); err != nil {
		<-k.slots
		return err
	}
	return nil
}

// lostReply is the error of a request that was sent and not answered.
type lostReply struct{ err error }

func (e *lostReply) Error() string { return e.err.Error() }
func (e *lostReply) Unwrap() error { return e.err }

// answer is the error of a request that the server refused.
type answer struct {
	code wire.Code
	err  error
}

func (e *answer) Error() string { return e.err.Error() }
func (e *answer) Unwrap() error { return e.err }

// contextError returns ctx's error with its cause, both visible to errors.Is.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return &contextEnd{err, cause}
}

// A contextEnd is the error of a call whose context is done. The cause can be
// anything, also what a server has answered to another operation, as in an
// errgroup: that must not pass for an answer to this one.
type contextEnd struct{ err, cause error }

func (e *contextEnd) Error() string { return e.err.Error() + ": " + e.cause.Error() }

func (e *contextEnd) Is(target error) bool {
	return errors.Is(e.err, target) || !isAnswer(target) && errors.Is(e.cause, target)
}

func (e *contextEnd) As(target any) bool {
	switch target.(type) {
	case **answer, **lostReply, **finalError:
		return false
	}
	return errors.As(e.cause, target)
}

// answered reports whether the server has answered. It does not block.
func (c *call) answered() bool {
	select {
	case <-c.done:
		return !c.lost
	default:
		return false
	}
}
