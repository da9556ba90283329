package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/retry"
)

// An operation is what the tries of one public call have in common.
type operation struct {
	client  *Client
	name    wire.OpCode
	path    string   // as the caller gave it
	ops     int      // of a multi
	session int64    // of the last try
	only    *Session // do not run in another session than this, if not nil
	// unknown says that a try was sent whose answer was lost, so that it may
	// have been executed. Operations that cannot tell their own first try
	// from somebody else's work report it.
	unknown bool
}

// finalError ends the retries although its cause alone could be tried again.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// run tries the operation, on whatever connection there is at each try, until
// it succeeds, fails for good, or the budget of the call tree is used up.
func (o *operation) run(ctx context.Context, try func(ctx context.Context, c *conn) error) error {
	k := o.client.core
	began, tries := time.Now(), 0
	err := retry.Do(ctx, k.retry, func(ctx context.Context) error {
		tries++
		return o.try(ctx, try)
	}, retry.If(IsRetryable))
	err = o.wrap(err)
	o.observed(ctx, began, tries, err)
	return err
}

func (o *operation) try(ctx context.Context, try func(ctx context.Context, c *conn) error) error {
	k := o.client.core
	c, err := k.connected(ctx, o.only)
	if err == nil {
		o.session = c.session.id
		err = try(ctx, c)
	}
	if o.only != nil && errors.Is(err, ErrSessionLost) {
		return &finalError{err}
	}
	return err
}

// send is a round trip of the operation's own request, first among calls,
// which is not to be executed twice unawares.
func (o *operation) send(ctx context.Context, c *conn, calls ...*call) error {
	err := c.roundTrip(ctx, calls...)
	if first := calls[0]; first.answered() {
		if first.err != nil || len(calls) == 1 {
			return first.outcome() // also if ctx ended just before it came
		}
		return err // of the others
	}
	var lost *lostReply
	if errors.As(err, &lost) {
		o.unknown = true
	}
	return err
}

// tooLarge refuses a request that does not fit, before there is even a
// connection; data is about how many bytes it holds. One that is not mainly
// data is looked at when it is sent.
func (o *operation) tooLarge(data int, request wire.Record) error {
	limit := o.client.core.maxRequest
	if data < limit/2 {
		return nil
	}
	if n := len(wire.Append(nil, &wire.RequestHeader{}, request)); n > limit {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, n, limit)
	}
	return nil
}

// wrap makes err the [Error] of the operation.
func (o *operation) wrap(err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: o.name.String(), Path: o.path, Unknown: o.unknown, Err: err, ops: o.ops}
	var a *answer
	if errors.As(err, &a) {
		e.Code = int32(a.code)
	}
	return e
}

// refuse is run for what is wrong before anything is sent.
func (o *operation) refuse(ctx context.Context, err error) error {
	err = o.wrap(err)
	o.observed(ctx, time.Now(), 0, err)
	return err
}
